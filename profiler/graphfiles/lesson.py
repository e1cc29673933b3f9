"""Lessons: the steps of a scheme on a small graph (`simprof explain`).

A lesson is made of an answer of `analyse` alone (docs/SEMANTICS.md, graph files): the same
numbers, in the order in which the papers derive them. Steps that a scheme does not have are left
out, so that every mode has its lesson.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from simprof.profiler.graphfiles.cycles import Arc, chord_cycles
from simprof.profiler.profiles.tables import loop_marks

MOST_PATHS = 200  # Paths that the last step lists
MOST_CYCLES = 200  # Chords whose increments are derived
# What people read for keys of JSON
SITES = {
    "snippets": "instrumentation sites",
    "snippet_instructions": "instructions at instrumentation sites",
}


class Line(Struct, frozen=True):
    """An edge of the picture."""

    # source, target: Names of blocks, or "ENTRY" and "EXIT".
    source: str
    target: str
    label: str = ""  # What the step writes on it
    # How it is drawn: "plain", "tree", "chord", "back", "dummy", "early" or "out" (left out).
    kind: str = "plain"


class Step(Struct, frozen=True):
    """One picture, and what it shows."""

    # title, text: Prose.
    title: str
    text: str
    lines: tuple[Line, ...]  # The edges
    # Block -> what the step writes below its name
    notes: Mapping[str, str] = field(default_factory=dict)
    # head, rows: A table; empty where there is none.
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    # By row of the table: the edges, by position in `lines`, that belong to it.
    marks: tuple[tuple[int, ...], ...] = ()
    is_about_kinds: bool = False  # Whether the kinds of all edges are what the step shows
    # Whether the table is; else it repeats, in more detail, what is on the edges.
    is_about_rows: bool = False


class Lesson(Struct, frozen=True):
    """The steps of one scheme on one graph."""

    title: str  # The graph's name
    mode: str  # The scheme
    blocks: tuple[str, ...]  # Names, in the file's order
    steps: tuple[Step, ...]  # In order


def lesson(answer: Mapping[str, Any]) -> Lesson:
    """Return the lesson of an answer of `graphfiles.analyse`."""
    picture, title = _Picture(answer), str(answer["routines"][0]["symbol"])
    return Lesson(title, str(answer["mode"]), tuple(picture.blocks), tuple(picture.steps()))


def register_notes(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield what readers of code have to know of the path register."""
    routine = answer["routines"][0]
    if routine["path_register"] is not None and routine["addressing"] == "addressing":
        yield (
            "In SPARC code r holds the address of a counter, and not its number: r=0 makes it that "
            "of the first, and r+=1 adds a counter's 4 bytes (EPP 5.2)."
        )


def _blocks_text(path: Mapping[str, Any]) -> str:
    return " ".join([*map(str, path["blocks"]), *loop_marks(path["start"], path["end"])])


