"""Code of k-iteration profiling (KITER 4.2, algorithm 3).

The path registers of an activation are the accumulators c[0] .. c[K-1] and the iteration number
itr, in this order; K is the greatest k of the routine's loops. In iteration itr + 1 of a visit to
an iterated loop (k - 1 at most: itr saturates) c[itr] belongs to the path that the activation was
on when it entered the loop, or, once itr = k - 1 (the flag f of algorithm 3), to the path that
began k - 1 iterations ago; c[j], j < itr, belongs to the path that began j iterations ago, at the
head. The others mean nothing, and are 0 here so that states recur. Outside of such loops only
c[0] means anything: the actions there are EPP's.

Where inner loops are collapsed, c and itr are those of the innermost region that control is in.
Those of the regions around it are saved in further registers, between c[K-1] and itr.
"""

# ruff: noqa: D102 - overriding methods do what `Action` says

from __future__ import annotations

from collections.abc import Hashable, Iterator

from simprof import schemes as s
from simprof.schemes import asm, shapes

# -- Actions


class EnterLoop(s.Action, frozen=True):
    """`itr := 0`: an iterated loop is entered, with k = `iterations`."""

    iterations: int

    def execute(self, execution: s.Execution) -> None:
        execution.registers[-1] = 0

    def __str__(self) -> str:
        return "itr:=0"


class AddAccumulators(s.Action, frozen=True):
    """`c[j] += ...` for every j: the loop's edge in each of its copies."""

    entered: tuple[int, ...]  # By accumulator: what a path is given that did not begin at the head.
    # The same for a path that did, and has not been through k iterations
    compensated: tuple[int, ...]

    def execute(self, execution: s.Execution) -> None:
        # Algorithm 3 compensates all accumulators once f is set. With k > 2 that leaves paths that
        # began at the head while f was not yet set uncompensated at first, and numbers clash; what
        # decides is whether the path began at the head, j < itr. For k = 2 both are the same.
        itr = execution.registers[-1]
        for j in range(itr):
            execution.registers[j] += self.compensated[j]
        execution.registers[itr] += self.entered[itr]

    def __str__(self) -> str:
        terms = [
            str(entered) if entered == compensated else f"({compensated}:{entered})"
            for entered, compensated in zip(self.entered, self.compensated, strict=True)
        ]
        given = [(j, term) for j, term in enumerate(terms) if term != "0"]
        if len(given) == 1:
            return f"c[{given[0][0]}]+={given[0][1]}"
        return f"c+=[{', '.join(terms)}]"


class CountIterations(s.Action, frozen=True):
    """`if f: count[c[k-1] + constant]++`: the back edge ends a path of k iterations."""

    iterations: int
    constant: int

    def execute(self, execution: s.Execution) -> None:
        if execution.registers[-1] == self.iterations - 1:
            execution.take()
            execution.count(execution.registers[self.iterations - 1] + self.constant, True)

    def __str__(self) -> str:
        counter = f"c[{self.iterations - 1}]"
        counter += f"{self.constant:+d}" if self.constant else ""
        return f"if f: count[{counter}]++"


class NextIteration(s.Action, frozen=True):
    """`c[j] := c[j-1]; c[0] := start; itr++` (saturating): the next iteration begins."""

    iterations: int
    start: int

    def execute(self, execution: s.Execution) -> None:
        registers, last = execution.registers, self.iterations - 1
        registers[1 : last + 1] = registers[:last]
        registers[0] = self.start
        registers[-1] = min(registers[-1] + 1, last)

    def __str__(self) -> str:
        moves = [f"c[{j}]:=c[{j - 1}]" for j in range(self.iterations - 1, 0, -1)]
        return "; ".join([*moves, f"c[0]:={self.start}", "(f,itr):=setf(itr)"])


class LeaveLoop(s.Action, frozen=True):
    """`c[0] := c[itr]`: an iterated loop is left; the oldest path goes on."""

    iterations: int

    def execute(self, execution: s.Execution) -> None:
        registers = execution.registers
        registers[0] = registers[registers[-1]]
        registers[1 : self.iterations] = [0] * (self.iterations - 1)
        registers[-1] = 0

    def __str__(self) -> str:
        return "c[0]:=c[itr]"


# -- Collapsed loops (KITER 5)


class SaveRegion(s.Action, frozen=True):
    """`save c[0..k-1], itr`: a collapsed loop is entered from an iterated one with this k."""

    iterations: int
    first: int  # The first of the k + 1 registers that keep them

    def execute(self, execution: s.Execution) -> None:
        registers, k = execution.registers, self.iterations
        registers[self.first : self.first + k] = registers[:k]
        registers[self.first + k] = registers[-1]
        registers[:k] = [0] * k
        registers[-1] = 0

    def __str__(self) -> str:
        return f"save c[0..{self.iterations - 1}], itr"


class RestoreRegion(s.Action, frozen=True):
    """`restore c[0..k-1], itr`: the collapsed loop is left."""

    iterations: int
    first: int

    def execute(self, execution: s.Execution) -> None:
        registers, k = execution.registers, self.iterations
        registers[:k] = registers[self.first : self.first + k]
        registers[-1] = registers[self.first + k]
        registers[self.first : self.first + k + 1] = [0] * (k + 1)

    def __str__(self) -> str:
        return f"restore c[0..{self.iterations - 1}], itr"


