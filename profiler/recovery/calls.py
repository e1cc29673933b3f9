"""Calls of a recovered program: the call graph, and where calls of `setjmp` return again.

The call graph is networkx's `MultiDiGraph`.

Attributes
----------
node
    The routine's position in `ProgramGraphs.routines`. `name`; `address` and `size` in bytes;
    `blocks`, their number; `indirect`, how many of them go to routines that only a run tells.
edge
    One for each call site; the key numbers them by address. `site` is the address of the
    instruction; `kind` is "call", or "tail-call" where control leaves the caller for good;
    `returns` is false for calls behind which nothing executes.

Calls through pointers have no edges: see `indirect`. A call of code that is no routine (outside
the program, or written by start-up code and not known yet) has none either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simprof.profiler.graphs.cfg import Block, ControlFlowGraph, EdgeKind
from simprof.profiler.recovery.code_image import GET_CONTEXT
from simprof.profiler.recovery.recovery import UNKNOWN_BLOCK, ProgramGraphs
from simprof.simulator.isa.decode import TransferKind

if TYPE_CHECKING:
    import networkx as nx


class CallSite(NamedTuple):
    """A direct call. `caller` and `callee` are positions of routines, `site` is an address."""

    caller: int
    callee: int
    site: int
    kind: str
    returns: bool


def call_graph(recovered: ProgramGraphs) -> nx.MultiDiGraph:
    """Return the routines and their direct calls, with the attributes that the module describes."""
    import networkx as nx

    graph = nx.MultiDiGraph(name=recovered.program.path.name)
    for position, cfg in enumerate(recovered.routines):
        extent = {"address": cfg.address, "size": cfg.size, "blocks": len(cfg.blocks)}
        graph.add_node(position, name=cfg.name, **extent, indirect=len(cfg.indirect))
    for key, call in enumerate(sorted(call_sites(recovered), key=lambda call: call.site)):
        attributes = {"site": call.site, "kind": call.kind, "returns": call.returns}
        graph.add_edge(call.caller, call.callee, key=key, **attributes)
    return graph


def call_sites(recovered: ProgramGraphs) -> Iterator[CallSite]:
    """Yield the direct calls of every routine, block by block."""
    for position, cfg in enumerate(recovered.routines):
        for block in cfg.blocks:
            site = recovered.code.lists.next_end[recovered.code.place.index(block.start)]
            if block.is_slot or recovered.code.address(site) >= block.end:
                continue  # another block cuts it short
            kind = recovered.code.lists.kinds[site]
            if kind == TransferKind.CALL:
                yield from _call(recovered, position, block, site)
            elif kind in (TransferKind.BRANCH, TransferKind.BRANCH_ALWAYS):
                yield from _tail_call(recovered, position, block, site)


def _call(recovered: ProgramGraphs, caller: int, block: Block, site: int) -> Iterator[CallSite]:
    address = recovered.code.address(site)
    callee = _routine_at(recovered, recovered.code.lists.targets[site])
    if callee < 0 or address in recovered.call_aliases:
        return
    kinds = _edge_kinds(recovered.routines[caller], block.id)
    returns = EdgeKind.CALL_RETURN in kinds
    stays = returns or address in recovered.no_return_calls
    yield CallSite(caller, callee, address, "call" if stays else "tail-call", returns or not stays)


def _tail_call(
    recovered: ProgramGraphs, caller: int, block: Block, site: int
) -> Iterator[CallSite]:
    """A branch whose target the routine's own graph does not hold as one."""
    cfg = recovered.routines[caller]
    target = recovered.code.lists.targets[site]
    edges = [cfg.edges[edge] for edge in cfg.out_edges[block.id]]
    sources = {block.id} | {edge.target for edge in edges if edge.kind is EdgeKind.SLOT}
    taken = {kind for source in sources for kind in _edge_kinds(cfg, source)}
    callee = _routine_at(recovered, target)
    if callee >= 0 and EdgeKind.TAKEN not in taken and EdgeKind.EXIT in taken:
        yield CallSite(caller, callee, recovered.code.address(site), "tail-call", True)


def _edge_kinds(cfg: ControlFlowGraph, block: int) -> set[EdgeKind]:
    return {cfg.edges[edge].kind for edge in cfg.out_edges[block]}


def _routine_at(recovered: ProgramGraphs, index: int) -> int:
    if index < 0:
        return -1
    block = int(recovered.block_at[index])
    return -1 if block == UNKNOWN_BLOCK else recovered.routine_of_block(block)


Numbers = NDArray[np.int64]

