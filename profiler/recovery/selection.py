"""Selection of the routines that are profiled, by their names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.packed import PackedGraphs
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.profiler.request.library_sources import is_library_source
from simprof.profiler.request.likeness import alike
from simprof.profiler.request.request import Selection
from simprof.simulator.binary.demangling import base_names, demangle, spellings
from simprof.simulator.binary.program import Program
from simprof.simulator.errors import UsageError

SUGGESTED = 3  # Names that are proposed for one that no routine has
LONGEST_SUGGESTED = 100  # Characters of a name that is proposed: nobody types longer ones
SHORTEST_PART = 3  # Letters of a word that is looked for within names


# A routine can be selected by any symbol at its address. A graph keeps one of them (`routines`);
# the C library knows `malloc` as `__libc_malloc`, too. A C++ function is also known by its
# declaration, as reports show it, by its name alone and, where no routine has that name otherwise,
# without its scopes; one of a library, such as `libc.so.6:puts`, without that.
class RoutineNames:
    """All names of the routines of a program."""

    def __init__(self, program: Program) -> None:
        self._has_modules = bool(program.modules)
        self._symbols: dict[int, set[str]] = defaultdict(set)
        for symbol in program.symbols:
            self._symbols[symbol.address].add(symbol.name)

    def of(self, name: str, address: int) -> tuple[str, ...]:
        """Return the names of a routine: its own, then the others in alphabetical order."""
        return (name, *sorted(self._symbols.get(address, set()) - {name, ""}))

    def match(
        self, cfg: ControlFlowGraph, patterns: Iterable[str], bases: frozenset[str] = frozenset()
    ) -> str | None:
        """Return the first name of a routine that any glob pattern matches, None without one.

        `bases`: those patterns that are names of C++ functions without their scopes.
        """
        wanted = tuple(patterns)
        if not wanted:
            return None  # most runs select nothing: then no name is looked up or demangled
        for name in self.of(cfg.name, cfg.address):
            if any(fnmatchcase(text, each) for text in self.forms(name) for each in wanted):
                return name
            if not bases.intersection(wanted).isdisjoint(base_names(name)):
                return name
        return None

    def unmatched(
        self, graphs: PackedGraphs, patterns: Iterable[str]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Return the patterns that match no routine: names without scopes of some, and others."""
        left, bases = frozenset(patterns), set[str]()
        for name, address in zip(graphs.names, graphs.addresses.tolist(), strict=True):
            if not left:
                break  # no further name need be demangled
            for each in self.of(name, address):
                forms = self.forms(each)
                left -= {pattern for pattern in left if any(fnmatchcase(f, pattern) for f in forms)}
                bases |= left & base_names(each)
        return left & bases, left - bases

    def named(self, graphs: PackedGraphs, wanted: str) -> list[int]:
        """Return the numbers of routines that have a name: their whole name, else any other."""
        whole: list[int] = []
        forms: list[int] = []
        bases: list[int] = []
        routines = zip(graphs.names, graphs.addresses.tolist(), strict=True)
        for number, (name, address) in enumerate(routines):
            names = self.of(name, address)
            if wanted in (names[0], demangle(names[0])):
                whole.append(number)
            elif any(wanted in self.forms(each) for each in names):
                forms.append(number)
            elif any(wanted in base_names(each) for each in names):
                bases.append(number)
        return whole or forms or bases

    def forms(self, name: str) -> tuple[str, ...]:
        """Return the ways to write a symbol's name: without its module, too, and demangled."""
        return spellings(name, has_modules=self._has_modules)

    def like(self, graphs: PackedGraphs, word: str) -> list[str]:
        """Return the names of routines that a name or pattern which none has may stand for."""
        return likely_names((self.forms(name)[-1] for name in graphs.names), word)

    def alias(self, cfg: ControlFlowGraph, patterns: Sequence[str]) -> str | None:
        """Return the name that selects a routine, None where that is its own."""
        name = self.match(cfg, patterns, frozenset(patterns))
        return None if name == cfg.name else name


def likely_names(names: Iterable[str], word: str) -> list[str]:
    """Return names that a name or pattern may stand for: like ones, then those it is part of."""
    known: dict[str, str] = {}
    for name in names:
        if len(name) <= LONGEST_SUGGESTED:
            known.setdefault(name.lower(), name)
    bare = word.strip("*?").lower()
    near = alike(bare, known)
    if len(bare) >= SHORTEST_PART:
        near += sorted((name for name in known if bare in name), key=lambda n: (len(n), n))
    return [known[name] for name in dict.fromkeys(near)][:SUGGESTED]


UNKNOWN_CODE = "sub_"  # How routines without a symbol are called: a run may still find some


class SelectedRoutines:
    """Tells which routines of a program a selection takes.

    UsageError if a pattern matches no routine, the program has no debug information though the
    selection asks for its own routines, or nothing is left.
    """

    def __init__(self, recovered: ProgramGraphs, selection: Selection) -> None:
        self._selection = selection
        self._lines = recovered.program.lines
        self._names = RoutineNames(recovered.program)
        patterns = (*selection.routines, *selection.exclude)
        self._bases, unknown = self._names.unmatched(recovered.arrays, patterns)
        if not selection.tolerant:
            self._check_patterns(recovered, filter(unknown.__contains__, patterns))
        if selection.is_all:
            return
        if selection.user_only and not any(
            self._lines.find(cfg.address) for cfg in recovered.routines
        ):
            raise UsageError(
                f"--user-only: {recovered.program.path} has no debug information to know its own "
                "routines by: compile it with -g, or leave out libraries by --exclude"
            )
        named = any(pattern.startswith(UNKNOWN_CODE) for pattern in selection.routines)
        if not named and not any(map(self.takes, recovered.routines)):
            raise UsageError(
                f"no routine of {recovered.program.path} is left: `simprof cfg` lists them all"
            )

    def takes(self, cfg: ControlFlowGraph) -> bool:
        """Whether a routine is among those selected."""
        wanted, unwanted = self._selection.routines, self._selection.exclude
        return (
            (not wanted or self._names.match(cfg, wanted, self._bases) is not None)
            and self._names.match(cfg, unwanted, self._bases) is None
            and (not self._selection.user_only or self.is_own(cfg))
        )

    def alias(self, cfg: ControlFlowGraph) -> str | None:
        """Return the name that selects a routine, None where that is its own."""
        return self._names.alias(cfg, self._selection.routines)

    # It is if debug information says from which source file its first instruction was compiled, and
    # if that file is not one of a C, C++ or Fortran library. Distributions deliver their static
    # libraries without debug information, so that this alone tells most of them from the program;
    # libraries that somebody compiled with it, and templates and inline functions of system
    # headers, are known by the names of their directories.
    def is_own(self, cfg: ControlFlowGraph) -> bool:
        """Whether a routine is the program's own, and no library's."""
        line = self._lines.find(cfg.address)
        return line is not None and not is_library_source(line.file)

    def _check_patterns(self, recovered: ProgramGraphs, unknown: Iterable[str]) -> None:
        for pattern in unknown:
            if not pattern.startswith(UNKNOWN_CODE):
                meant = did_you_mean(self._names.like(recovered.arrays, pattern))
                raise UsageError(
                    f"no routine matches {pattern!r}:{meant} `simprof cfg` lists them all"
                )


def did_you_mean(names: Sequence[str]) -> str:
    """Return the question whether one of some names was meant; empty where there are none."""
    return f" did you mean {' or '.join(map(repr, names))}?" if names else ""
