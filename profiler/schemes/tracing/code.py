"""Code of the actions of trace plans (BL94 4, 6.2).

A token of a byte, its buffer not full: `sethi; ld; mov; stb; add; st`, and two or three
instructions that test the position. Packed tokens of one bit shift the last byte of the buffer:
`sethi; ld; sra; ldub; sll; or; stb; add; st`. Longer ones are written eight bits at a time at
most; such a piece ends in the byte where it begins or in the next, and is stored to both, the
second store being the one that counts where they are one. An address of data goes to a buffer of
its own: `add; sethi; ld; st; add; st`, and the test.

Emptying the buffer is conditional code; how often it runs does not depend on the edge
(`flush_cost`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache

from simprof import schemes as s
from simprof.schemes import asm

# -- Actions
#
# Actions of trace plans that are no WriteTrace.


# Bytes of the trace that are collected before they are written; a `sethi` makes them.
TRACE_SIZE = 8192
POSITION = 8  # Behind these: where the position in the buffer is
# Where tokens are collected. Its position says how many bits of the last byte count.
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


# -- The buffer, and the routine that empties it
#
# The trace buffer of instrumented programs, and the run-time routine that empties it.
#
# The buffer is full when its position is no longer negative. Then `trace_flush` writes SIZE
# bytes, moves the slack to the buffer's start and sets the position back by the units of SIZE: a
# flush for each SIZE bytes of the trace, whatever tokens they belong to. The program's last flush
# writes what is left.
#
# Called with `call`; only %o7 changes, on V8 also icc. A write that fails loses the buffer: the
# program must not notice.


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
_LIMIT, _FLAGS, _NUMBER, _FROM, _LEFT = R.L0, R.L1, R.L2, R.L3, R.L4


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
        asm.sethi(buffer + TRACE_SIZE, _LIMIT),
        asm.sethi(buffer, _FROM),
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
        asm.load("ld", _LIMIT, DESCRIPTOR, R.O0),
        asm.mov(_FROM, R.O1),
        asm.mov(_LEFT, R.O2),
        asm.mov(_WRITE, R.G1),
        asm.trap_always(s.SYSTEM_CALL_TRAP[is64]),
        failed,
        asm.arithmetic("sub", _LEFT, R.O0, _LEFT),
        asm.cmp(_LEFT, 0),
        asm.branch("g", f"{name}.again"),
        asm.arithmetic("add", _FROM, R.O0, _FROM),
        s.Label(done),
    ]


def _move_slack(buffer: int, units: int) -> list[s.Item]:
    return [
        asm.sethi(buffer, _FROM),
        asm.load("ld", _LIMIT, SLACK, _LEFT),
        asm.store("st", _LEFT, _FROM, 0),
        asm.load("ld", _LIMIT, SLACK + 4, _LEFT),
        asm.store("st", _LEFT, _FROM, 4),
        asm.load("ld", _LIMIT, POSITION, _LEFT),
        asm.sethi(units, _FROM),
        asm.arithmetic("sub", _LEFT, _FROM, _LEFT),
        asm.store("st", _LEFT, _LIMIT, POSITION),
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


# -- Code


_END, _POSITION, _AT, _VALUE, _SHIFT, _PIECE, _TARGET = range(7)  # Temporaries, by use


def _needs(action: object, table: s.CounterTable, machine: s.MachineKind) -> s.Needs:
    return s.Needs(
        clobbers=(R.O7,),
        conditions=machine is s.MachineKind.SPARCV8,
        at_transfer=isinstance(action, WriteTarget),
    )


def write_trace(writer: s.Writer, action: s.WriteTrace) -> None:
    """Append a constant."""
    begin_append(writer)
    _append_token(writer, action)
    end_append(writer, flush_name(action.packed))


def write_target(writer: s.Writer, action: WriteTarget) -> None:
    """Append what the edge writes, if anything, and the address that the transfer goes to."""
    base, offset = _transfer_target(writer, action.block)
    writer.keep_out(base, *([offset] if isinstance(offset, s.Register) else []))
    target = writer.temporary(_TARGET)
    writer.emit(asm.arithmetic("add", base, offset, target))
    begin_append(writer)
    if action.token is not None:
        _append_token(writer, action.token)
    for shift in range(s.TARGET_BITS - 8, -1, -8):
        if action.packed:
            _append_packed(writer, 8, lambda piece, shift=shift: _piece(writer, shift, piece))  # type: ignore[misc]
        else:
            value = writer.temporary(_VALUE)
            writer.emit(asm.shift("srl", target, shift, value))
            _append_byte(writer, value)
    end_append(writer, flush_name(action.packed))


def _transfer_target(writer: s.Writer, block: int) -> tuple[s.Register, s.Register | int]:
    """The operands whose sum is the address that the `jmpl` at the end of `block` goes to."""
    analysis = writer.access.context.analysis
    if analysis is None:
        return R.G0, R.G0
    word = analysis.liveness.transfer_word(block)
    base = s.Register(word >> 14 & 31)
    if word >> 13 & 1:
        return base, s.simm13(word)
    return base, s.Register(word & 31)


def write_address(writer: s.Writer, action: s.WriteAddress) -> None:
    """Append the address that an instruction refers to, to the buffer of addresses."""
    base, offset = _reference(writer, action)
    writer.keep_out(base, *([offset] if isinstance(offset, s.Register) else []))
    address = writer.temporary(_TARGET)
    writer.emit(asm.arithmetic("add", base, offset, address))
    # %sp may have been lowered by this code.
    writer.sum(address, writer.lowered * sum(r is R.SP for r in (base, offset)), address, _VALUE)
    begin_append(writer, ADDRESSES_END)
    end, position = writer.temporary(_END), writer.temporary(_POSITION)
    store, size = ("stx", 8) if writer.is64 else ("st", 4)
    writer.emit(
        asm.store(store, address, end, position), asm.arithmetic("add", position, size, position)
    )
    end_append(writer, ADDRESSES_FLUSH)


def _reference(writer: s.Writer, action: s.WriteAddress) -> s.Operands:
    analysis = writer.access.context.analysis
    if analysis is None:
        return s.Operands(R.G0, R.G0)
    code = analysis.liveness.blocks[action.block]
    words = analysis.liveness.facts.words[code.first : code.first + code.count]
    return s.recorded_operands(code, words.tolist(), action.position)


def begin_append(writer: s.Writer, at: int = TRACE_END) -> tuple[s.Register, s.Register]:
    """Load where the buffer ends, and the position in it; return the registers."""
    end, position = writer.temporary(_END), writer.temporary(_POSITION)
    load = "ld" if writer.machine is s.MachineKind.SPARCV8 else "ldsw"
    writer.emit(asm.sethi(at, end), asm.load(load, end, POSITION, position))
    return end, position


def set_symbol(writer: s.Writer, path: int, register: s.Register) -> None:
    """Put the symbol of one of the routine's paths into a register (`CounterTable.STREAM`)."""
    # Always two instructions: what the routine's first number is does not decide the price. The sum
    # is taken modulo 2^32, as a word is stored.
    symbol = (writer.layout.first[0] + path) % (1 << s.SYMBOL_BITS)
    writer.emit(
        asm.sethi(symbol, register), asm.arithmetic("or", register, symbol & 0x3FF, register)
    )