def _text(value: object) -> str:
    """Return a value as steps write it; lists are by iteration."""
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return " / ".join(_text(each) for each in value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _paths(count: object) -> str:
    return f"{_text(count)} path{'' if count == 1 else 's'}"


# TPP 4.1, appendix A.1; instructions: schemes/tpp/code.py
_PRICE_OF_COLD = (
    "A cold edge poisons the path register, and counts that a poisoned register may reach test for "
    "it, which takes up to 4 instructions more each. That pays where a hash table becomes an "
    "array, as paths with cold edges need no counters; elsewhere cold edges are left out only "
    "where `cold-always` asks for it. "
)

# After PPP; derived: schemes/ppp/planner.py
_FREE_POISON = (
    "Where a path over a cold edge comes back, it sets the path register so that it counts after "
    "the last path's counter: no count tests for it. "
)

# EPP 3.3
_CYCLES = (
    "The values move to the chords. A chord closes one cycle with the tree; its increment is the "
    "sum of the values around this cycle, in the chord's direction (values of edges that the cycle "
    "crosses backwards are subtracted). Adding up the cycles of a path's chords gives the path "
    "itself: tree edges cancel. So the increments along a path have the same sum as the values."
)
# How paths are counted by `pref` (`schemes.pref.planner.KnownBy`)
_PREFERRED = {
    "numbers": "Here all paths are counted by their numbers, as under pp.",
    "indices": "No other path has one of these indices, and all have one in the array: paths are "
    "counted by their indices, and nothing is tested.",
    "range": "No other path has one of these indices: a path is counted by its index if that is "
    "in the array, which the code tests.",
    "tags": "Other paths may have these indices, too. So the code adds up both, index and number, "
    "and tests by a table of tags whether the path with this index is the one with this number.",
    "nothing": "All paths are counted together.",
}
# KITER 4.1 and figure 6
_VALUES_STAY = (
    "Every edge keeps its value, but dummy edges, which carry no code. The value of a dummy edge "
    "from ENTRY goes to the edges out of its block, and is taken off the edges into it; that of "
    "one to EXIT goes to the edges into its block, and is taken off the edges out of it. So the "
    "sum along every path is what it was."
)
# Steps that show one number of each edge: fact -> title, text, what the numbers of dummy edges are.
_NUMBERS = {
    "weights": (
        "Weights",
        "How often each edge is expected to be crossed, in one activation. They only decide "
        "where code goes: counts are exact for any weights.",
        None,
    ),
    "values": (
        "Numbering",
        "Each edge gets a value: the number of paths that leave its source by the edges before "
        "it. The sum of the values along a path is the path's number, which no other path has.",
        "value",
    ),
    "labels": (
        "Labels",
        "Each edge out of a block gets a string of bits (its value, as a number). The bits "
        "along a path are the path's code.",
        "label",
    ),
    "witnesses": (
        "Witnesses",
        "What the trace gets when an edge is crossed. Edges without a number write nothing: "
        "between two witnesses there is only one path.",
        None,
    ),
}


# The order in which the edges out of a block get their values.
_ORDERS = {
    "fewest": " Edges that lead to the fewest paths come first, so that the greatest value is "
    "least; ties are in the file's order (EPP 5.2). `--order file` puts all edges in that order.",
    "file": " Edges are in the file's order.",
    "weights": " The most frequent edge comes first, so that it has value 0.",
}

# Why the paths of a loop span fewer iterations than were asked for (`kiter`).
_LIMITS = {
    "irreducible": "it is irreducible, since control enters it at several blocks, so there is no "
    "head at which copies of it could begin",
    "outer": "it holds another loop, or a part of one, and only innermost loops are unrolled; with "
    "outer, those that hold no part of an irreducible one",
    "one block": "a loop of one block has a counter of its own, and its iterations end no path",
    "not hot": "its share of the routine's instructions, by the weights, is too small",
    "ambiguous": "edges that end paths in it would hide how often its own edges were crossed",
    "path limit": "with more the routine would have more paths than the path limit",
}


class _Picture:
    """The edges of an answer, and the steps that its `static` part has facts for."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.answer = answer
        self.static: Mapping[str, Any] = answer["static"]
        self.ends = [(str(edge["source"]), str(edge["target"])) for edge in answer["edges"]]
        names = [name for ends in self.ends for name in ends]
        self.blocks = list(dict.fromkeys(name for name in names if name not in ("ENTRY", "EXIT")))
        back = {(str(source), str(target)) for source, target in self.static["back_edges"]}
        self.kinds = ["back" if ends in back else "plain" for ends in self.ends]
        self.back = sorted(back)
        crossed = [edge["executions"] for edge in answer["edges"]]
        self.ran = any(crossed)
        self.counts = crossed if self.ran else None
        # What EXIT -> ENTRY adds where it is a chord (EPP 3.3)
        self.root_increment: int | None = self.static.get("root_increment")

    def lines(
        self, labels: Sequence[object] | None = None, kinds: Sequence[str] | None = None
    ) -> tuple[Line, ...]:
        shown = [""] * len(self.ends) if labels is None else list(map(_text, labels))
        return tuple(
            Line(*ends, label, kind)
            for ends, label, kind in zip(self.ends, shown, kinds or self.kinds, strict=True)
        )

    def steps(self) -> Iterator[Step]:
        yield self.graph()
        pictures = {
            "cold": self.cold,
            "num_paths": self.acyclic,
            "tree": self.tree,
            "increments": self.increments,
            "preferential": self.preferential,
        }
        facts = "weights", "cold", "num_paths", "values", "labels", "tree", "increments"
        for fact in (*facts, "preferential", "witnesses"):
            if fact in self.static:
                yield pictures[fact]() if fact in pictures else self.numbers(fact)
        if "given_up" in self.static:
            yield self.given_up()
        if "regions" in self.static:
            yield self.regions()
        yield self.placement()
        if self.answer.get("paths") or self.answer.get("all_paths"):
            yield self.paths()
        yield self.cost()

    def graph(self) -> Step:
        back = ", ".join(f"{source} to {target}" for source, target in self.back)
        crossed = "Numbers on edges: how often the runs crossed them. "
        text = (
            f"{len(self.blocks)} blocks and {len(self.ends)} edges, those from ENTRY and to EXIT "
            f"included. {crossed if self.ran else 'The file has no runs. '}"
        )
        text += f"Back edges of a depth-first search: {back}." if back else "There is no back edge."
        ends = self.answer.get("early_ends", ())
        text += "".join(f" Warning: {each}." for each in self.answer["warnings"])
        if ends:
            text += (
                " Activations that end early leave their last block over no edge. A virtual edge "
                "to EXIT has their count, so that flow is conserved; no code is on it, since an "
                "exception handler, or here the emulator, counts them (BL94 3.2)."
            )
        early = (Line(str(e["block"]), "EXIT", _text(e["executions"]), "early") for e in ends)
        return Step("The graph", text, (*self.lines(self.counts), *early), is_about_kinds=True)

    def numbers(self, fact: str) -> Step:
        title, text, of_dummies = _NUMBERS[fact]
        text += _ORDERS[self.static["order"]] if fact == "values" else ""
        numbers = self.static[fact]
        lines = self.inner(numbers, of_dummies) if of_dummies else self.lines(numbers)
        return Step(title, text, lines)

    def cold(self) -> Step:
        cold = self.static["cold"]
        kinds = ["out" if each else kind for each, kind in zip(cold, self.kinds, strict=True)]
        loops = [", ".join(map(str, each["blocks"])) for each in self.static["disconnected_loops"]]
        text = (
            "The edge profile that guides the scheme, on the edges"
            + (". " if any(self.static["edge_profile"]) else ": nothing was executed. ")
            + "Cold edges are left out, and no path that takes one has a number"
            + (": none is cold here. " if not any(cold) else ". ")
        )
        if any(cold):
            text += _FREE_POISON if self.static.get("free_poison") else _PRICE_OF_COLD
        if loops:
            text += f"Loops disconnected from what surrounds them: {'; '.join(loops)}. "
        text += f"Obvious paths (determined by the edge profile): {len(self.static['obvious'])}."
        lines = self.lines(self.static["edge_profile"], kinds)
        return Step("Targeting", text, lines, is_about_kinds=True)

    def preferential(self) -> Step:
        found = self.static["preferential"]
        interesting, size = found["interesting_paths"], found["size"]
        text = (
            f"Interesting paths: {interesting}, which the path profile that guides the scheme has. "
            "Each edge gets a second value, so that the sums along these paths, their indices, are "
            f"distinct and few: 0 to {size - 1}. An edge's value is so large that the indices "
            "after it begin where those after the edges before it ended, however an interesting "
            "path comes there. These values move to the chords as well. "
            if interesting
            else "No path is interesting. "
        ) + _PREFERRED[found["known_by"]]
        labels = [*found["values"], *found["dummy_values"]]
        lines = tuple(
            replace(line, label=_text(label))
            for line, label in zip(self.inner(), labels, strict=True)
        )
        listed = found["indices"][:MOST_PATHS]
        rows = tuple((str(each["index"]), str(each["path"])) for each in listed)
        edges = {path["path"]: tuple(path["edges"]) for path in self.answer.get("paths", ())}
        marks = tuple(edges.get(each["path"], ()) for each in listed)
        return Step("Indices", text, lines, {}, ("index", "path"), rows, marks)

    def dummies(self, fact: str | None) -> list[Line]:
        """Return the dummy edges, labelled with one of their facts."""
        edges = self.static.get("dummy_edges", ())
        labels = ("" if fact is None else _text(edge.get(fact)) for edge in edges)
        ends = ((str(edge["from"]), str(edge["to"])) for edge in edges)
        return [Line(*pair, label, "dummy") for pair, label in zip(ends, labels, strict=True)]

    def inner(
        self, labels: Sequence[object] | None = None, fact: str | None = None
    ) -> tuple[Line, ...]:
        """Return the edges of the graph whose paths are numbered."""
        # Paths over several iterations cross back edges, from one copy of a loop to the next.
        crossed = {edge for loop in self.static.get("loops", ()) for edge in loop["back_edges"]}
        kinds = [
            "out" if kind == "back" and edge not in crossed else kind
            for edge, kind in enumerate(self.kinds)
        ]
        return (*self.lines(labels, kinds), *self.dummies(fact))

    def acyclic(self) -> Step:
        text = (
            "Two dummy edges (dashed) replace a back edge at which paths end: one from ENTRY to "
            "its target, one from its source to EXIT. The graph then has no cycle. Below each "
            "block: the number of paths from there to EXIT, the sum of that of its successors. The "
            f"scheme distinguishes {_paths(self.static['valid_paths'])}."
        )
        if loops := self.static.get("loops"):
            spans = ", ".join(f"{each['iterations']} at {each['head']}" for each in loops)
            text += (
                " Loops count as unrolled, so that a path spans several iterations: "
                f"{spans}. The numbers are those of the first copy of each block."
            )
        text += self.limits()
        notes = {str(name): _paths(count) for name, count in self.static["num_paths"].items()}
        return Step("Paths without cycles", text, self.inner(), notes)

    def regions(self) -> Step:
        text = (
            "The loops that are iterated hold others. In the graph that a path is part of, each "
            "loop inside is collapsed to one block, which is named after its head; its own paths, "
            "from its head to where it is left, are counted as those of a graph of its own (KITER "
            "5). Each of these graphs is unrolled and numbered as one without nested loops is; its "
            "numbers follow those of the graph before it."
        )
        rows = []
        marks = []
        for each in self.static["regions"]:
            first, beyond = each["first_path"], each["first_path"] + each["valid_paths"]
            k = ", ".join(f"{loop['iterations']} at {loop['head']}" for loop in each["loops"])
            inside = "; ".join(
                f"{head}: {' '.join(blocks)}" for head, blocks in each["collapsed"].items()
            )
            rows.append(
                (each["head"] or "the routine", k or "-", inside or "-", f"{first} to {beyond - 1}")
            )
            marks.append(tuple(edge for edge in each["stands_for"] if edge is not None))
        text += self.limits()
        head = ("graph", "k of its loops", "collapsed in it", "paths")
        lines = self.lines()
        return Step(
            "Collapsed loops", text, lines, {}, head, tuple(rows), tuple(marks), is_about_rows=True
        )

    def limits(self) -> str:
        """Return why loops have another k than was asked for."""
        return "".join(
            f" The loop at {loop['head']} ({', '.join(loop['blocks'])}) has k = "
            f"{loop['iterations']}, not {loop['asked']}: {_LIMITS[loop['reason']]}."
            for loop in self.static.get("limited_loops", ())
        )

    def given_up(self) -> Step:
        text = (
            f"There would be {_paths(self.static['given_up'])}, more than `give-up` "
            "allows: the graph gets no code and no counters."
        )
        return Step("Paths", text, self.lines())

    def tree(self) -> Step:
        root = self.static.get("root_edge")
        if root is None:  # a trace's: the tree has no edge from EXIT to ENTRY (BL94 4.1)
            title = "Forest"
            text = (
                "The edges that write nothing (bold) hold no cycle, whatever the directions. The "
                "others (coloured) write to the trace, or are derived from it: the counts of the "
                "first follow."
            )
        elif self.root_increment is not None:
            title = "Spanning tree"
            text = (
                "A maximum-weight spanning tree (bold). The edge from EXIT to ENTRY, which is "
                "added so that flow is conserved, is a chord here: every count adds its "
                "increment. Only the chords (coloured) need code: the counts of tree edges follow."
            )
        else:
            title = "Spanning tree"
            text = (
                "A maximum-weight spanning tree (bold). It holds the edge from EXIT to ENTRY, "
                "which is added so that flow is conserved, and carries no code. Only the chords "
                "(coloured) need code: the counts of tree edges follow."
            )
        kinds = list(map(_kind, self.static["tree"]))
        lines = list(self.lines(self.static["weights"], kinds))
        dummies = self.static.get("dummy_edges", ())
        for line, edge in zip(self.dummies("weight"), dummies, strict=True):
            lines.append(replace(line, kind=_kind(edge.get("tree"))))
        if root is not None:
            source, target = root
            added = self.root_increment
            label = "no code" if added is None else f"{added:+d} in each count"
            lines.append(Line(source, target, label, "tree" if added is None else "chord"))
        return Step(title, text, tuple(lines), is_about_kinds=True)

    def increments(self) -> Step:
        cycles = chord_cycles(self.static, self.ends)
        text = _CYCLES if cycles else _VALUES_STAY
        if cycles and "loops" in self.static:
            text += " Numbers in brackets: the iteration, where it is not the first."
        if len(cycles) > MOST_CYCLES:
            text += f" The first {MOST_CYCLES} chords are derived."
        shown = cycles[:MOST_CYCLES]
        rows = tuple(
            (cycle.chord.name, _sum(cycle.steps), _text(cycle.chord.increment)) for cycle in shown
        )
        marks = tuple(
            tuple(arc.line for arc, _ in cycle.steps if arc.line is not None) for cycle in shown
        )
        lines = self.inner(self.static["increments"], "increment")
        head = ("chord", "values around its cycle", "increment") if cycles else ()
        return Step("Increments", text, lines, {}, head, rows, marks, is_about_rows=bool(cycles))

    def placement(self) -> Step:
        code = ["; ".join(each) for each in self.static["code"]]
        kinds = ["chord" if each else "plain" for each in code]
        notes = {
            str(block): "; ".join(actions)
            for part in ("block_code", "block_end_code")
            for block, actions in self.static.get(part, {}).items()
        }
        rows = [
            (f"{source} to {target}", does, "\n".join(sparc), _text(cost))
            for (source, target), does, sparc, cost in zip(
                self.ends, code, self.static["sparc"], self.static["costs"], strict=True
            )
            if does
        ]
        marks: list[tuple[int, ...]] = [(number,) for number, does in enumerate(code) if does]
        for part in ("block", "block_end"):
            texts = self.static.get(f"{part}_sparc", {})
            costs = self.static.get(f"{part}_costs", {})
            rows += [
                (str(block), notes[str(block)], "\n".join(texts[block]), _text(costs[block]))
                for block in texts
            ]
        marks += [()] * (len(rows) - len(marks))
        text = (
            "The code of each edge and block; initialisation and counting are merged with "
            "increments at the same place."
        )
        text += "".join(f" {each}" for each in register_notes(self.answer))
        regions = self.static.get("regions", (self.static,))
        if loops := [loop for each in regions for loop in each.get("loops", ())]:
            text += _notation(max(loop["iterations"] for loop in loops))
        if len(regions) > 1:
            text += (
                " Where a collapsed loop is entered, save keeps c and itr of the graph around it, "
                "and restore takes them back where it is left."
            )
        return Step(
            "Code",
            text,
            self.lines(code, kinds),
            notes,
            ("edge or block", "action", "SPARC code", "instructions each time"),
            tuple(rows),
            tuple(marks),
        )

    def paths(self) -> Step:
        every = self.answer.get("all_paths")
        counts = {path["path"]: path["executions"] for path in self.answer["paths"]}
        partial = [path for path in self.answer["paths"] if path["partial"]]
        listed = list(self.answer["paths"] if every is None else [*every, *partial])[:MOST_PATHS]
        head: tuple[str, ...] = ("number", "blocks")
        rows: list[tuple[str, ...]]
        rows = [(_text(path["path"]), _blocks_text(path)) for path in listed]
        text = "Each path's number, and its blocks."
        if self.ran:
            head = (*head, "executions")
            text = "The counters, read back: each path's number, its blocks, and how often the runs"
            text += " took it."
            if partial:
                text += " A path without a number is the unfinished one of an activation that ended"
                text += " early: its registers tell it, and it is added to no whole path (EPP 3.6)."
            # Unfinished paths have no number, and their own count.
            executions = (
                _text(path.get("executions", counts.get(path["path"], 0))) for path in listed
            )
            rows = [(*row, count) for row, count in zip(rows, executions, strict=True)]
        if len(listed) == MOST_PATHS:
            text += f" The first {MOST_PATHS} are listed."
        text += self.beside_paths()
        marks = tuple(tuple(path["edges"]) for path in listed)
        lines = self.lines(self.counts)
        return Step("Paths", text, lines, {}, head, tuple(rows), marks, is_about_rows=True)

    def beside_paths(self) -> str:
        """Return what was executed and is no path of the table."""
        lost = self.answer.get("lost") or {}
        listed = sum(path["executions"] for path in self.answer["paths"])
        whose = {"cold_paths": "took a cold edge", "uninteresting_paths": "are of other paths"}
        return "".join(
            f" These are {listed:,} executions. {count:,} more {did}: they are counted together, "
            "and which paths they took is not known."
            for name, did in whose.items()
            if (count := lost.get(name, 0))
        )

    def cost(self) -> Step:
        sizes = self.answer["sizes"]
        titles = {each: SITES.get(each, each.replace("_", " ")) for each in sizes}
        rows = tuple((titles[name], _text(value)) for name, value in sizes.items())
        text = "On the edges: what their code takes each time, conditional code not counted."
        costs = self.static["costs"]
        if self.counts is not None:
            base, added = (self.answer["instructions"][name] for name in ("base", "added"))
            text = f"The runs execute {base:,} instructions, and {added:,} of the scheme"
            text += f": {added / base:.2%}." if base else "."
            text += " On the edges: what their code executed, conditional code not counted."
            costs = [n * cost for n, cost in zip(self.counts, costs, strict=True)]
        return Step("Cost", text, self.lines(costs), {}, ("size", ""), rows, ((),) * len(rows))


def _notation(iterations: int) -> str:
    """Say what KITER's notation of actions means (section 4.2, example 6)."""
    more = ", and so on" if iterations > 2 else ""
    return (
        " In an iterated loop c[0] is the number so far of the path that began last, c[1] that of "
        f"the one before it{more}; outside there is one path, c[0], also written r. itr is how "
        "many back edges this visit to the loop has crossed, at most k - 1, and the flag f says "
        "that it is k - 1. c+=[a, b] adds a to c[0] and b to c[1]. (a:b) is a for c[j] with j < "
        "itr, whose path began at the loop's head and is not yet in its k-th iteration, and b for "
        "c[itr], the oldest path; for k = 2 it is f ? a : b. setf(itr) is: if itr < k - 1, add 1 "
        "to itr, and set f if that makes it k - 1."
    )


def _sum(steps: Sequence[tuple[Arc, int]]) -> str:
    """Return the values around a cycle as a sum, each with its edge; - where it is backwards."""
    terms = []
    for arc, sign in steps:
        value = f"({arc.value:,})" if arc.value < 0 else f"{arc.value:,}"
        terms.append(f"{'+' if sign > 0 else '-'} {value} {arc.name}")
    return "  ".join(terms)


def _kind(in_tree: object) -> str:
    """Return the kind of an edge that is in the tree in any iteration, or of another."""
    return "tree" if (any(in_tree) if isinstance(in_tree, list) else in_tree) else "chord"
