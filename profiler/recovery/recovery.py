"""Program -> control-flow graphs of all its routines.

Terms are those of docs/SEMANTICS.md: *leader*, *slot block*, *entry*, *exit*. A graph holds the
code that can be reached from its routine's entries: no padding, no data in the text. Steps:

1. `code_image`: the words, decoded at once.
2. `routines`: which routine owns which word.
3. `exploration`: reachable blocks and returning routines, as one fixpoint.
4. `jump_tables`: where indirect jumps go, by the values that `data_flow` finds.
5. `graph_builder`: the graphs.
6. `check.validate`: what must hold of the result.

What does this work is imported by it: a run of a program whose graphs are kept does not explore.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import asdict

from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.packed import PackedGraphs
from simprof.profiler.recovery.code_image import CodeImage, build_code_image
from simprof.profiler.recovery.return_addresses import point_shown, points_behind
from simprof.simulator.binary.dynamic import EarlierBlock
from simprof.simulator.binary.program import Module, Platform, Program, Range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from simprof.profiler.recovery.exploration import Exploration, Hints
    from simprof.profiler.recovery.jump_tables import Answers
    from simprof.profiler.recovery.routines import RoutineMap

UNKNOWN_BLOCK = -1
_TRAP_FIVE = 0x91D02005  # ta 5

Told = Callable[[int, int], None]  # Is told how many routines have been reached, and are known


# What only a run can show (an unresolved jump's target, a routine entered by a pointer, the words
# of a relocated stub); recovery is then done again.
class Discoveries(Struct, frozen=True, forbid_unknown_fields=True):
    """What runs of the program have shown beyond the static graphs. All are addresses."""

    indirect_targets: frozenset[tuple[int, int]] = frozenset()  # (indirect jump, its target)
    # Where a routine was entered in its interior, or unknown code
    entries: frozenset[int] = frozenset()
    # Calls, and traps, taken as no-return behind which execution went on
    returning_calls: frozenset[int] = frozenset()
    # (address, word) of stubs that start-up wrote (`CodeImage.deferred`)
    late_words: frozenset[tuple[int, int]] = frozenset()
    modules: frozenset[Module] = frozenset()  # What a dynamically linked program has loaded
    # Blocks of its stubs as they were before the words in `late_words` were written
    earlier: frozenset[EarlierBlock] = frozenset()
    # Those of `entries` where an activation began in the place of one that was left
    reentries: frozenset[int] = frozenset()

    def merged(self, other: Discoveries) -> Discoveries:
        """Return everything that either has seen."""
        both = {name: value | getattr(other, name) for name, value in asdict(self).items()}
        late_words = dict(self.late_words) | dict(other.late_words)  # the later one counts
        return Discoveries(**both | {"late_words": frozenset(late_words.items())})


class ProgramGraphs(Struct, frozen=True, dict=True):
    """The graphs of a program."""

    # A block's *global number* is `first_block[routine] + block id`.

    program: Program
    # By address. Each is made when it is first asked for (`PackedGraphs`).
    routines: Sequence[ControlFlowGraph]
    code: CodeImage  # The code image; `block_at` has one entry for each of its words
    # int32: global number of the ordinary (non-slot) block that starts at the word, or -1.
    block_at: NDArray[np.int32]
    # int64, one a routine: global number of its block 0.
    first_block: NDArray[np.int64]
    # Addresses of indirect jumps whose targets only runs can show, sorted.
    unresolved_jumps: tuple[int, ...]
    # Addresses of calls and traps behind which nothing executes; their block has one edge, to EXIT.
    no_return_calls: frozenset[int]
    # Addresses of `call .+8` that only read the program counter: no calls in the graphs.
    call_aliases: frozenset[int]
    # (address, reason) of transfers that we refuse to follow; their block has an edge to EXIT only.
    # A program that executes one cannot be profiled exactly there.
    irregular: tuple[tuple[int, str], ...]

    def __eq__(self, other: object) -> bool:
        """Whether all is equal but the arrays, which follow from the rest."""
        if not isinstance(other, ProgramGraphs):
            return NotImplemented
        names = set(self.__struct_fields__) - {"block_at", "first_block"}
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __repr__(self) -> str:
        """Return which program it is and how large: all graphs would fill a screen many times."""
        counts = f"routines={len(self.routines)}, blocks={self.block_count}"
        return f"RecoveredProgram(program={str(self.program.path)!r}, {counts})"

    @property
    def knows_late_words(self) -> bool:
        """Whether the words of all late code are known."""
        code = self.code
        return all(code.is_code[code.place.index(span.start)] for span in code.deferred)

    @cached_property
    def numbers(self) -> Mapping[tuple[int, str], int]:
        """Address and name of each routine -> its number. No graph is made for that."""
        names = zip(self.arrays.addresses.tolist(), self.arrays.names, strict=True)
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def arrays(self) -> PackedGraphs:
        """`routines` as arrays. Nothing else may look at all of them: most are never needed."""
        routines = self.routines
        return routines if isinstance(routines, PackedGraphs) else PackedGraphs.of(routines)

    @property
    def block_count(self) -> int:
        """Number of blocks of all routines."""
        return self.arrays.block_count

    def routine_of_block(self, block: int) -> int:
        """Return the routine's position in `routines` of global block number `block`."""
        return int(np.searchsorted(self.first_block, block, side="right")) - 1

    def block_starting_at(self, address: int) -> int:
        """Global number of the ordinary block that starts at `address`, or -1."""
        index = self.code.index(address)
        return UNKNOWN_BLOCK if index < 0 else int(self.block_at[index])

    def routine_at(self, address: int) -> int:
        """Position of the routine whose extent holds `address`, or -1."""
        # Where extents overlap, the routine that starts last.
        starts, sizes = self.arrays.addresses, self.arrays.sizes
        before = int(np.searchsorted(starts, address, side="right"))
        holding = np.flatnonzero(address < starts[:before] + sizes[:before])
        return int(holding[-1]) if len(holding) else -1