def end_append(writer: s.Writer, flush: str) -> None:
    """Store the position; empty the buffer if it is full."""
    end, position = writer.temporary(_END), writer.temporary(_POSITION)
    writer.emit(asm.store("st", position, end, POSITION))
    cost = flush_instructions(writer.machine)
    writer.conditional("gez", position, lambda: writer.call(flush, cost), spare=_POSITION)


def _pieces(token: s.WriteTrace) -> Iterator[tuple[int, int]]:
    """Yield width and bits of the pieces, of eight bits at most, that a token is written in."""
    left = token.width
    while left:
        width = min(left, 8)
        left -= width
        yield width, token.value >> left & (1 << width) - 1


def _append_token(writer: s.Writer, token: s.WriteTrace) -> None:
    for width, bits in _pieces(token):
        if not token.packed:
            value = R.G0
            if bits:
                value = writer.temporary(_VALUE)
                writer.emit(asm.mov(bits, value))
            _append_byte(writer, value)
        elif width == 1:
            _append_bit(writer, bits)
        else:
            _append_packed(writer, width, lambda piece, bits=bits: _or(writer, bits, piece))  # type: ignore[misc]


def _append_byte(writer: s.Writer, value: s.Register) -> None:
    end, position = writer.temporary(_END), writer.temporary(_POSITION)
    writer.emit(
        asm.store("stb", value, end, position), asm.arithmetic("add", position, 1, position)
    )


