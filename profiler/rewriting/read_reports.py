"""Reports of `simprof read`: an execution rebuilt from its trace, and a whole program path."""

from __future__ import annotations

import json
from collections.abc import Iterator

from simprof.profiler.profiles.codec import encode
from simprof.profiler.profiles.documents import result_head
from simprof.profiler.profiles.tables import address_text
from simprof.profiler.reports.display import percent, plural, visible
from simprof.profiler.request.request import Selection
from simprof.profiler.rewriting.elsewhere.whole_path import ExecutedSymbol, WholePath
from simprof.profiler.schemes.cost_model import this_simprof
from simprof.profiler.schemes.mode_options import setting_object
from simprof.profiler.session.observation import planning_options
from simprof.profiler.trace.calls import CallProfile
from simprof.profiler.trace.regeneration import Regenerated


def regenerated_json(regenerated: Regenerated, calls: CallProfile | None = None) -> str:
    """Return one JSON object (format `simprof/read`) with a newline; `calls`: those counted."""
    result, header = regenerated.result, regenerated.trace.header
    program = {
        "file": str(regenerated.program),
        "sha256": header.sha256,
        "machine": header.machine,
        "arguments": list(header.arguments),
    }
    setting = setting_object(header.mode, header.options or {}, None)
    about = "read", program, header.input_sha256, setting
    answer: dict[str, object] = {
        **result_head(*about, measured_by=this_simprof()),
        "blocks": result.blocks,
        "transfers": result.crossings,
        "instructions": regenerated.instructions,
        "trace_bits": result.bits,
        "events": len(regenerated.trace.events),
        "complete": regenerated.complete,
        "checked": regenerated.checked,
        "problem": result.problem,
        "position": {
            "block": None if regenerated.block is None else address_text(regenerated.block),
            "routine": regenerated.routine,
        },
    }
    if calls is not None:
        answer["call_paths"] = encode(calls)
    return json.dumps(answer, indent=1) + "\n"


def regenerated_text(regenerated: Regenerated, calls: CallProfile | None = None) -> str:
    """Return a summary of a few lines, and the most frequent call paths where they were counted."""
    result, header = regenerated.result, regenerated.trace.header
    state = "whole" if regenerated.complete else "incomplete"
    if regenerated.complete and regenerated.checked:
        state = "whole, and as executed"
    lines = [
        f"{regenerated.program}: {header.mode} trace, {state}",
        f"  {result.blocks:,} blocks executed, {regenerated.instructions:,} instructions in them",
        f"  {result.crossings:,} edges crossed, from {(result.bits + 7) // 8:,} bytes of trace",
    ]
    return "\n".join([*lines, *([] if calls is None else _call_lines(calls))]) + "\n"


def _call_lines(calls: CallProfile) -> Iterator[str]:
    yield (
        f"  {calls.activations:,} activations along {calls.executed:,} call paths "
        f"({calls.potential:,} in the call graph)"
    )
    if calls.dynamic:
        yield (
            f"  {calls.dynamic_activations:,} of them along {calls.dynamic:,} with calls that the "
            "call graph lacks"
        )
    width = max((len(f"{path.entered:,}") for path in calls.paths), default=0)
    for path in calls.paths:
        number = "-" if path.number is None else f"{path.number:,}"
        yield f"  {path.entered:>{width},}  {number}  {' > '.join(map(visible, path.routines))}"


def problem(regenerated: Regenerated, name: str) -> str:
    """Return one line that says how far the trace `name` led, and why no further."""
    result = regenerated.result
    where = "of the program"
    if regenerated.block is not None:
        where = f"to {regenerated.block:#x} in {regenerated.routine}"
    return (
        f"{name}: regenerated {result.blocks} blocks, up to edge {result.crossings} {where}: "
        f"{result.problem}"
    )


def subpaths_json(whole: WholePath, shown: int) -> str:
    """Return one JSON object (format `simprof/subpaths`) with a newline, with the `shown` hottest
    subpaths.
    """
    program = {
        "file": whole.program.file,
        "sha256": whole.program.sha256,
        "machine": str(whole.program.machine),
        "arguments": [],
    }
    options = planning_options(whole.setting.options, Selection())
    setting = setting_object(whole.setting.mode, options, None)
    answer = {
        **result_head("subpaths", program, None, setting, measured_by=this_simprof()),
        "symbols": whole.length,
        "different_symbols": len(whole.symbols),
        "trace_bytes": whole.bytes,
        "zstd_bytes": whole.compressed,
        "rules": len(whole.grammar.bodies),
        "grammar_symbols": whole.grammar.symbols,
        "grammar_bytes": whole.grammar.bytes,
        "instructions": whole.instructions,
        "longest": whole.longest,
        "threshold": whole.threshold,
        "hot_subpaths": len(whole.hot),
        "subpaths": [
            {
                "occurrences": each.occurrences,
                "instructions": each.cost,
                "paths": [
                    {
                        "routine": symbol.cfg.name,
                        "path": symbol.number,
                        "blocks": _blocks(symbol),
                    }
                    for symbol in map(whole.symbols.__getitem__, each.symbols)
                ],
            }
            for each in whole.hot[:shown]
        ],
    }
    return json.dumps(answer, indent=1) + "\n"


def subpaths_text(whole: WholePath, shown: int) -> str:
    """Return a summary of a few lines, and the `shown` hottest subpaths."""
    return "\n".join(_subpath_lines(whole, shown)) + "\n"


def _subpath_lines(whole: WholePath, shown: int) -> Iterator[str]:
    grammar = whole.grammar
    yield f"{visible(whole.program.file)}: {whole.setting.name} whole program path"
    yield (
        f"  {plural(whole.length, 'path')} executed, {len(whole.symbols):,} different, "
        f"{plural(whole.instructions, 'instruction')} in them"
    )
    yield f"  {plural(whole.bytes, 'byte')} of trace, {whole.compressed:,} under zstandard"
    yield (
        f"  grammar: {plural(len(grammar.bodies), 'rule')} of {plural(grammar.symbols, 'symbol')}, "
        f"{plural(grammar.bytes, 'byte')}"
    )
    yield (
        f"  {plural(len(whole.hot), 'minimal hot subpath')}: "
        f"of {plural(whole.longest, 'path')} at most, "
        f"{whole.threshold:g} % of the instructions at least"
    )
    for each in whole.hot[:shown]:
        share = percent(each.cost, whole.instructions)
        yield f"  {share}  {plural(each.occurrences, 'time')}, {plural(each.cost, 'instruction')}"
        for symbol in map(whole.symbols.__getitem__, each.symbols):
            yield f"      {visible(symbol.cfg.name)} {symbol.number}: {' '.join(_blocks(symbol))}"


def _blocks(symbol: ExecutedSymbol) -> list[str]:
    return [str(symbol.cfg.name_of(block)) for block in symbol.path.blocks]