class Known(Struct, frozen=True):
    """What recoveries of one program found, for the next one to reuse where nothing changed."""

    # `jumps` is explained at `JumpResolver`, `graphs` at `PackedGraphs.reusing`; `code` is by what
    # code there is beside the program's own, and by late words.

    code: dict[object, CodeImage] = field(default_factory=dict)
    jumps: dict[str, Answers] = field(default_factory=dict)
    graphs: dict[int, ControlFlowGraph] = field(default_factory=dict)


def recover(
    program: Program,
    discoveries: Discoveries = Discoveries(),  # noqa: B008 - frozen
    known: Known | None = None,
    told: Told | None = None,
) -> ProgramGraphs:
    """Recover the control-flow graphs of all routines, with what earlier runs have shown.

    `known`: Results of earlier calls for the same program, extended by this one. `told`: Called now
    and then. UnsupportedError if the program has no code, or code too spread out.
    """
    from simprof.profiler.recovery.graph_builder import build_graphs

    known = known or Known()
    image = program.modules, discoveries.earlier, discoveries.late_words
    if image not in known.code:
        known.code[image] = build_code_image(program, discoveries.late_words)
    code = known.code[image]
    exploration = _explore(program, code, discoveries, known, told)
    routines, block_at = build_graphs(exploration)
    return ProgramGraphs(
        program=program,
        routines=routines.reusing(known.graphs),
        code=code,
        block_at=block_at,
        first_block=routines.first_block[:-1],
        unresolved_jumps=tuple(sorted(map(code.address, exploration.unresolved))),
        no_return_calls=frozenset(map(code.address, exploration.no_return)),
        call_aliases=frozenset(map(code.address, exploration.call_aliases())),
        irregular=tuple(sorted((code.address(i), why) for i, why in exploration.irregular.items())),
    )


