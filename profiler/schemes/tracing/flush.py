"""The trace buffer of instrumented programs, and the run-time routine that empties it.

The buffer is full when its position is no longer negative. Then `trace_flush` writes SIZE
bytes, moves the slack to the buffer's start and sets the position back by the units of SIZE: a
flush for each SIZE bytes of the trace, whatever tokens they belong to. The program's last flush
writes what is left.

Called with `call`; only %o7 changes, on V8 also icc. A write that fails loses the buffer: the
program must not notice.
"""

from __future__ import annotations

from functools import cache

from simprof import schemes as s
from simprof.profiler.schemes.tracing.actions import ADDRESSES, POSITION, TRACE, TRACE_SIZE
from simprof.schemes import asm

R = s.Register

# The buffer ends at `TRACE_END`, which one `sethi` makes. Memory, by offset from there:
#
# ========  ============================================================================
# -SIZE..0  the buffer
# 0..8      slack: a snippet tests for a full buffer once, behind up to 8 bytes
# 8         position: units (bytes, or bits of packed traces) written, less those of SIZE
# 12        the file descriptor of the trace
# ========  ============================================================================
TRACE_BUFFER = s.buffer_address(TRACE)
TRACE_END = TRACE_BUFFER + TRACE_SIZE
SLACK = 0
DESCRIPTOR = 12

# The buffer of addresses of data is alike, and has a routine of its own.
ADDRESSES_BUFFER = s.buffer_address(ADDRESSES)
ADDRESSES_END = ADDRESSES_BUFFER + TRACE_SIZE
ADDRESSES_FLUSH = "address_flush"

_WRITE = 4
_END, _FLAGS, _NUMBER, _AT, _LEFT = R.L0, R.L1, R.L2, R.L3, R.L4


def flush_name(packed: bool) -> str:
    """Return the symbol of the variant for traces of bytes or of bits."""
    return "trace_flush_bits" if packed else "trace_flush"


@cache
def flush_routine(machine: s.MachineKind, packed: bool) -> tuple[s.Item, ...]:
    """Return one variant of the routine, to be assembled; its first label is its symbol."""
    return _routine(machine, flush_name(packed), TRACE_BUFFER, TRACE_SIZE * (8 if packed else 1))


@cache
def byte_flush_routine(machine: s.MachineKind) -> tuple[s.Item, ...]:
    """Return the variant for traces of bytes."""
    return flush_routine(machine, False)


@cache
def address_flush_routine(machine: s.MachineKind) -> tuple[s.Item, ...]:
    """Return the routine that empties the buffer of addresses."""
    return _routine(machine, ADDRESSES_FLUSH, ADDRESSES_BUFFER, TRACE_SIZE)


def _routine(machine: s.MachineKind, name: str, buffer: int, units: int) -> tuple[s.Item, ...]:
    is64 = machine is s.MachineKind.SPARCV9
    flags = machine is not s.MachineKind.SPARCV8
    return (
        s.Label(name),
        s.save_smallest_frame(machine),
        *([asm.read_state("%ccr", _FLAGS)] if flags else []),
        asm.mov(R.G1, _NUMBER),
        asm.sethi(buffer + TRACE_SIZE, _END),
        asm.sethi(buffer, _AT),
        asm.sethi(TRACE_SIZE, _LEFT),
        *_write(name, is64),
        *_move_slack(buffer, units),
        asm.mov(_NUMBER, R.G1),
        *([asm.write_state(_FLAGS, 0, "%ccr")] if flags else []),
        asm.ret(),
        asm.restore(),
    )


def _write(name: str, is64: bool) -> list[s.Item]:
    """Write until nothing is left or a write fails."""
    # That is told by carry, which qemu-user sets and clears only in xcc of 64-bit programs.
    done = f"{name}.done"
    failed = asm.branch_predicted("cs", "%xcc", done) if is64 else asm.branch("cs", done)
    return [
        s.Label(f"{name}.again"),
        asm.load("ld", _END, DESCRIPTOR, R.O0),
        asm.mov(_AT, R.O1),
        asm.mov(_LEFT, R.O2),
        asm.mov(_WRITE, R.G1),
        asm.trap_always(s.SYSTEM_CALL_TRAP[is64]),
        failed,
        asm.arithmetic("sub", _LEFT, R.O0, _LEFT),
        asm.cmp(_LEFT, 0),
        asm.branch("g", f"{name}.again"),
        asm.arithmetic("add", _AT, R.O0, _AT),
        s.Label(done),
    ]


def _move_slack(buffer: int, units: int) -> list[s.Item]:
    return [
        asm.sethi(buffer, _AT),
        asm.load("ld", _END, SLACK, _LEFT),
        asm.store("st", _LEFT, _AT, 0),
        asm.load("ld", _END, SLACK + 4, _LEFT),
        asm.store("st", _LEFT, _AT, 4),
        asm.load("ld", _END, POSITION, _LEFT),
        asm.sethi(units, _AT),
        asm.arithmetic("sub", _LEFT, _AT, _LEFT),
        asm.store("st", _LEFT, _END, POSITION),
    ]


@cache
def flush_instructions(machine: s.MachineKind) -> int:
    """Instructions that a flush executes in the routine, when the system writes all at once."""
    return s.executed(flush_routine(machine, False), (False, False))


CALL = 2  # Instructions of a snippet's call of the routine, its delay slot included


def _flush(machine: s.MachineKind) -> int:
    return CALL + flush_instructions(machine)


STREAM = s.StreamBuffer(TRACE_BUFFER, TRACE_SIZE, POSITION, DESCRIPTOR, flush_name(True), _flush)


def flush_cost(machine: s.MachineKind, trace_bits: int) -> int:
    """Return what emptying the buffer adds to a program that writes so many bits."""
    # One flush for each full buffer, and one at the end for what is left.
    flushes = -(-trace_bits // (8 * TRACE_SIZE))
    return flushes * _flush(machine)