class BeginPath(s.Action, frozen=True):
    """`c[0] := start`: a path begins in a collapsed loop."""

    # `SetRegister` would say that nothing that the registers held is of use any more.
    start: int

    def execute(self, execution: s.Execution) -> None:
        execution.registers[0] = self.start

    def __str__(self) -> str:
        return f"c[0]:={self.start}"


# -- Code
#
# Code of the actions of kiter plans (KITER 4.2, algorithm 3; figure 7).
#
# The iteration register holds q = itr - (k - 1): it counts up to 0, and the flag f is q = 0. Where
# an accumulator gets one of two constants, a mask chooses: for k = 2 it is q itself.
#
# ============================================  ==========================================  ========
# action                                        code (k = 2, registers free)                executed
# ============================================  ==========================================  ========
# `itr := 0`                                    mov                                         1
# `c[0] += (b:a)`                               add b; and q, a - b; add                    3
# `c[1] += d`                                   add                                         1
# `if f: count[c[1] + x]++`                     brnz, nop; and as `count[r + x]++`          2 + 3
# `c[1] := c[0]; c[0] := s; (f,itr) := setf`    mov; sethi; or; mov                         4
# `c[0] := c[itr]`                              movrz (V8: xor; andn; xor)                  1 (3)
# ============================================  ==========================================  ========
#
# With k > 2 a mask takes two instructions of its own, setf two, and leaving a loop one choice for
# each accumulator above c[0]. Only the count's branch is conditional, and only on V8 does it change
# condition codes. Saving and restoring a region's state is one move, load or store for each
# register.


def add_accumulators(writer: s.Writer, action: AddAccumulators) -> None:
    """`c[j] += ...` for every j."""
    scale, last = writer.access.scale, len(action.entered) - 1
    for j, (entered, compensated) in enumerate(
        zip(action.entered, action.compensated, strict=True)
    ):
        if j == last or entered == compensated:
            if entered:
                writer.add_path(scale * entered, j)
        else:
            _add_either(writer, j, last, scale * entered, scale * compensated)


def _add_either(writer: s.Writer, j: int, last: int, entered: int, compensated: int) -> None:
    """`c[j] += entered` where itr <= j, `compensated` where it is not."""
    accumulator = writer.fetch(j, 0)
    if compensated:
        writer.sum(accumulator, compensated, accumulator, 1)
    mask = _mask(writer, last - 1 - j, last)
    chosen, difference = writer.temporary(2), entered - compensated
    if s.fits_simm13(difference):
        writer.emit(asm.arithmetic("and", mask, difference, chosen))
    else:
        writer.constant(difference, chosen, 3)
        writer.emit(asm.arithmetic("and", mask, chosen, chosen))
    writer.emit(asm.arithmetic("add", accumulator, chosen, accumulator))
    if writer.path(j) is None:
        writer.store_path(accumulator, j)


def _mask(writer: s.Writer, offset: int, last: int) -> s.Register:
    """Return a register, temporary 1 perhaps, that is -1 where q + `offset` < 0, and 0 elsewhere;
    `last` is k - 1.
    """
    q = writer.fetch(_itr(writer), 1)
    if last == 1:  # so j = 0, and offset = 0
        return q
    mask = writer.temporary(1)
    if offset:
        writer.emit(asm.arithmetic("add", q, offset, mask))
        q = mask
    _sign(writer, q, mask)
    return mask


def _sign(writer: s.Writer, source: s.Register, result: s.Register) -> None:
    if writer.is64:
        writer.emit(asm.shift("srax", source, 63, result))
    else:
        writer.emit(asm.shift("sra", source, 31, result))


def count_iterations(writer: s.Writer, action: CountIterations) -> None:
    """`if f: count[c[k-1] + constant]++`."""
    q = writer.fetch(_itr(writer), 0)
    writer.conditional("z", q, lambda: _count(writer, action), 0)


def _count(writer: s.Writer, action: CountIterations) -> None:
    number = action.iterations - 1
    accumulator = writer.fetch(number, 0)
    if writer.access.table is s.CounterTable.HASH:
        writer.sum(accumulator, action.constant, s.Register.O0, 1)
        s.call_hash(writer, True)
    elif writer.access.scale == 1:
        address, scaled = writer.temporary(1), writer.temporary(0)
        counter = writer.layout.path_base + s.COUNTER_SIZE * action.constant
        writer.bump_element(counter, accumulator, address, scaled)
    else:
        free = int(writer.path(number) is None)
        offset: s.Register | int = s.COUNTER_SIZE * action.constant
        if not s.fits_simm13(offset):
            helper = writer.temporary(free + 1)
            writer.constant(offset, helper, free + 2)
            offset = helper
        writer.bump(accumulator, offset, writer.temporary(free))