def _explore(
    program: Program, code: CodeImage, discoveries: Discoveries, known: Known, told: Told | None
) -> Exploration:
    """Explore until no synthetic routine and no distrusted jump turns up any more."""
    from simprof.profiler.recovery.exploration import Exploration
    from simprof.profiler.recovery.jump_tables import JumpResolver
    from simprof.profiler.recovery.routines import RoutineMap, function_pointers

    resolver = JumpResolver(program, code, known.jumps)
    named = RoutineMap(program, code)
    hints = _hints(program, code, discoveries, _returning_traps(program, code, named))
    starts = {code.index(program.entry), *function_pointers(program, code, named)} - {-1}
    distrusted: frozenset[int] = frozenset()
    while True:
        routine_map = named.with_synthetic(starts)
        exploration = Exploration(code, routine_map, hints, distrusted, program.is64)
        exploration.run(lambda number, x=exploration: resolver.resolve(x, number), told)  # type: ignore[misc]
        if not exploration.stale:
            return exploration
        starts |= {routine.start for routine in routine_map.routines if routine.size == 0}
        distrusted |= exploration.distrusted


def _returning_traps(program: Program, code: CodeImage, named: RoutineMap) -> frozenset[int]:
    """Return the word indices of the `ta 5` of a bare program that may come back."""
    # On Linux it is SIGILL. Here the program's own handler decides, and mostly returns behind it;
    # not where the routine ends, as compilers place it there for `__builtin_trap`.
    if program.platform is not Platform.LEON3:
        return frozenset()
    places = np.flatnonzero(np.asarray(code.words[:-1]) == _TRAP_FIVE).tolist()
    return frozenset(at for at in places if named.owner(at) == named.owner(at + 1))


def _hints(
    program: Program, code: CodeImage, discoveries: Discoveries, traps: frozenset[int]
) -> Hints:
    from simprof.profiler.recovery.exploration import Hints

    targets: dict[int, set[int]] = {}
    points = points_behind(code, code.return_uses)
    for pair in sorted(discoveries.indirect_targets):
        jump, target = map(code.index, pair)
        call = point_shown(code, code.return_uses, jump, target)
        if call is not None:
            jump = call  # it may return to several places
            points.setdefault(call, target)
        if target >= 0 and points.get(jump) != target:
            targets.setdefault(jump, set()).add(target)
    return Hints(
        {jump: frozenset(addresses) for jump, addresses in targets.items()},
        frozenset(map(code.index, discoveries.entries)) - {-1},
        traps | frozenset(map(code.index, discoveries.returning_calls)) - {-1},
        landing_points(program, code),
        points,
        frozenset(map(code.index, discoveries.reentries)) - {-1},
    )


def landing_points(program: Program, code: CodeImage) -> frozenset[int]:
    """Return the word indices of all landing pads in a program's code."""
    # A landing pad is where an exception goes that a call has let through; the program's unwinding
    # tables list them. All of them are entries of their routines, whether a run comes there or not:
    # graphs are the same for all inputs.
    # What `longjmp` comes back to, behind a call of `setjmp`, is left to runs. As an entry in each
    # routine that calls `setjmp` it would leave open how an activation had begun that waits when
    # the program ends, and glibc calls `setjmp` in the caller of `main`: what calls `exit` could
    # not be read any more (`rewriting.elsewhere.early_ends`).
    from simprof.simulator.binary.landing_pads import landing_pads

    tables = program.unwinding
    pads = (pad for each in tables for pad in landing_pads(each, program.segments, program.is64))
    return frozenset(map(code.index, pads)) - {-1}


# Static programs call indirect functions through stubs (`.iplt`) that their start-up code patches.
# The graphs need those words: the first run that comes there shows them.
def read_words(
    read: Callable[[int, int], bytes], spans: Sequence[Range]
) -> frozenset[tuple[int, int]]:
    """(address, word) of everything in `spans`, as it is in memory now."""
    words: set[tuple[int, int]] = set()
    for span in spans:
        data = read(span.start, span.end - span.start)
        values = np.frombuffer(data[: len(data) & ~3], dtype=">u4").tolist()
        words.update(zip(range(span.start, span.end, 4), values, strict=False))
    return frozenset(words)
