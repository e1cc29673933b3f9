"""Register sets: what instructions read, write and name (`profiler.code.effects_kernel`).

A *register set* is a 64-bit mask: bits 1..31 are the integer registers of the window in which the
instruction starts (bit 0, %g0, is never set), then the condition codes and %y.
"""

from __future__ import annotations

from enum import IntEnum

ICC = 1 << 32
XCC = 1 << 33
FCC0 = 1 << 34
FCC = 0xF << 34
Y = 1 << 38
CC = ICC | XCC
INTEGER = 0xFFFFFFFE
ALL = INTEGER | CC | FCC | Y

OUTS = 0x0000FF00
LOCALS = 0x00FF0000
INS = 0xFF000000


class Window(IntEnum):
    """What an instruction does to the register window."""

    NONE = 0
    SAVE = 1
    RESTORE = 2  # restore, and V9's return


def is_integer_vis(word: int) -> bool:
    """Whether a VIS instruction may write an integer register (VIS 1 to 3, and what may follow)."""
    function = (word >> 5) & 0x1FF
    return function < 0x1C or 0x20 <= function < 0x30 or function == 0x3F or function >= 0x110