def next_iteration(writer: s.Writer, action: NextIteration) -> None:
    """`c[j] := c[j-1]; c[0] := start; itr++`."""
    for j in range(action.iterations - 1, 0, -1):
        writer.store_path(writer.fetch(j - 1, 0), j)
    writer.set_path(writer.access.offset + writer.access.scale * action.start)
    itr = _itr(writer)
    if action.iterations == 2:
        writer.set_path(0, itr)
        return
    q, below = writer.fetch(itr, 0), writer.temporary(1)
    _sign(writer, q, below)
    writer.emit(asm.arithmetic("sub", q, below, q))
    if writer.path(itr) is None:
        writer.store_path(q, itr)


def leave_loop(writer: s.Writer, action: LeaveLoop) -> None:
    """`c[0] := c[itr]`: c[j] replaces it for every j > 0 that itr has reached, in order."""
    first, q = writer.fetch(0, 0), writer.fetch(_itr(writer), 1)
    for j in range(1, action.iterations):
        _replace(writer, first, writer.fetch(j, 2), q, action.iterations - 1 - j)
    if writer.path() is None:
        writer.store_path(first)


def _replace(
    writer: s.Writer, first: s.Register, other: s.Register, q: s.Register, offset: int
) -> None:
    """`first = other` where q + `offset` >= 0."""
    test = q
    if offset:
        test = writer.temporary(3)
        writer.emit(asm.arithmetic("add", q, offset, test))
    if writer.machine is s.MachineKind.SPARCV8:
        mask, change = writer.temporary(3), writer.temporary(4)
        _sign(writer, test, mask)
        writer.emit(
            asm.arithmetic("xor", first, other, change),
            asm.arithmetic("andn", change, mask, change),
            asm.arithmetic("xor", first, change, first),
        )
        return
    if not writer.is64:
        writer.emit(asm.shift("sra", test, 0, writer.temporary(3)))
        test = writer.temporary(3)
    writer.emit(asm.move_register("gez", test, other, first))


def save_region(writer: s.Writer, action: SaveRegion) -> None:
    """`save c[0..k-1], itr`."""
    for number, kept in _kept(writer, action):
        writer.store_path(writer.fetch(number, 0), kept)


def restore_region(writer: s.Writer, action: RestoreRegion) -> None:
    """`restore c[0..k-1], itr`."""
    for number, kept in _kept(writer, action):
        writer.store_path(writer.fetch(kept, 0), number)


def _kept(writer: s.Writer, action: SaveRegion | RestoreRegion) -> Iterator[tuple[int, int]]:
    """Yield the numbers of registers, each with that of the one that keeps it."""
    for j in range(action.iterations):
        yield j, action.first + j
    yield _itr(writer), action.first + action.iterations


def begin_path(writer: s.Writer, action: BeginPath) -> None:
    """`c[0] := start`."""
    writer.set_path(writer.access.offset + writer.access.scale * action.start)


def _itr(writer: s.Writer) -> int:
    """Number of the iteration register: the last."""
    return len(writer.access.registers) - 1


def _count_needs(action: CountIterations, table: s.CounterTable, machine: s.MachineKind) -> s.Needs:
    clobbers = s.count_needs(action, table, machine).clobbers
    return s.Needs(True, clobbers, machine is s.MachineKind.SPARCV8)


_PATH = s.Needs(path=True)


def _add_shape(action: AddAccumulators, access: s.CounterAccess) -> Hashable:
    scale = access.scale
    return tuple(
        (
            entered == compensated,
            shapes.constant(scale * entered, access),
            shapes.constant(scale * compensated, access),
            shapes.constant(scale * (entered - compensated), access),
        )
        for entered, compensated in zip(action.entered, action.compensated, strict=True)
    )


def _count_shape(action: CountIterations, access: s.CounterAccess) -> Hashable:
    if access.table is s.CounterTable.HASH:
        return action.iterations, shapes.constant(action.constant, access), shapes.table(access)
    if access.scale == 1:
        return action.iterations
    return action.iterations, shapes.constant(s.COUNTER_SIZE * action.constant, access)


def _start_shape(action: NextIteration | BeginPath, access: s.CounterAccess) -> Hashable:
    return shapes.constant(access.offset + access.scale * action.start, access)


def _move_shape(action: SaveRegion | RestoreRegion, access: s.CounterAccess) -> Hashable:
    return action.iterations, action.first


GENERATORS: s.Generators = {
    EnterLoop: s.Generator(
        lambda writer, action: writer.set_path(1 - action.iterations, _itr(writer)),
        _PATH,
        lambda action, access: action.iterations,
    ),
    AddAccumulators: s.Generator(add_accumulators, _PATH, _add_shape),
    CountIterations: s.Generator(count_iterations, _count_needs, _count_shape),
    NextIteration: s.Generator(
        next_iteration,
        _PATH,
        lambda action, access: (action.iterations, _start_shape(action, access)),
    ),
    LeaveLoop: s.Generator(leave_loop, _PATH, lambda action, access: action.iterations),
    SaveRegion: s.Generator(save_region, _PATH, _move_shape),
    RestoreRegion: s.Generator(restore_region, _PATH, _move_shape),
    BeginPath: s.Generator(begin_path, _PATH, _start_shape),
}

CODE = s.SchemeCode(generators=GENERATORS)
