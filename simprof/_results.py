"""Results of `run`, `load` and `compare`: measurements that notebooks show, as frames and plots.

pandas and matplotlib are imported when a frame or a plot is asked for; the extra `notebook`
installs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from msgspec import Struct
from msgspec.structs import asdict

from simprof._frames import data_frame, pyplot
from simprof._html import facts, heading, html_table
from simprof.profiler.profiles import profile, tables
from simprof.profiler.recovery.selection import did_you_mean, likely_names
from simprof.profiler.reports import mode_facts
from simprof.profiler.reports.display import brief
from simprof.profiler.reports.quality import known
from simprof.profiler.request.likeness import unknown
from simprof.simulator.binary.demangling import base_names, spellings
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from simprof.profiler.reports.html.frontier import SchemePoint

WIDE = 11.0, 5.5  # Inches of a picture with many names
TOP = 10  # Rows that a notebook shows, and bars in a plot


class Routines(tuple[profile.RoutineProfile, ...]):
    """The routines of a measurement, by number or by name: its symbol's, or any that reports show.

    Raises SimprofError, naming like ones, if no routine has the name, or several have.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        """Return one line: how many routines there are, and the first ones by name."""
        names = [brief(each.name) for each in self[:TOP]]
        more = ["..."] if len(self) > TOP else []
        return f"Routines({len(self)}: {', '.join(names + more)})"

    @overload
    def __getitem__(self, key: SupportsIndex | str, /) -> profile.RoutineProfile: ...
    @overload
    def __getitem__(self, key: slice, /) -> tuple[profile.RoutineProfile, ...]: ...
    def __getitem__(self, key: Any, /) -> Any:
        """Return a routine by its place or name, or several by a slice."""
        if not isinstance(key, str):
            return super().__getitem__(key)
        for names in (lambda name: (name,), spellings, base_names):
            found = [each for each in self if key in names(each.name)]
            if len(found) == 1:
                return found[0]
            if found:
                told = ", ".join(brief(each.name) for each in found)
                raise UsageError(f"{len(found)} routines are called {key!r}: {told}")
        near = likely_names((spellings(each.name)[-1] for each in self), key)
        raise UsageError(f"no routine is called {key!r}:{did_you_mean(near)}".rstrip(":"))


