"""Accesses that the engine leaves to us: devices, alternate spaces, data beside code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from simprof.simulator.binary.program import Program
from simprof.simulator.cpu.address_space import AddressSpace, GuestFault
from simprof.simulator.cpu.cpu import Cpu
from simprof.simulator.errors import UnsupportedError
from simprof.simulator.isa.sparc import LOADS_AND_STORES
from simprof.simulator.leon.devices import (
    APB_PLUG_AND_PLAY,
    PLUG_AND_PLAY,
    PLUG_AND_PLAY_WORDS,
    InterruptController,
    Timers,
    Uart,
)
from simprof.simulator.linux.files import HostCalls
from simprof.simulator.machine.faults import effective_address

_UART, _CONTROLLER, _TIMERS = 0x8000_0100, 0x8000_0200, 0x8000_0300
_DEVICE_SIZE: Final = 0x100
_WORD: Final = 0xFFFF_FFFF


class BusError(Exception):
    """Nothing answers at an address."""


class Bus:
    """Memory and devices; `now`: the time in processor cycles."""

    def __init__(
        self, program: Program, memory: AddressSpace, host: HostCalls, now: Callable[[], int]
    ) -> None:
        self._program = program
        self._memory = memory
        self._now = now
        self.controller = InterruptController()
        self.uart = Uart(host, lambda: self.controller.request(3))
        self.timers = Timers(self.controller.request)

    def read(self, address: int, size: int) -> int:
        """Return what `size` bytes at `address` hold; raises `BusError`."""
        if address < 0x8000_0000:
            try:
                return int.from_bytes(self._memory.read(address, size), "big")
            except GuestFault:
                raise BusError from None
        if size == 8:
            return self.read(address, 4) << 32 | self.read(address + 4, 4)
        word = self._read_word(address & ~3)
        return word >> 8 * (4 - size - (address & 3)) & ((1 << 8 * size) - 1)

    def _read_word(self, address: int) -> int:
        device, offset = address & -_DEVICE_SIZE, address & _DEVICE_SIZE - 1
        if device == _UART:
            return self.uart.read(offset)
        if device == _CONTROLLER:
            return self.controller.read(offset)
        if device == _TIMERS:
            return self.timers.read(offset, self._now())
        if address & -0x1000 in (PLUG_AND_PLAY, APB_PLUG_AND_PLAY):
            return PLUG_AND_PLAY_WORDS.get(address, 0)
        raise BusError

    def write(self, address: int, size: int, value: int) -> None:
        """Set `size` bytes at `address`; raises `BusError`."""
        if address < 0x8000_0000:
            self._write_memory(address, value.to_bytes(size, "big"))
            return
        if size == 8:
            self.write(address, 4, value >> 32)
            self.write(address + 4, 4, value & _WORD)
            return
        device, offset = address & -_DEVICE_SIZE, address & _DEVICE_SIZE - 4
        if device == _UART:
            self.uart.write(offset, value)
        elif device == _CONTROLLER:
            self.controller.write(offset, value)
        elif device == _TIMERS:
            self.timers.write(offset, value, self._now())
        elif address & -0x1000 not in (PLUG_AND_PLAY, APB_PLUG_AND_PLAY):
            raise BusError

    def _write_memory(self, address: int, data: bytes) -> None:
        end = address + len(data)
        if any(address < span.end and span.start < end for span in self._program.code):
            raise UnsupportedError(
                f"{self._program.path}: the program changes its own code at {address:#x}; "
                "simprof cannot profile generated or self-modified code"
            )
        if not self._memory.is_mapped(address, len(data)):
            raise BusError
        self._memory.load(address, data)


_LDD, _STD, _LDSTUB, _SWAP, _CASA = 0x03, 0x07, 0x0D, 0x0F, 0x3C
_LDFSR, _LDDF, _STFSR, _STDF = 0x21, 0x23, 0x25, 0x27
_V8 = (*range(8), 0x09, 0x0A, _LDSTUB, _SWAP, 0x20, _LDFSR, _LDDF, 0x24, _STFSR, _STDF, _CASA)
_ACCESSES = {op3: LOADS_AND_STORES[op3] for op3 in _V8}
_ACCESSES[_STFSR] = _ACCESSES[_STFSR]._replace(size=4)  # V9's is 8 bytes with rd = 1


def access_size(word: int) -> int:
    """Return the bytes that a load or store reads or writes; 0 where it is none of V8's."""
    access = _ACCESSES.get(plain_operation(word))
    return 0 if access is None else access.size


def plain_operation(word: int) -> int:
    """Return op3 of a load or store, that of its ordinary form if it names an address space."""
    op3 = word >> 19 & 63
    return op3 & 0x0F if op3 < 0x20 else op3


def do_access(cpu: Cpu, word: int, bus: Bus) -> None:
    """Do what the load or store `word`, which is about to execute, does; raises `BusError`."""
    op3, number = plain_operation(word), word >> 25 & 31
    address, access = effective_address(cpu, word), _ACCESSES[op3]
    bits = 8 * access.size
    if not access.stores:
        value = bus.read(address, access.size)
        if access.signed and value >> (bits - 1):
            value -= 1 << bits
        _set(cpu, op3, number, value & 0xFFFF_FFFF_FFFF_FFFF)
    elif not access.loads:
        bus.write(address, access.size, _get(cpu, op3, number) & ((1 << bits) - 1))
    elif op3 == _LDSTUB:
        value = bus.read(address, 1)
        bus.write(address, 1, 0xFF)
        cpu.set_register(number, value)
    elif op3 == _SWAP:
        value = bus.read(address, 4)
        bus.write(address, 4, cpu.register(number) & _WORD)
        cpu.set_register(number, value)
    else:
        value = bus.read(address, 4)
        if value == cpu.register(word & 31) & _WORD:
            bus.write(address, 4, cpu.register(number) & _WORD)
        cpu.set_register(number, value)


def _set(cpu: Cpu, op3: int, number: int, value: int) -> None:
    if op3 == _LDD:
        cpu.set_register(number & 30, value >> 32)
        cpu.set_register(number | 1, value & _WORD)
    elif op3 == _LDFSR:
        cpu.set_fsr(int(cpu.state.fsr) & 0x1C000 | value & 0xCF800FFF)
    elif op3 == _LDDF:
        cpu.set_fp_word(number & 30, value >> 32)
        cpu.set_fp_word(number | 1, value & _WORD)
    elif op3 >= 0x20:
        cpu.set_fp_word(number, value)
    else:
        cpu.set_register(number, value)


def _get(cpu: Cpu, op3: int, number: int) -> int:
    if op3 == _STD:
        return (cpu.register(number & 30) & _WORD) << 32 | cpu.register(number | 1) & _WORD
    if op3 == _STFSR:
        return int(cpu.state.fsr) & _WORD
    if op3 == _STDF:
        return _fp_word(cpu, number & 30) << 32 | _fp_word(cpu, number | 1)
    if op3 >= 0x20:
        return _fp_word(cpu, number)
    return cpu.register(number)


def _fp_word(cpu: Cpu, number: int) -> int:
    return int(cpu.state.fp[number >> 1]) >> (0 if number & 1 else 32) & _WORD
