"""What is blocked, pending and installed: the signal state alone, without a program."""

from __future__ import annotations

import pytest

from simprof.simulator.cpu.guest import AlternateStack, SignalAction
from simprof.simulator.linux.signals import (
    SA_NODEFER,
    SA_RESETHAND,
    SS_DISABLE,
    Signal,
    SignalInfo,
    SignalState,
)

HANDLER = 0x10000
USR1, USR2 = 30, 31


def bit(number: int) -> int:
    return 1 << (number - 1)


def handled(number: int, flags: int = 0, mask: int = 0) -> SignalState:
    """A state with a handler for one signal."""
    state = SignalState()
    state.set_action(number, SignalAction(handler=HANDLER, flags=flags, mask=mask))
    return state


def test_kill_and_stop_cannot_be_blocked() -> None:
    state = SignalState()
    state.blocked = (1 << 64) - 1
    assert state.blocked == (1 << 64) - 1 - bit(Signal.KILL) - bit(Signal.STOP)


def test_a_handler_blocks_its_mask_and_itself() -> None:
    state = handled(USR1, mask=bit(USR2))
    state.enter_handler(USR1)
    assert state.blocked == bit(USR1) | bit(USR2)
    assert state.has_handler(USR1)


def test_a_handler_that_may_be_nested_does_not_block_itself() -> None:
    state = handled(USR1, SA_NODEFER, bit(USR2))
    state.enter_handler(USR1)
    assert state.blocked == bit(USR2)


def test_a_one_shot_handler_is_gone_when_it_begins() -> None:
    state = handled(USR1, SA_RESETHAND)
    assert state.enter_handler(USR1).handler == HANDLER
    assert not state.has_handler(USR1)


def test_pending_signals_come_in_the_order_of_their_numbers_and_unblocked_only() -> None:
    state = SignalState()
    for number in (USR2, Signal.SEGV, USR1, Signal.FPE):
        state.set_action(number, SignalAction(handler=HANDLER))
        state.post(SignalInfo(number, code=number))
    state.blocked = bit(Signal.FPE)
    taken = [info for info in iter(state.take, None) if info is not None]
    assert [info.number for info in taken] == [Signal.SEGV, USR1, USR2]
    assert [info.code for info in taken] == [Signal.SEGV, USR1, USR2]
    assert state.pending == bit(Signal.FPE)


@pytest.mark.parametrize(
    ("pointer", "inside"), [(0x1000, False), (0x1001, True), (0x3000, True), (0x3001, False)]
)
def test_the_alternate_stack_is_in_use_between_its_ends(pointer: int, inside: bool) -> None:
    """A stack pointer at the very top has nothing on the stack yet, and is on it."""
    state = SignalState()
    state.alternate = AlternateStack(address=0x1000, flags=0, size=0x2000)
    assert state.on_alternate_stack(pointer) is inside
    state.alternate = AlternateStack(address=0x1000, flags=SS_DISABLE, size=0x2000)
    assert not state.on_alternate_stack(pointer)
