"""What `FUTEX_WAKE_OP` makes of its second word, and calls that no futex answers."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from simprof.simulator.isa.sparc import ERRNO
from simprof.simulator.linux import signals
from simprof.simulator.linux.guest import Failed, Returned
from tests.support.syscalls import DATA, Kernel

WAKE_OP = 5
SET, ADD, OR, AND_NOT, XOR = range(5)
SHIFTED = 8


@pytest.fixture(params=[True, False], ids=["64-bit", "32-bit"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> Kernel:
    return Kernel(tmp_path, request.param)


def encoded(operation: int, operand: int, comparison: int = 0, value: int = 0) -> int:
    return operation << 28 | comparison << 24 | (operand & 0xFFF) << 12 | value & 0xFFF


@pytest.mark.parametrize(
    ("before", "operation", "operand", "after"),
    [
        (7, SET, 5, 5),
        (7, SET, -1, 0xFFFFFFFF),
        (7, ADD, 3, 10),
        (0xFFFFFFFF, ADD, 2, 1),
        (7, ADD, -8, 0xFFFFFFFF),
        (0x100, OR, 0x0F, 0x10F),
        (0xFF, AND_NOT, 0x0F, 0xF0),
        (0xFF, XOR, 0x0F, 0xF0),
        (1, OR | SHIFTED, 4, 0x11),
        (0xFF, AND_NOT | SHIFTED, 31, 0xFF),
    ],
)
def test_the_second_word_is_changed(
    kernel: Kernel, before: int, operation: int, operand: int, after: int
) -> None:
    kernel.guest.write(DATA + 8, before.to_bytes(4, "big"))
    word = encoded(operation, operand)
    assert kernel("futex", DATA, WAKE_OP, 1, 1, DATA + 8, word) == Returned(0)
    assert int.from_bytes(kernel.guest.read(DATA + 8, 4), "big") == after


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((DATA, WAKE_OP, 1, 1, DATA + 8, encoded(5, 0)), "ENOSYS"),
        ((DATA, WAKE_OP, 1, 1, DATA + 8, encoded(SET, 0, 6)), "ENOSYS"),
        ((DATA, WAKE_OP, 1, 1, 8, encoded(SET, 0)), "EFAULT"),
        ((DATA + 2, 1, 1), "EINVAL"),
        ((8, 1, 1), "EFAULT"),
        ((DATA, 6, 1), "ENOSYS"),  # FUTEX_LOCK_PI
        ((DATA, 9, 0, 0, 0, 0), "EINVAL"),  # waits for no bit
        ((DATA, 4, 1, 1, DATA + 8, 3), "EAGAIN"),  # the first word is not 3
    ],
)
def test_other_calls_fail(kernel: Kernel, arguments: tuple[int, ...], error: str) -> None:
    assert kernel("futex", *arguments) == Failed(ERRNO[error])


HANDLER = 0x10000
USR1, USR2 = 30, 31


def bit(number: int) -> int:
    return 1 << (number - 1)


def handled(number: int, flags: int = 0, mask: int = 0) -> signals.SignalState:
    """A state with a handler for one signal."""
    state = signals.SignalState()
    state.set_action(number, signals.SignalAction(handler=HANDLER, flags=flags, mask=mask))
    return state


def test_kill_and_stop_cannot_be_blocked() -> None:
    state = signals.SignalState()
    state.blocked = (1 << 64) - 1
    assert state.blocked == (1 << 64) - 1 - bit(signals.Signal.KILL) - bit(signals.Signal.STOP)


def test_a_handler_blocks_its_mask_and_itself() -> None:
    state = handled(USR1, mask=bit(USR2))
    state.enter_handler(USR1)
    assert state.blocked == bit(USR1) | bit(USR2)
    assert state.has_handler(USR1)


def test_a_handler_that_may_be_nested_does_not_block_itself() -> None:
    state = handled(USR1, signals.SA_NODEFER, bit(USR2))
    state.enter_handler(USR1)
    assert state.blocked == bit(USR2)


def test_a_one_shot_handler_is_gone_when_it_begins() -> None:
    state = handled(USR1, signals.SA_RESETHAND)
    assert state.enter_handler(USR1).handler == HANDLER
    assert not state.has_handler(USR1)


def test_pending_signals_come_in_the_order_of_their_numbers_and_unblocked_only() -> None:
    state = signals.SignalState()
    for number in (USR2, signals.Signal.SEGV, USR1, signals.Signal.FPE):
        state.set_action(number, signals.SignalAction(handler=HANDLER))
        state.post(signals.SignalInfo(number, code=number))
    state.blocked = bit(signals.Signal.FPE)
    taken = [info for info in iter(state.take, None) if info is not None]
    assert [info.number for info in taken] == [signals.Signal.SEGV, USR1, USR2]
    assert [info.code for info in taken] == [signals.Signal.SEGV, USR1, USR2]
    assert state.pending == bit(signals.Signal.FPE)


def test_real_time_signals_queue_and_others_come_once() -> None:
    state = signals.SignalState()
    for number in (USR1, 34, USR1, 34, 34):
        state.set_action(number, signals.SignalAction(handler=HANDLER))
        state.post(signals.SignalInfo(number, code=state.queued), shared=number == USR1)
    assert (state.own_pending, state.shared_pending) == (bit(34), bit(USR1))
    saved = state.save()
    state.load(saved)
    assert state.take_of(bit(USR2)) is None
    taken = [info for info in iter(state.take, None) if info is not None]
    assert [(info.number, info.code) for info in taken] == [(USR1, 0), (34, 1), (34, 2), (34, 3)]


@pytest.mark.parametrize("is64", [False, True])
def test_siginfo_holds_what_was_queued(is64: bool) -> None:
    queued = struct.pack(">iii", 34, 0, -1).ljust(16 if is64 else 12, b"\0") + b"value" * 3
    info = signals.parse_siginfo(35, queued.ljust(128, b"\0"), is64)
    assert (info.number, info.code) == (35, -1)
    assert signals.siginfo(info, is64) == struct.pack(">i", 35) + queued.ljust(128, b"\0")[4:]


@pytest.mark.parametrize(
    ("pointer", "inside"), [(0x1000, False), (0x1001, True), (0x3000, True), (0x3001, False)]
)
def test_the_alternate_stack_is_in_use_between_its_ends(pointer: int, inside: bool) -> None:
    """A stack pointer at the very top has nothing on the stack yet, and is on it."""
    state = signals.SignalState()
    state.alternate = signals.AlternateStack(address=0x1000, flags=0, size=0x2000)
    assert state.on_alternate_stack(pointer) is inside
    state.alternate = signals.AlternateStack(address=0x1000, flags=signals.SS_DISABLE, size=0x2000)
    assert not state.on_alternate_stack(pointer)