# Names of routines that return once more when what they have saved is restored.
RETURNING_TWICE = frozenset(
    ["setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp", "getcontext", "__getcontext"]
)
# Names of those whose result does not tell a second return from the first.
CONTEXTS = frozenset(["getcontext", "__getcontext", "swapcontext", "__swapcontext"])
_OTHERS = frozenset(["vfork", "__vfork", "__libc_vfork", "savectx"])
_MOST_WORDS = 32  # Of a routine's beginning, in which it would save its caller's place
_SP, _O7, _FP, _I7 = 14, 15, 30, 31
_SAVE, _RESTORE, _JUMPS, _SETHI = 0x3C, 0x3D, (0x38, 0x39), 4
_IMMEDIATE = 1 << 13
CLEARS_G1 = (0x82100000, 0x82102000)  # `mov %g0, %g1`, `clr %g1`: what `setjmp` then returns
_WINDOW = 16  # from an output register to the input register that it is behind a `save`
_MIXES = frozenset([0x00, 0x02, 0x03, 0x04, 0x07])  # add, or, xor, sub, xnor
_STORES = {0x04: 1, 0x0E: 1, 0x07: 2}  # st, stx, std: registers stored


# An instrumented program must be ready for all of them, whatever a run has shown, and whether or
# not the program has names. A routine without a name that saves its caller's place is told by its
# code: it stores %sp and its return address in memory that is no stack.
def all_second_returns(recovered: ProgramGraphs) -> frozenset[int]:
    """Return every address to which a call may return a second time."""
    from simprof.profiler.recovery.exploration_kernel import NOBODY  # no run needs it

    code, graphs, kinds = recovered.code, recovered.arrays, recovered.code.transfers.kind
    own, to = _routines_by_word(recovered)
    traps = np.flatnonzero(code.words == GET_CONTEXT)
    # Where %g1 is not cleared, the trap is the library's `getcontext`, which has the context go on
    # behind the code that follows.
    back = np.isin(code.words[np.maximum(traps - 1, 0)], CLEARS_G1)
    names = RETURNING_TWICE | CONTEXTS | _OTHERS
    named = {s.address for s in recovered.program.symbols if s.name in names}
    saving = {int(own[trap]) for trap in traps}
    for number, address in enumerate(graphs.addresses.tolist()):
        first = code.index(address)
        count = min(int(graphs.sizes[number]) // 4, _MOST_WORDS)
        if address in named or _saves_its_caller(code.words[first : first + count].tolist()):
            saving.add(number)
    is_branch = np.isin(kinds, (TransferKind.BRANCH, TransferKind.BRANCH_ALWAYS)) & (own != to)
    while True:  # whoever ends with a jump to one of them is another one
        members = np.array(sorted(saving), dtype=np.int64)
        more = set(own[is_branch & np.isin(to, members)].tolist()) - saving - {NOBODY}
        if not more:
            break
        saving |= more
    calls = np.flatnonzero((kinds == TransferKind.CALL) & np.isin(to, members))
    behind = [*(calls + 2).tolist(), *(traps[back] + 1).tolist()]
    return frozenset(code.address(word) for word in behind if recovered.block_at[word] >= 0)


def _routines_by_word(recovered: ProgramGraphs) -> tuple[Numbers, Numbers]:
    """Return the routine that each word is in, and the one that its transfer leads into."""
    # `NOBODY` where there is none.
    from simprof.profiler.recovery.exploration_kernel import NOBODY

    blocks = recovered.block_at
    last = np.maximum.accumulate(np.where(blocks >= 0, np.arange(len(blocks)), 0))
    targets = np.asarray(recovered.code.lists.targets)
    routine = np.searchsorted(recovered.first_block, blocks, "right") - 1
    routine[blocks < 0] = NOBODY
    return routine[last], np.where(targets >= 0, routine[targets], NOBODY)


def _saves_its_caller(words: Sequence[int]) -> bool:
    """Whether a routine that begins so stores its caller's %sp and place beside the stack."""
    # What is made of them counts as well: the C library hides both behind a key.
    places, stacks = {_O7}, {_SP}  # registers that hold something made of these
    has_place = has_stack = False
    for word in words:
        operation, op3, to = word >> 30, word >> 19 & 63, word >> 25 & 31
        read = {word >> 14 & 31, *(() if word & _IMMEDIATE else (word & 31,))}
        if operation == 1 or (operation == 2 and op3 in (*_JUMPS, _RESTORE)):  # control leaves
            break
        if operation == 2 and op3 == _SAVE:
            places, stacks = {_I7} & _inside(places), {_FP} & _inside(stacks)
        elif operation == 3 and op3 in _STORES:
            if not read & (stacks | {_SP, _FP}):  # the address is not of the stack
                values = set(range(to, to + _STORES[op3]))
                has_place = has_place or bool(values & places)
                has_stack = has_stack or bool(values & stacks)
        elif operation in (2, 3) or word >> 22 & 7 == _SETHI:
            for made in (places, stacks):
                is_made = operation == 2 and op3 in _MIXES and bool(read & made)
                made -= {to}
                made |= {to} if is_made else set()
    return has_place and has_stack


def _inside(registers: set[int]) -> set[int]:
    """Return what registers are called behind a `save`."""
    return {register + _WINDOW for register in registers if 8 <= register < 16}
