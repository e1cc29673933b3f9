"""What the start of an instrumented program executes (`startup`), when all system calls succeed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from simprof.profiler.rewriting.guest_memory import LONGEST_NAME, Auxiliary, Memory, filled, mapped
from simprof.profiler.rewriting.signals import FATAL, signal_items
from simprof.profiler.rewriting.start_name import START
from simprof.profiler.rewriting.startup import DEFAULT_NAME, VARIABLE, start_items
from simprof.profiler.rewriting.walk import steps
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.linux.process import AUXILIARY_KEYS


def chosen_name(environment: Sequence[bytes]) -> bytes:
    """Return the counter file's name, given the environment's strings in their order."""
    for entry in environment:
        if entry.startswith(VARIABLE):
            return entry[len(VARIABLE) :] or DEFAULT_NAME
    return DEFAULT_NAME


def start_cost(
    machine: MachineKind,
    memory: Memory,
    environment: Sequence[bytes],
    keys: Sequence[int] = AUXILIARY_KEYS,
) -> int:
    """Return the instructions that the start executes when all system calls succeed.

    Parameters
    ----------
    environment
        `NAME=value` strings, in the order in which the program sees them.
    keys
        Of the auxiliary vector, in their order, without AT_NULL. What comes behind all those of
        `memory.auxiliary` changes nothing: so the start costs the same under qemu-user,
        whatever its version puts there.
    """
    outcomes = chain(
        _of_memory(memory),
        _of_search(environment),
        _of_auxiliary(memory.auxiliary, keys) if memory.auxiliary else (),
        _of_copy(len(chosen_name(environment))),
        (False, True) if memory.trace else (),
        _of_signals() if memory.signals else (),
    )
    items = [*start_items(machine, memory), *signal_items(machine, memory)]
    return steps(items, START, outcomes)


def _of_memory(memory: Memory) -> Iterator[bool]:
    """Yield the outcomes of the branches of `_map` and `_fill`, in the order met."""
    for last in _lasts(len(mapped(memory))):
        yield from (False, not last)
    runs = filled(memory)
    for run, last in zip(runs, _lasts(len(runs)), strict=True):
        yield from [True] * (run.count - 1)
        yield from (False, not last)


def _of_search(environment: Sequence[bytes]) -> Iterator[bool]:
    """Yield those of `_find_name`."""
    for index, entry in enumerate(environment):
        yield False
        equal = 0
        while equal < len(VARIABLE) and entry[equal : equal + 1] == VARIABLE[equal : equal + 1]:
            equal += 1
        yield from [False, True] * equal
        if equal == len(VARIABLE):
            yield from (True, len(entry) > equal)
            yield from [True] * (len(environment) - index - 1)
            yield False
            return
        yield from (False, False)
    yield True


def _of_auxiliary(auxiliary: Auxiliary, keys: Sequence[int]) -> Iterator[bool]:
    """Yield those of `_restore_auxiliary`."""
    wanted = [key for key, _ in auxiliary]
    left = len(wanted)
    for key in keys:
        yield False
        if key not in wanted:
            yield from [True] * len(wanted)
            continue
        yield from [True] * wanted.index(key)
        left -= 1
        yield from (False, left > 0)
        if not left:
            return
    yield True


def _of_copy(length: int) -> Iterator[bool]:
    """Yield those of `_copy_name`."""
    if length < LONGEST_NAME:
        yield from [False, True] * length
        yield True
    else:
        yield from [False, True] * (LONGEST_NAME - 1)
        yield from (False, False)


def _of_signals() -> Iterator[bool]:
    """Yield those of `signals`: which way a choice goes changes nothing."""
    for last in _lasts(len(FATAL)):
        yield from (True, not last)


def _lasts(count: int) -> Iterator[bool]:
    return (index + 1 == count for index in range(count))
