"""The copy of one routine while it is made: its routine, its names, and what has been written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from simprof.profiler.code.context import RoutineContext
from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, Edge, EdgeKind
from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.rewriting.calls import CallPlaces
from simprof.profiler.rewriting.charges import Cause, Charge
from simprof.profiler.rewriting.transfers import ThunkCall, jump
from simprof.simulator.isa.assembler import Item, Label
from simprof.simulator.isa.decode import TransferKind


class NotRewritableError(Exception):
    """A routine cannot be copied with certainty; the text says why."""


@dataclass
class RoutineCopy:
    """The copy of one routine.

    Attributes
    ----------
    items
        Its code; labels begin with the routine's number.
    tables
        Jump tables of its own; each begins at a multiple of `jumps.TABLE_ALIGNMENT`.
    charges
        What it executes beside the program's and the scheme's instructions.
    redirects
        Old address -> label to which a `ba,a` there leads.
    returns
        Those of them to which calls return that are made from their old places.
    kept_calls
        Old call that is made from its old place -> where a direct call goes, else None.
    thunk_calls
        (label of the first instruction of the constant, label of the call, the call) of thunks that
        are called from the copy.
    arrivals
        (old address of an entry, edge or block whose count arrives there directly): transfers
        of copies to entries of this or other routines.
    entries
        Old address by which the routine is entered -> (label, ENTRY edge).
    endings
        Blocks that end the program by a system call.
    actions
        Old address of a trap -> instructions more each time that its system call, whose number
        the code does not tell, acts on signals.
    """

    items: list[Item] = field(default_factory=list)
    tables: list[list[Item]] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    redirects: dict[int, str] = field(default_factory=dict)
    returns: set[int] = field(default_factory=set)
    kept_calls: dict[int, int | None] = field(default_factory=dict)
    thunk_calls: list[tuple[str, str, ThunkCall]] = field(default_factory=list)
    arrivals: list[tuple[int, Charge]] = field(default_factory=list)
    entries: dict[int, tuple[str, int]] = field(default_factory=dict)
    endings: list[int] = field(default_factory=list)
    actions: dict[int, int] = field(default_factory=dict)

    def redirect(self, address: int, label: str) -> None:
        """Lead from an old address to a label.

        Raises
        ------
        NotRewritableError
            If it leads elsewhere already.
        """
        if self.redirects.setdefault(address, label) != label:
            raise NotRewritableError(f"control comes to {address:#x} in two ways that differ")


@dataclass(frozen=True)
class OldProgram:
    """What copies of its routines ask of a program.

    Attributes
    ----------
    code
        The old code.
    calls
        Which calls stay where they are.
    pc_reads
        Addresses of `call .+8`.
    final
        Addresses of calls and traps behind which nothing executes.
    label_of
        Old address -> label of what is entered there: a copy's, or the old code's.
    unsure
        Jumps -> where one run has shown them to lead, and others may not.
    span
        Address of its first instruction, and behind its last one.
    contexts
        Addresses of routines that return twice with the same result.
    """

    code: CodeImage
    calls: CallPlaces
    pc_reads: frozenset[int]
    final: frozenset[int]
    label_of: Callable[[int], str]
    unsure: Mapping[int, frozenset[int]] = field(default_factory=dict)
    span: tuple[int, int] = (0, 0)
    contexts: frozenset[int] = frozenset()

    def word(self, address: int) -> int:
        """Return the instruction at an address."""
        return self.code.lists.words[(address - self.code.base) >> 2]

    def words(self, block: Block) -> list[int]:
        """Return the instructions of a block."""
        first = (block.start - self.code.base) >> 2
        return list(self.code.lists.words[first : first + block.instructions])


class Draft:
    """A copy while it is made: its routine, its names, and what has been written of it.

    Parameters
    ----------
    number, cfg, context
        The routine.
    program
        Where it is from.
    """

    def __init__(
        self, number: int, cfg: ControlFlowGraph, context: RoutineContext, program: OldProgram
    ) -> None:
        assert context.analysis is not None
        self.number, self.cfg, self.context, self.program = number, cfg, context, program
        self.frames, self.liveness = context.analysis.frames, context.analysis.liveness
        self.codes = self.liveness.blocks
        self.copy = RoutineCopy()
        self._behind: list[Item] = []

    # -- names

    def label(self, kind: str, number: int) -> str:
        """Return the name of something that belongs to an edge or a block."""
        return f"r{self.number}.{kind}.{number}"

    def block_label(self, block: int) -> str:
        """Return the name of a block's top."""
        return self.label("block", block)

    # -- writing

    def emit(self, *items: Item) -> None:
        """Write code."""
        self.copy.items += items

    def put_behind(self, *items: Item) -> None:
        """Write code that stands behind all the rest."""
        self._behind += items

    def finish(self) -> RoutineCopy:
        """Return the copy, complete."""
        self.emit(*self._behind)
        self._behind.clear()
        return self.copy

    def island(self, kind: str, edge: int, to: str) -> str:
        """Return the label of a jump to `to` behind the code."""
        label = self.label(kind, edge)
        self.put_behind(Label(label), jump(to))
        return label

    def charge(
        self, cause: Cause, count: int, *, edge: int | None = None, block: int | None = None
    ) -> None:
        """Note what an edge or block executes more."""
        if count:
            self.copy.charges.append(Charge(cause, count, edge, block))

    def arrive(self, address: int, *, edge: int | None = None, block: int | None = None) -> None:
        """Note that an edge or block goes to the entry of a copy itself, not by its old address."""
        self.copy.arrivals.append((address, Charge(Cause.ENTRIES, 1, edge, block)))

    # -- the routine

    def word(self, address: int) -> int:
        """Return the old instruction at an address."""
        return self.program.word(address)

    def block(self, number: int) -> Block:
        """Return a block."""
        return self.cfg.blocks[number]

    def out(self, block: int, *kinds: EdgeKind) -> Edge | None:
        """Return the edge of such a kind out of a block."""
        for number in self.cfg.out_edges[block]:
            edge = self.cfg.edges[number]
            if edge.kind in kinds:
                return edge
        return None

    def leaves_both_ways(self, block: int) -> bool:
        """Whether a branch leaves the routine, taken or not: one edge stands for both ways."""
        edges = [self.cfg.edges[number] for number in self.cfg.out_edges[block]]
        is_branch = self.codes[block].kind is TransferKind.BRANCH
        return is_branch and [edge.kind for edge in edges] == [EdgeKind.EXIT]

    def entry_edges(self, block: int) -> list[int]:
        """Return the ENTRY edges of a block: one or none."""
        edges = self.cfg.in_edges[block]
        return [edge for edge in edges if self.cfg.edges[edge].kind is EdgeKind.ENTRY]

    def is_inside(self, block: int) -> bool:
        """Whether the routine's frame stands at a block's top."""
        return self.frames.before(block, 0).depth == 1
