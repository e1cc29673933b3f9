"""BL94 6.3 as a table: what free registers save (Ball and Larus, 1994, "Register scavenging")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simprof.profiler.experiments.cells.cells import CellResult
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.tables.bl94 import FOLDED, PAPER
from simprof.profiler.experiments.tables.claims import AT_LEAST, AT_MOST, judge, mean_is
from simprof.profiler.experiments.tables.spec import Found, Need, Program, TableSpec
from simprof.profiler.experiments.tables.table import (
    Bars,
    Claim,
    Column,
    Form,
    ReportTable,
    Value,
    percentage,
)

SAVED = Need(setting("qpt2", blocks=FOLDED, registers="saved"))
SCAVENGED = Need(setting("qpt2", blocks=FOLDED, registers="scavenged"))
LIVE = Need(setting("qpt2", blocks=FOLDED))


def reduction(before: int, after: int) -> float | None:
    """Return by how many percent a number fell; None of nothing."""
    return percentage(before - after, before)


def overheads(program: Program, found: Found) -> Iterator[Sequence[Value]]:
    """Return a row: overheads, and by how much each way reduces the first."""
    saved, scavenged, live = (found[name] for name in ("saved", "scavenged", "live"))
    yield (
        program.name,
        *(percentage(each.added, each.base) for each in (saved, scavenged, live)),
        reduction(saved.added, scavenged.added),
        reduction(_whole(saved), _whole(scavenged)),
        reduction(saved.added, live.added),
    )


def _whole(result: CellResult) -> int:
    return result.base + result.added


def judge_registers(table: ReportTable) -> Iterator[Claim]:
    """Judge what section 6.3 says of register scavenging."""
    yield judge(
        "Register scavenging has little effect on the overhead of many programs, and reduces that "
        "of others by a few percent or by 6-21 %.",
        mean_is(table, "less", AT_LEAST, 0, " %", others=("saved", "scavenged")),
        mean_is(table, "less", AT_MOST, 21, " %", others=("saved", "scavenged")),
    )


REGISTERS = TableSpec(
    "bl94-registers",
    "BL94 section 6.3: register scavenging",
    f"{PAPER}, section 6.3",
    "Overhead of counters on the chords of a spanning tree, in percent of base instructions: with "
    "every register saved and restored, with unused caller-saved registers free (scavenged), and "
    "with all that are dead at the counter free (liveness, as everywhere else here). Reductions "
    "are of the overhead and of the whole run, against the first.",
    (
        Column("program", "program"),
        Column("saved", "saved %", Form.PERCENT),
        Column("scavenged", "scavenged %", Form.PERCENT),
        Column("live", "liveness %", Form.PERCENT),
        Column("less", "scavenging: less overhead %", Form.PERCENT),
        Column("less_run", "less run %", Form.PERCENT),
        Column("less_live", "liveness: less overhead %", Form.PERCENT),
    ),
    {"saved": SAVED, "scavenged": SCAVENGED, "live": LIVE},
    overheads,
    judge_registers,
    notes=(
        "The paper prints no table: little effect for many programs, FORTRAN ones above all; a few "
        "percent less, and 6-21 % less, for others.",
        "A counter takes 4 instructions here and 8 where it saves two registers; on the paper's "
        "MIPS 5 and 11.",
    ),
    bars=Bars(("saved", "scavenged", "live"), "% of base instructions"),
)

TABLES = (REGISTERS,)