def _append_bit(writer: s.Writer, bit: int) -> None:
    end, position = writer.temporary(_END), writer.temporary(_POSITION)
    at, piece = writer.temporary(_AT), writer.temporary(_PIECE)
    writer.emit(
        asm.shift("sra", position, 3, at),
        asm.load("ldub", end, at, piece),
        asm.shift("sll", piece, 1, piece),
    )
    _or(writer, bit, piece)
    writer.emit(asm.store("stb", piece, end, at), asm.arithmetic("add", position, 1, position))


def _append_packed(writer: s.Writer, width: int, put: Callable[[s.Register], None]) -> None:
    """Append 2 to 8 bits, which `put` puts into the low bits of a register."""
    end, position = writer.temporary(_END), writer.temporary(_POSITION)
    at, piece, shift = (writer.temporary(n) for n in (_AT, _PIECE, _SHIFT))
    writer.emit(
        asm.shift("sra", position, 3, at),
        asm.load("ldub", end, at, piece),
        asm.shift("sll", piece, width, piece),
    )
    put(piece)
    writer.emit(asm.arithmetic("and", position, 7, shift))
    if width != 8:
        writer.emit(asm.arithmetic("add", shift, width - 8, shift))
    writer.emit(
        asm.shift("srl", piece, shift, shift),
        asm.store("stb", shift, end, at),
        asm.arithmetic("add", position, width - 1, at),
        asm.shift("sra", at, 3, at),
        asm.store("stb", piece, end, at),
        asm.arithmetic("add", position, width, position),
    )


def _or(writer: s.Writer, bits: int, piece: s.Register) -> None:
    if bits:
        writer.emit(asm.arithmetic("or", piece, bits, piece))


def _piece(writer: s.Writer, shift: int, piece: s.Register) -> None:
    """Put eight bits of the target into the low bits of `piece`."""
    value, target = writer.temporary(_VALUE), writer.temporary(_TARGET)
    writer.emit(
        asm.shift("srl", target, shift, value),
        asm.arithmetic("and", value, 0xFF, value),
        asm.arithmetic("or", piece, value, piece),
    )


def _trace_shape(action: s.WriteTrace, access: s.CounterAccess) -> Hashable:
    """Its width, and which of its pieces are 0: these take no register, or no instruction."""
    pieces = (bits != 0 for _, bits in _pieces(action))
    return action.width, action.packed, tuple(pieces)


GENERATORS: s.Generators = {
    s.WriteTrace: s.Generator(write_trace, _needs, _trace_shape),
    WriteTarget: s.Generator(write_target, _needs),
    s.WriteAddress: s.Generator(write_address, _needs),
}


def run_cost(machine: s.MachineKind, sizes: Mapping[str, int]) -> int:
    """Return what all flushes of a run execute, of its `sizes`."""
    streams = (sizes.get(name, 0) for name in ("trace_bits", "address_bits"))
    return sum(flush_cost(machine, bits) for bits in streams)


CODE = s.SchemeCode(
    generators=GENERATORS,
    routines=(
        byte_flush_routine,
        lambda machine: flush_routine(machine, True),
        address_flush_routine,
    ),
    run_cost=run_cost,
    stream=STREAM,
)
