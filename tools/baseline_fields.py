"""What the baselines hold: settings, the fields of answers that are digested, and the digest.

Digests are over chosen fields, so that a new field of an answer changes none of them, and over
floats of nine digits, so that the order in which weights are added up changes none either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

DIGITS = 12

MODES = (
    "pp",
    "qpt2",
    "qpt",
    "witness",
    "bits",
    "wpp",
    "pap",
    "bittrace",
    "tpp",
    "ppp",
    "pref",
    "kiter",
    "kblpp",
    "naive",
    "calls",
    "calls-optimal",
    "bytes",
    "block-trace",
    "fifo",
    "sampled",
    "pep",
)
# Variants of registers: graphs have no code that needs them
REGISTERS = (
    "qpt2:registers=scavenged:blocks=merged",
    "qpt:registers=stolen",
    "qpt2:registers=stolen",
)
VARIANTS = (
    "pp:table=hash",
    "pp:weights=uniform",
    "pp:path-limit=20",
    "qpt2:weights=uniform",
    "qpt:placement=vertex-optimal",
    "qpt:placement=edge-heuristic",
    "qpt:placement=edge",
    "qpt:placement=mixed",
    "qpt:blocks=merged",
    *REGISTERS,
    "bittrace:table=hash",
    "tpp:cold=0.1:loop=0.5",
    "tpp:cold=1:loop=1",
    "tpp:cold=10:loop=25",
    "tpp:cold=10:loop=25:cold-always",
    "tpp:cold=10:loop=25:cold-always:literal-cold",
    "tpp:cold=10:loop=25:cold-always:obvious-first:branching",
    "tpp:table=hash",
    "kiter:k=3",
    "kiter:table=hash",
    "kiter:table=hash:k=3",
    "kblpp:k=4",
    "pref:least=5:everywhere",
    "pref:least=5:fall-back:everywhere",
    "kblpp:table=hash",
)
# Variants that graphs are enough to tell
GRAPH_VARIANTS = (
    "qpt2:blocks=merged",
    "kiter:k=3:hot=40",
    "kiter:give-up=50",
    "kiter:outer",
    "kiter:k=3:outer",
    "pp:exit-entry=chord",
    "pp:exit-entry=cheaper",
    "pp:path-limit=20:per-vertex",
    "bittrace:merged",
    "qpt2:weights=wall",
    "qpt2:weights=forman",
    "pp:weights=forman",
)
GRAPH_SETTINGS = (*MODES, *(x for x in VARIANTS if x not in REGISTERS), *GRAPH_VARIANTS)
PROGRAM_SETTINGS = ("edges", *MODES, *VARIANTS, "tpp:first=10000")
# Options that few programs are enough to tell
FEW_SETTINGS = (
    "edges",
    "kiter:outer",
    "kiter:k=3:outer",
    "pp:weights=forman",
    "qpt2:weights=forman",
    "bits:addresses",
    "block-trace:addresses",
    "bytes:addresses",
    "witness:addresses",
)
PROFILE_SETTINGS = ("edges", *MODES, "tpp:cold=10:loop=25:cold-always", "kiter:k=3")

TOTALS: Mapping[str, tuple[str, ...]] = {
    "counts": (
        "blocks",
        "edge_increments",
        "hashed_increments",
        "inferred_paths",
        "path_increments",
        "system_calls",
        "trace_tokens",
        "transfers",
        "unattributed_instructions",
        "unattributed_transfers",
    ),
    "lost": (
        "cold_paths",
        "flow_blocks",
        "overcounted_blocks",
        "overcounted_paths",
        "undercounted_blocks",
        "unknown_edges",
        "unknown_unfinished",
    ),
    "sizes": (
        "address_bits",
        "code_bytes",
        "counter_bytes",
        "minimal_trace_bits",
        "snippets",
        "trace_bits",
    ),
}
"""Field of an answer -> the totals in it."""

METRICS = tuple(f"{title}.{name}" for title, names in TOTALS.items() for name in names)
ROUTINE_NUMBERS = ("activations", "added", "cut_edges", "instructions", "paths")

RECORDED: Mapping[str, Mapping[str, str]] = {
    "edges": {
        "symbol": "routine",
        "source": "source",
        "target": "target",
        "kind": "kind",
        "executions": "count",
        "instrumented": "instrumented",
    },
    "paths": {
        "symbol": "routine",
        "path": "id",
        "executions": "count",
        "instructions_per_execution": "instructions",
        "partial": "partial",
        "edges": "edges",
    },
    "blocks": {"symbol": "routine", "block": "block", "executions": "count"},
}
"""List of an answer -> the columns of its rows that are digested, with their names when the
baselines were recorded: digests of counts do not change with words."""

ROUTINE = {
    "symbol": "name",
    "blocks": "blocks",
    "edges": "edges",
    "back_edges": "back_edges",
    "irreducible": "irreducible",
    "potential_paths": "potential_paths",
    "cut_edges": "cut_edges",
    "table": "table",
    "addressing": "addressing",
    "path_register": "path_register",
    "entered": "activations",
}
STATIC = tuple(
    "back_edges weights code sparc costs taken_costs block_code block_sparc block_end_code "
    "block_end_sparc num_paths values tree increments dummy_edges valid_paths cut_edges loops "
    "compensation invalid_paths labels bits words largest_code edge_profile cold locally_cold "
    "disconnected_loops counted_paths obvious witnesses minimal_width counted_blocks counted_edges "
    "removed_counters pairs disrupted_blocks disrupted_edges branches records record_bits".split()
)


def digest(facts: object) -> str:
    """Return the first hexadecimal digits of the SHA-256 of a canonical text."""
    text = json.dumps(_canonical(facts), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _canonical(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:#x}"  # a count may have more digits than Python likes to write
    if isinstance(value, Mapping):
        return {str(key): _canonical(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in value]
    return value


def chosen(found: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return those of the named fields that there are."""
    return {name: found[name] for name in names if name in found}


def as_recorded(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of a row that are digested, as they were when that began."""
    found = {old: _name(row[new]) for new, old in names.items() if new in row}
    if found.get("edges", row) is None:
        del found["edges"]
    if "blocks" in row and "path" in row:
        blocks = [each.removeprefix(LOOP) for each in row["blocks"]]
        slots = [at for at, block in enumerate(blocks) if block.startswith(SLOT)]
        found |= {"slots": slots, "blocks": [each.removeprefix(SLOT) for each in blocks]}
    return found


SLOT, LOOP = "slot ", "loop "


def _name(value: object) -> object:
    """Return a value; a slot block's name as the object that it was."""
    if isinstance(value, str) and value.startswith(f"{SLOT}0x"):
        return {"slot": value.removeprefix(SLOT)}
    return value
