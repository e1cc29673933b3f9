"""What traces take, and what can be predicted of them: `traces`, `net`.

Beside what was published, with marks of how that is known: [S] from a text that cites the paper,
[A] from an abstract, [M] from memory, unchecked. Published numbers are of other programs, on other
machines.
"""

from __future__ import annotations

from typing import Any

from simprof.profiler.experiments.cells.cells import CellKind, CellResult
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables import claims, columns
from simprof.profiler.experiments.tables.claims import rule, untestable
from simprof.profiler.experiments.tables.columns import (
    PROGRAM,
    ColumnSpec,
    Found,
    Quantity,
    ResultOf,
)
from simprof.profiler.experiments.tables.conditions import Between, at_least
from simprof.profiler.experiments.tables.spec import CellNeed, TableSpec
from simprof.profiler.experiments.tables.table import Bars, ratio
from simprof.profiler.trace.net import DELAYS

_MILLION = 1_000_000


def _bytes(need: str, size: str, *, bits: bool = False) -> Quantity[Found]:
    """Return bytes for each million instructions of the program."""

    def of(result: CellResult) -> Any:
        found = result.sizes.get(size)
        if found is None:
            return None
        return _MILLION * (-(-found // 8) if bits else found) / result.base

    return ResultOf(need).of(of)


def _trace(mode: str) -> ColumnSpec[Found]:
    return columns.decimal(mode, mode, _bytes(mode, "trace_bits", bits=True))


def _paths(key: str, title: str, size: str) -> ColumnSpec[Found]:
    return columns.decimal(key, title, _bytes("paths", size))


def _number(key: str, title: str, size: str) -> ColumnSpec[Found]:
    return columns.total(key, title, ResultOf("paths").of(lambda result: result.sizes.get(size)))


_PATHS = CellNeed(setting("wpp"), kind=CellKind.EXECUTE)

TRACES = TableSpec[Found](
    "traces",
    "Traces of one execution: bytes for each million instructions",
    "after J. R. Larus, Whole Program Paths, PLDI 1999; C. G. Nevill-Manning and I. H. Witten, "
    "SEQUITUR, 1997; B. Li, L. Wang and H. Leung, PAP, 2012",
    "Bytes of trace for each million of the program's instructions: witnesses, branch outcomes as "
    "bits, numbers of ways into blocks (pap), symbols of paths (wpp) as they are written, as a "
    "grammar of SEQUITUR's, and compressed with zstandard. Overheads in percent of the "
    "uninstrumented run's. The grammar is written plainly: as few bits a symbol as tell all apart, "
    "and a word for each different path; none is made of more than 64 MiB.",
    {
        **{mode: CellNeed(setting(mode)) for mode in ("witness", "bits", "pap", "wpp", "pp")},
        "paths": _PATHS,
    },
    (
        PROGRAM,
        _trace("witness"),
        _trace("bits"),
        _trace("pap"),
        _trace("wpp"),
        _paths("grammar", "wpp grammar", "grammar_bytes"),
        _paths("zstd", "wpp zstd", "path_zstd_bytes"),
        _number("symbols", "symbols", "path_symbols"),
        _number("rules", "rules", "grammar_rules"),
        columns.of_overhead("witness", "witness %", key="witness_overhead"),
        columns.of_overhead("bits", "bits %", key="bits_overhead"),
        columns.of_overhead("pap", "pap %", key="pap_overhead"),
        columns.of_overhead("wpp", "wpp %", key="wpp_overhead"),
        columns.of_overhead("pp", "pp %", key="pp_overhead"),
    ),
    (
        rule(
            "Whole program paths of hundreds of MB become grammars of tens of MB (abstract of a "
            "later paper, [A]).",
            claims.means_give("wpp by its grammar", ratio, "wpp", "grammar", at_least(3)),
        ),
        rule(
            "PAP costs about twice what PP does, and more in tight loops, up to 5.6 times (cited, "
            "[S]).",
            claims.means_give("pap by pp", ratio, "pap_overhead", "pp_overhead", Between(1.5, 2.5)),
        ),
        untestable(
            "Arithmetic coding of branch bits takes less than a fifth of these (abstract, [A]).",
            "there is no such coder here",
        ),
    ),
    bars=Bars(("witness", "bits", "pap", "grammar", "zstd"), "bytes", logarithmic=True),
)


def _percent(delay: int, part: str, *wholes: str) -> Quantity[Found]:
    """Return the share of a count of NET's in the sum of others, in percent."""

    def of(result: CellResult) -> Any:
        known = [result.sizes.get(f"net_{name}_{delay}") for name in (part, *wholes)]
        if None in known:
            return None
        count, *sums = (each or 0 for each in known)
        return 100 * count / sum(sums) if sum(sums) else None

    return ResultOf("paths").of(of)


NET = TableSpec[Found](
    "net",
    "Hot paths predicted by their heads, by delay",
    "after E. Duesterwald and V. Bala, Software Profiling for Hot Path Prediction: Less is More, "
    "ASPLOS 2000",
    "Of all executions of hot paths those that a trace had been chosen for before (hits), and of "
    "all executions in traces those of other paths (noise), in percent, by how often a head is "
    "executed before its trace is chosen. Paths go from the target of a backward transfer to the "
    "next; hot is what has 0.1 % of all executions. Heads: counters in use at one time with a "
    "delay of 50, the most, beside the different paths, which a path profile counts. Dynamo's "
    "delay is 50 [M].",
    {"paths": _PATHS},
    (
        PROGRAM,
        _number("executions", "executions", "net_executions_50"),
        _number("paths", "paths", "net_paths"),
        _number("heads", "heads", "net_counters_50"),
        _number("traces", "traces", "net_traces_50"),
        *(
            columns.percent(f"hits{delay}", f"{delay}: hits", _percent(delay, "hits", "hot"))
            for delay in DELAYS
        ),
        *(
            columns.percent(
                f"noise{delay}", f"{delay}: noise", _percent(delay, "noise", "noise", "hits")
            )
            for delay in DELAYS
        ),
    ),
    bars=Bars(("hits1", "hits50", "hits1000"), "%"),
)

TABLES = (TRACES, NET)
