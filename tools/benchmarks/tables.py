"""Tables of rows: titles and cells, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tools.benchmarks.commands import ALL_MODES, COMMANDS, NUMBA, PEERS, QEMU
from tools.benchmarks.growth import EVENT_CONFIGURATIONS, per_event
from tools.benchmarks.limits import Verdict
from tools.benchmarks.rows import Part, Row, find

SEPARATOR = "-"
"""What stands where nothing was measured."""
SHOWN = tuple(each for each in COMMANDS if each != ALL_MODES)
"""What is measured of all programs."""


@dataclass(frozen=True)
class Table:
    """Titles of columns, and rows of as many cells. The first column holds words."""

    titles: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return the table as it stands in a page."""
        ruler = ("---", *("---:" for _ in self.titles[1:]))
        lines = (self.titles, ruler, *self.cells)
        return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)

    def text(self) -> str:
        """Return the table for a terminal."""
        lines = (self.titles, *self.cells)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "".join(
            "  ".join(
                cell.ljust(width) if number == 0 else cell.rjust(width)
                for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ).rstrip()
            + "\n"
            for cells in lines
        )


def number(value: float) -> str:
    """Return a number with three digits that count: 0.123, 1.23, 12.3, 123."""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def cell(row: Row | None, value: Callable[[Row], str]) -> str:
    """Return what stands in a cell: a value of a row, or what became of the row."""
    if row is None:
        return SEPARATOR
    if row.outcome == "timeout":
        return f"> {row.wall:.0f} s"
    return value(row) if row.outcome == "ok" else "failed"


def engine_table(rows: Sequence[Row]) -> Table:
    """Return the engine's rows: times in units of the bare engine's."""
    lines = []
    for row in rows:
        if row.part != "engine":
            continue
        bare = find(rows, "engine", row.program, "bare")
        speed = row.instructions / 1e6 / row.cpu
        ratio = number(row.cpu / bare.cpu) if bare else SEPARATOR
        lines.append(
            (f"{row.program}, {row.configuration}", f"{row.instructions / 1e6:,.0f}",
             number(row.cpu), number(row.wall), number(speed), ratio)
        )  # fmt: skip
    titles = ("workload, configuration", "M instructions", "emulation, s", "whole, s",
              "M instructions/s", "x bare")  # fmt: skip
    return Table(titles, tuple(lines))


def last(rows: Sequence[Row], *key: str) -> Row | None:
    """Return the row whose key begins like this, whatever became of it."""
    found = [row for row in rows if row.key[: len(key)] == key]
    return found[-1] if found else None


def command_table(rows: Sequence[Row], programs: Sequence[str], state: str) -> Table:
    """Return the times of whole commands, a line a program; cold or warm."""
    lines = []
    for name in programs:
        qemu = last(rows, "command", name, QEMU)
        lines.append(
            (
                name,
                cell(qemu, lambda row: f"{row.instructions / 1e6:,.0f}"),
                *(cell(last(rows, "command", name, each), times) for each in PEERS),
                *(cell(last(rows, "command", name, each, state), times) for each in SHOWN),
            )
        )
    commands = tuple(_command_title(each) for each in SHOWN)
    titles = ("program", "M instructions", *map(_peer_title, PEERS), *commands)
    return Table(titles, tuple(lines))


def _peer_title(configuration: str, unit: str = "s") -> str:
    return f"qemu + {PEERS[configuration]}, {unit}"


def times(row: Row) -> str:
    """Return wall-clock time and, in parentheses, processor time."""
    return f"{number(row.wall)} ({number(row.cpu)})"


def memory_table(rows: Sequence[Row], programs: Sequence[str]) -> Table:
    """Return the memory of whole commands, a line a program; cold, in megabytes."""
    lines = []
    for name in programs:
        taken = (last(rows, "command", name, each, "cold") for each in SHOWN)
        cells = [cell(row, lambda row: number(row.peak / 1e6)) for row in taken]
        lines.append((name, *cells))
    titles = [_command_title(each).removesuffix(", s") for each in SHOWN]
    return Table(("program", *titles), tuple(lines))


def _command_title(configuration: str) -> str:
    command, _, mode = configuration.partition("-")
    return "`compare`, s" if command == "compare" else f"`run` {mode}, s"


