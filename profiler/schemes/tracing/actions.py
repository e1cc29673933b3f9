"""Actions of trace plans that are no WriteTrace."""

from __future__ import annotations

from simprof import schemes as s

# Bytes of the trace that are collected before they are written; a `sethi` makes them.
TRACE_SIZE = 8192
POSITION = 8  # Behind these: where the position in the buffer is (`flush`)
# Where tokens are collected (`flush`). Its position says how many bits of the last byte count.
TRACE = s.Buffer("trace", size=0x4000, kept=(TRACE_SIZE + POSITION, 4))
# Where addresses of data are, in the same way: they go to a file of their own.
ADDRESSES = s.Buffer("addresses", offset=0x4000, size=0x4000)


class WriteTarget(s.Event, frozen=True):
    """`trace target`: the address that `block`'s transfer goes to is appended to the trace."""

    # A transfer to a routine that only the run tells (BL94 3.2, footnote 2). Its code reads the
    # registers of the transfer, so it stands right before that.

    block: int  # Block with the transfer
    packed: bool = False  # As for `WriteTrace`
    token: s.WriteTrace | None = None  # What its edge writes before

    def __str__(self) -> str:
        target = f"trace target:{s.TARGET_BITS}"
        return target if self.token is None else f"{self.token}; {target}"
