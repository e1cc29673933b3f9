"""What k-iteration profiling does on edges (KITER 4.2, algorithm 3).

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

from simprof import schemes as s


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
