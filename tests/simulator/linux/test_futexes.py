"""What `FUTEX_WAKE_OP` makes of its second word, and calls that no futex answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from simprof.simulator.cpu.guest import Failed, Returned
from simprof.simulator.isa.sparc import ERRNO
from tests.simulator.linux.test_syscalls import DATA, Kernel

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
