"""Instructions that assembled code executes, given the outcomes of its branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from simprof.simulator.isa.assembler import Instruction, Item, assign_labels

_ALWAYS = 8
_TRAP = 0x3A


def executed(
    items: Sequence[Item], taken: Iterable[bool], start: str | None = None, end: str | None = None
) -> int:
    """Count the instructions from label `start` until the code is left, or to label `end`.

    Calls of labels among `items` are followed. The code is left by a return without a call, or by
    a transfer to another symbol; delay slots, where no branches are, count. `taken`: Outcome of
    each conditional branch, in the order met; ValueError if there are more or fewer of these.
    """
    outcomes = iter(taken)
    count = _ImageWalk(items, outcomes).count(start, end)
    if next(outcomes, None) is not None:
        raise ValueError("the code has fewer branches than outcomes")
    return count


class _ImageWalk:
    """A walk through assembled code, branch by branch."""

    def __init__(self, items: Sequence[Item], outcomes: Iterator[bool]) -> None:
        self._code = [item for item in items if isinstance(item, Instruction)]
        self._outcomes = outcomes
        self._places = {name: at // 4 for name, at in assign_labels(items, 0).items()}

    def count(self, start: str | None, end: str | None) -> int:
        position, count = 0 if start is None else self._places[start], 0
        stop = self._places[end] if end is not None else -1
        returns: list[int] = []
        while position != stop:
            instruction = self._code[position]
            is_trap = instruction.word >> 30 == 2 and instruction.word >> 19 & 0x3F == _TRAP
            if not instruction.is_transfer or is_trap:
                position, count = position + 1, count + 1
                continue
            target = self._target(position, returns)
            slot = not (instruction.annuls and (_is_always(instruction) or target is None))
            count += 1 + slot
            if target is None:
                position += 2
            elif target < 0:
                return count
            else:
                position = target
        return count

    def _target(self, position: int, returns: list[int]) -> int | None:
        """Return where a transfer goes; -1 for out of the code, None for on."""
        instruction = self._code[position]
        if instruction.fixup is None:
            return returns.pop() if returns else -1
        target = self._places.get(instruction.fixup.symbol, -1)
        if instruction.word >> 30 == 1:
            if target not in (-1, position + 2):  # to the one behind it: to learn the address
                returns.append(position + 2)
            return target
        if _is_always(instruction):
            return target
        outcome = next(self._outcomes, None)
        if outcome is None:
            raise ValueError("the code has more branches than outcomes")
        return target if outcome else None


def _is_always(instruction: Instruction) -> bool:
    return instruction.word >> 30 == 0 and instruction.word >> 25 & 0xF == _ALWAYS