class Measurement(profile.RunMeasurement, frozen=True):
    __doc__ = profile.RunMeasurement.__doc__
    if TYPE_CHECKING:
        routines: Routines

    def to_frame(self, table: str = tables.DEFAULT) -> pd.DataFrame:
        """Return one of the measurement's tables as a pandas frame.

        `table`: "routines", "edges", "paths" or "blocks": those of `simprof export --format csv`.
        Raises SimprofError if there is no such table, or pandas is not installed.

        Examples
        --------
        >>> import simprof
        >>> frame = simprof.run("fixtures/bin/v9/sieve.elf").to_frame()
        >>> frame.nlargest(2, "added")[["routine", "entered", "added"]].values.tolist()
        [['main', 1, 3042821], ['memset', 2, 250006]]
        """
        if table not in tables.NAMES:
            raise UsageError(unknown("table", table, tables.NAMES))
        return data_frame(tables.table(self, table))

    @property
    def attributed(self) -> float | None:
        """Share of what `pp` counts that this profile tells rightly; None where nothing judges it.

        The attribution of definite flow of *Targeted Path Profiling*, 5: 1 less the shares of
        overcounted and of undercounted flow, `flow_blocks`, `overcounted_blocks` and
        `undercounted_blocks` of `lost`. It can be negative, as flow that is told of a wrong path
        counts in both.

        Examples
        --------
        >>> import simprof
        >>> comparison = simprof.compare("fixtures/bin/v9/sieve.elf", ["pp", "tpp"])
        >>> comparison.measurements["tpp"].attributed, comparison.measurements["pp"].attributed
        (1.0, None)
        """
        judged = mode_facts.attribution(self)
        return None if judged is None else float(judged.attributed)

    def plot(self, top: int = TOP, ax: Axes | None = None) -> Axes:
        """Draw the `top` routines by added instructions as bars, beside their own instructions.

        `ax`: where to draw; None: a new figure. Raises SimprofError if matplotlib is not installed.
        """
        axes = pyplot().subplots()[1] if ax is None else ax
        shown = self._top(top)[::-1]
        names = [brief(routine.name, 30) for routine in shown]
        places = range(len(shown))
        base = [routine.instructions for routine in shown]
        axes.barh(places, base, label="base")
        axes.barh(places, [routine.added for routine in shown], left=base, label="added")
        axes.set_yticks(places, names)
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel("instructions")
        axes.set_title(f"{self.mode}: {self.overhead:.1%} added")
        axes.legend()
        return axes

    def _top(self, count: int) -> Sequence[profile.RoutineProfile]:
        by_added = sorted(self.routines, key=lambda each: (-each.added, -each.instructions))
        return by_added[:count]

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what ran, what it cost, where the cost comes from."""
        summary = {
            "program": self.program.file,
            "mode": mode_facts.description(self),
            "ended": f"{self.ending.reason}, status {self.ending.code}",
            "base": f"{self.base:,} instructions",
        }
        if mode_facts.instruments(self):
            summary["added"] = f"{self.added:,} instructions"
            price = mode_facts.guide_price(self)
            summary["overhead"] = f"{self.overhead:.2%}" + (f", and {price}" if price else "")
        if self.guide is not None:
            summary["guide"] = mode_facts.guide_name(self.guide)
        rows = []
        for each in self._top(TOP):
            counts = each.added, each.instructions, each.activations, len(each.path_counts)
            rows.append((brief(each.name), *(f"{count:,}" for count in counts)))
        columns = ("routine", "added", "instructions", "entered", "paths")
        shown = f"{len(rows)} of {len(self.routines)} routines, by added instructions"
        notes = "".join(f"<p>{heading(warning)}</p>" for warning in self.warnings)
        return facts(summary) + html_table(shown, columns, rows) + notes


def shown(measurement: profile.RunMeasurement) -> Measurement:
    """Return a measurement as one that notebooks show."""
    fields = asdict(measurement)
    return Measurement(**fields | {"routines": Routines(measurement.routines)})


COMPARED = (
    tables.DataColumn("mode", tables.ColumnKind.TEXT),
    tables.DataColumn("base"),
    tables.DataColumn("added"),
    tables.DataColumn("overhead", tables.ColumnKind.NUMBER),
    tables.DataColumn("increments"),
    tables.DataColumn("counter_bytes"),
    tables.DataColumn("code_bytes"),
    tables.DataColumn("guided_by", tables.ColumnKind.TEXT),
    tables.DataColumn("edge_profile_added"),
    tables.DataColumn("attributed", tables.ColumnKind.NUMBER),
    tables.DataColumn("accuracy", tables.ColumnKind.NUMBER),
    tables.DataColumn("coverage", tables.ColumnKind.NUMBER),
)


class Comparison(Struct, frozen=True):
    """Several schemes on one program."""

    # By the name of the scheme, in the order asked for: "pp", "tpp:cold=1:loop=1".
    measurements: Mapping[str, Measurement]
    emulations: int  # How often the program was emulated for that
    # How many of these runs were whole: others were given up because the graphs lacked something.
    whole_emulations: int

    def __getitem__(self, setting: str) -> Measurement:
        """Return what a scheme measured, by its name; raises SimprofError if it is not compared."""
        if setting not in self.measurements:
            raise UsageError(unknown("mode", setting, self.measurements))
        return self.measurements[setting]

    def __repr__(self) -> str:
        """Return one line: each scheme with its overhead."""
        shown = (f"{name} {each.overhead:.2%}" for name, each in self.measurements.items())
        return f"Comparison({', '.join(shown)})"

    def to_frame(self) -> pd.DataFrame:
        """Return one row a scheme, as a pandas frame.

        Of schemes that an edge profile guides, `guided_by` says where that comes from, and
        `edge_profile_added` how many instructions collecting one adds, which are not in `added`.
        `accuracy` and `coverage` say how good the profiles are by that of `pp`, where that is among
        them or judges them (docs/PROFILES.md): 1 of those that are exact.
        Raises SimprofError if pandas is not installed.

        Examples
        --------
        >>> import simprof
        >>> comparison = simprof.compare("fixtures/bin/v9/sieve.elf", ["pp", "qpt2"])
        >>> comparison.to_frame()[["mode", "added"]].values.tolist()
        [['pp', 3293685], ['qpt2', 3043168]]
        """
        return data_frame(tables.ProfileTable("modes", COMPARED, tuple(self._rows())))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the overhead of each scheme as a bar.

        `ax`: where to draw; None: a new figure. Raises SimprofError if matplotlib is not installed.
        """
        axes = pyplot().subplots()[1] if ax is None else ax
        names = list(self.measurements)[::-1]
        axes.barh(names, [100 * self.measurements[name].overhead for name in names])
        axes.set_xlabel("overhead, % of the program's own instructions")
        return axes

    def frontier(self, ax: Axes | None = None) -> Axes:
        """Draw overhead against accuracy: a point for each scheme whose accuracy is known.

        A line joins the schemes that are more accurate than all that cost less. The axis of
        overhead begins at 0 and has a square-root scale.
        `ax`: where to draw; None: a new figure. Raises SimprofError if matplotlib is not installed.
        """
        from simprof.profiler.reports.html.frontier import best_of, points

        axes = pyplot().subplots(figsize=WIDE)[1] if ax is None else ax
        schemes = sorted(points(tuple(self.measurements.items())), key=lambda each: each.overhead)
        best = best_of(schemes)
        axes.set_xscale("function", functions=(_root, _square))
        for which, color in ((schemes, "C1"), (best, "C0")):
            places = [[100 * each.overhead for each in which], [100 * each[2] for each in which]]
            axes.scatter(*places, color=color, zorder=3)
        steps = [*((100 * each.overhead, 100 * each.accuracy) for each in best)]
        axes.step(*zip(*steps, strict=True), where="post", linestyle="--", color="C0")
        axes.set_xlim(left=0)
        axes.set_ylim(0, 110)
        _label_points(axes, schemes)
        axes.set_xlabel("overhead, % of the program's own instructions")
        axes.set_ylabel("accuracy, %")
        return axes

    def _rows(self) -> Sequence[tuple[Any, ...]]:
        every = tuple(self.measurements.values())
        rows = []
        for name, one in self.measurements.items():
            costs = one.base, one.added, one.overhead, mode_facts.increments(one)
            sizes = one.sizes.get("counter_bytes"), one.sizes.get("code_bytes")
            guide = (None, None) if one.guide is None else (str(one.guide), one.guide.added)
            rows.append((name, *costs, *sizes, *guide, one.attributed, *known(one, every)))
        return rows

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a row for each scheme."""
        rows = []
        for name, _, added, overhead, increments, *rest in self._rows():
            *sizes, guide, price, attributed, accuracy, coverage = rest
            costs = f"{added:,}", f"{overhead:.2%}", f"{increments:,}", *map(_number, sizes)
            shares = map(_share, (attributed, accuracy, coverage))
            rows.append((name, *costs, guide or "", _number(price), *shares))
        columns = (
            *("mode", "added", "overhead", "increments", "counter bytes", "code bytes"),
            *("guide", "guide cost", "AoDF", "accuracy", "coverage"),
        )
        first = next(iter(self.measurements.values()), None)
        if first is None:
            return html_table("no schemes", columns, rows)
        title = f"{first.program.file}: {first.base:,} instructions"
        return html_table(title, columns, rows)


def _label_points(axes: Axes, schemes: Sequence[SchemePoint]) -> None:
    """Write each scheme's name where nothing else is: where the picture of pages has it."""
    from simprof.profiler.reports.html.frontier import HEIGHT, LEFT, RIGHT, TOP, WIDTH, frontier

    made = frontier(schemes)
    if made is None:  # fewer than two
        for each in schemes:
            axes.annotate(each.name, (100 * each.overhead, 100 * each.accuracy))
        return
    across, upwards = WIDTH + RIGHT, HEIGHT + TOP
    axes.set_xlim(0, 100 * made.most * (across / WIDTH) ** 2)
    axes.set_ylim(0, 100 * upwards / HEIGHT)
    axes.set_yticks(range(0, 101, 25))
    box = axes.get_window_extent().transformed(axes.figure.dpi_scale_trans.inverted())
    # The picture's units are points where the axes are as large as it.
    scale = 72 * min(box.width / across, box.height / upwards)
    for scheme, label in zip(schemes, made.labels, strict=True):
        axes.annotate(
            label.name,
            (100 * scheme.overhead, 100 * scheme.accuracy),
            ((label.at[0] - LEFT) / across, 1 - label.at[1] / upwards),
            textcoords="axes fraction",
            fontsize=min(10.0, 10 * scale),
            arrowprops={"arrowstyle": "-", "color": "#ddd"} if label.is_apart else None,
        )


def _root(numbers: Any) -> Any:
    return abs(numbers) ** 0.5


def _square(numbers: Any) -> Any:
    return numbers**2


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
