"""Code of the actions of trace plans (BL94 4, 6.2).

A token of a byte, its buffer not full: `sethi; ld; mov; stb; add; st`, and two or three
instructions that test the position. Packed tokens of one bit shift the last byte of the buffer:
`sethi; ld; sra; ldub; sll; or; stb; add; st`. Longer ones are written eight bits at a time at
most; such a piece ends in the byte where it begins or in the next, and is stored to both, the
second store being the one that counts where they are one. An address of data goes to a buffer of
its own: `add; sethi; ld; st; add; st`, and the test.

Emptying the buffer is conditional code; how often it runs does not depend on the edge
(`flush.flush_cost`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping

from simprof import schemes as s
from simprof.profiler.schemes.tracing.actions import POSITION, WriteTarget
from simprof.profiler.schemes.tracing.flush import (
    ADDRESSES_END,
    ADDRESSES_FLUSH,
    STREAM,
    TRACE_END,
    address_flush_routine,
    byte_flush_routine,
    flush_cost,
    flush_instructions,
    flush_name,
    flush_routine,
)
from simprof.schemes import asm

R = s.Register

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