def detail_table(rows: Sequence[Row], part: Part = "command") -> Table:
    """Return all that was measured of each command."""
    lines = []
    for row in rows:
        if row.part != part:
            continue
        state = f", {row.state}" if row.state else ""
        given = f" {' '.join(row.arguments)}" if part in ("length", "event") else ""
        runs = f"{row.whole_runs} of {row.runs}" if row.runs else ""
        lines.append(
            (
                f"{row.program}{given}, {row.configuration}{state}",
                cell(row, lambda each: number(each.wall)),
                cell(row, lambda each: number(each.cpu)),
                cell(row, lambda each: number(each.peak / 1e6)),
                runs if row.outcome == "ok" else SEPARATOR,
                SEPARATOR if row.beside is None else f"{row.beside:.1f}",
            )
        )
    titles = ("command", "wall, s", "processor, s", "memory, MB", "whole of all runs",
              "cores beside")  # fmt: skip
    return Table(titles, tuple(lines))


def limit_table(verdicts: Sequence[Verdict]) -> Table:
    """Return what was measured beside the limits."""
    words = {True: "yes", False: "no", None: SEPARATOR}
    return Table(
        ("what", "measured", "limit", "unit", "met"),
        tuple(
            (
                each.what,
                SEPARATOR if each.measured is None else number(each.measured),
                ("at least " if each.at_least else "") + number(each.limit),
                each.unit,
                words[each.met],
            )
            for each in verdicts
        ),
    )


def growth_table(rows: Sequence[Row], part: Part, configurations: Sequence[str]) -> Table:
    """Return processor times over text size ("text") or over run length ("length")."""
    lines = [_growth_line(rows, group, configurations) for group in _groups(rows, part)]
    ordered = sorted(lines, key=lambda line: line[0])
    first = {"text": ("program", "text, MB"), "length": ("arguments", "M instructions")}[part]
    titles = (*first, *_growth_titles(configurations))
    return Table(titles, tuple(cells for _, cells in ordered))


def _growth_titles(configurations: Sequence[str]) -> Iterator[str]:
    for each in configurations:
        if each in PEERS:
            yield _peer_title(each)
        else:
            yield from (f"{each} cold, s", f"{each} warm, s")


def _groups(rows: Sequence[Row], part: Part) -> list[tuple[Row, ...]]:
    """Return the rows of a series, those of one point together."""
    points: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row.part == part:
            points.setdefault((row.program, *row.arguments), []).append(row)
    return [tuple(each) for each in points.values()]


def _growth_line(
    rows: Sequence[Row], group: Sequence[Row], configurations: Sequence[str]
) -> tuple[float, tuple[str, ...]]:
    """Return the place of a point, and its cells."""
    part, name = group[0].part, group[0].program
    place = max(row.text if part == "text" else row.instructions for row in group) / 1e6
    shown = name if part == "text" else " ".join(group[0].arguments)
    cells = []
    for each in configurations:
        for state in ("",) if each in PEERS else ("cold", "warm"):
            row = last(group, part, name, each, state)
            cells.append(cell(row, lambda row: number(row.cpu)))
    return place, (shown, number(place), *cells)


def recovery_table(rows: Sequence[Row]) -> Table:
    """Return how fast graphs are recovered, in processor time."""
    lines = [
        (row.program, number(row.text / 1e6), number(row.cpu), number(row.text / 1e6 / row.cpu))
        for row in rows
        if row.part == "recovery"
    ]
    return Table(("program", "text, MB", "seconds", "MB/s"), tuple(lines))


def event_table(rows: Sequence[Row]) -> Table:
    """Return the cost of one longjmp and of one exception, in microseconds of processor time."""
    lines = []
    for name, what in (("jumps", "longjmp"), ("throws", "C++ exception")):
        events = [per_event(rows, name, each) for each in EVENT_CONFIGURATIONS]
        executed = [f"{each.instructions:,.0f}" for each in events if each is not None]
        times = [SEPARATOR if each is None else number(1e6 * each.seconds) for each in events]
        lines.append((what, (executed or [SEPARATOR])[-1], *times))
    peers = (_peer_title(each, "us") for each in PEERS)
    return Table(("event", "instructions", *peers, "`run` edges, us"), tuple(lines))


def numba_seconds(rows: Sequence[Row]) -> str:
    """Return what importing numba takes."""
    return cell(last(rows, "command", "python", NUMBA), times)
