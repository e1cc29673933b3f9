"""The devices that bare LEON3 programs touch (GRLIB IP Core Manual): registers of 32 bits."""

from __future__ import annotations

import stat
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from simprof.simulator.binary.program import Program
from simprof.simulator.cpu.address_space import AddressSpace, GuestFault
from simprof.simulator.cpu.cpu import Cpu
from simprof.simulator.errors import UnsupportedError
from simprof.simulator.isa.sparc import LOADS_AND_STORES
from simprof.simulator.linux.files import HostCalls
from simprof.simulator.linux.outside import FileStatus
from simprof.simulator.machine.faults import effective_address

UART_INTERRUPT: Final = 3
TIMER_INTERRUPT: Final = 6
TIMERS: Final = 2
_WORD: Final = 0xFFFF_FFFF


class InterruptController:
    """IRQMP: which of the levels 1..15 the processor is to be interrupted with."""

    def __init__(self) -> None:
        self._level = self._pending = self._force = self._mask = 0

    def read(self, offset: int) -> int:
        """Return the register at `offset`, in bytes."""
        registers = {0x00: self._level, 0x04: self._pending, 0x08: self._force, 0x40: self._mask}
        return registers.get(offset, self._force if offset == 0x80 else 0)

    def write(self, offset: int, value: int) -> None:
        """Set the register at `offset`, in bytes."""
        if offset == 0x00:
            self._level = value & 0xFFFE
        elif offset in (0x08, 0x80):
            self._force = value & 0xFFFE
        elif offset == 0x0C:
            self._pending &= ~value
        elif offset == 0x04:
            self._pending = value & 0xFFFE
        elif offset == 0x40:
            self._mask = value & 0xFFFE

    def request(self, number: int) -> None:
        """Make interrupt `number` pending."""
        self._pending |= 1 << number

    def highest(self) -> int:
        """Return the interrupt that is next, those of priority level 1 first; 0: none is."""
        active = (self._pending | self._force) & self._mask
        return ((active & self._level) or active).bit_length() - 1 if active else 0

    def acknowledge(self, number: int) -> None:
        """Take note that the processor has been interrupted."""
        bit = 1 << number
        if self._force & bit:
            self._force &= ~bit
        else:
            self._pending &= ~bit


_DATA_READY, _SHIFT_EMPTY, _FIFO_EMPTY = 1, 2, 4
_RECEIVE, _TRANSMIT, _RECEIVE_INTERRUPT, _TRANSMIT_INTERRUPT = 1, 2, 4, 8


class Uart:
    """APBUART: standard output, and standard input where that is a regular file."""

    def __init__(self, host: HostCalls, request: Callable[[], None]) -> None:
        self._host = host
        self._request = request
        self._control = _RECEIVE | _TRANSMIT  # as boot loaders leave it
        self._scaler = 0
        self._output = bytearray()
        self._input = bytearray()
        self._has_input: bool | None = None

    def read(self, offset: int) -> int:
        """Return the register at `offset`, in bytes."""
        if offset == 0x00 and self._is_ready():
            byte = self._input.pop(0)
            self._report_input()
            return byte
        if offset == 0x04:
            return _SHIFT_EMPTY | _FIFO_EMPTY | (_DATA_READY if self._is_ready() else 0)
        return {0x08: self._control, 0x0C: self._scaler}.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Set the register at `offset`, in bytes."""
        if offset == 0x00 and self._control & _TRANSMIT:
            self._output.append(value & 0xFF)
            if value & 0xFF == 10:
                self.flush()
            if self._control & _TRANSMIT_INTERRUPT:
                self._request()
        elif offset == 0x08:
            self._control = value
            self._report_input()
        elif offset == 0x0C:
            self._scaler = value & 0xFFF

    def flush(self) -> None:
        """Write what has been sent since the last end of a line; raises OSError, once."""
        data = bytes(self._output)
        self._output.clear()
        while data:
            data = data[self._host.write(1, data) :]

    def _report_input(self) -> None:
        if self._control & _RECEIVE_INTERRUPT and self._is_ready():
            self._request()

    def _is_ready(self) -> bool:
        if not self._control & _RECEIVE:
            return False
        if self._has_input is None:
            status = self._host.status(0)
            self._has_input = isinstance(status, FileStatus) and stat.S_ISREG(status.mode)
        if self._has_input and not self._input:
            self._input += self._host.read(0, 4096)
            self._has_input = bool(self._input)
        return bool(self._input)


_OWN_INTERRUPTS: Final = 3 << 8  # each timer has one; they never freeze
_ENABLE, _RESTART, _LOAD, _INTERRUPT, _IS_PENDING, _CHAIN = 1, 2, 4, 8, 16, 32


class _Timer(Struct):
    counter: int = 0  # at tick `since`
    reload: int = 0
    control: int = 0
    since: int = 0

    @property
    def is_enabled(self) -> bool:
        return bool(self.control & _ENABLE)

    def value(self, tick: int) -> int:
        return (self.counter - (tick - self.since if self.is_enabled else 0)) & _WORD

    @property
    def underflow(self) -> int:
        """Tick at which it comes below zero."""
        return self.since + self.counter + 1

    def load(self, tick: int) -> None:
        self.counter, self.since = self.reload, tick


class Timers:
    """GPTIMER: a prescaler, which divides the processor's clock, and timers that count down."""

    def __init__(self, request: Callable[[int], None]) -> None:
        self._request = request
        self._scaler = 39  # as boot loaders leave it: a tick is a microsecond at 40 MHz
        self._base_tick = self._base_cycle = 0
        self._timers = [_Timer() for _ in range(TIMERS)]
        self._timers[0] = _Timer(_WORD - 1, _WORD - 1, _ENABLE | _RESTART)

    def _tick(self, now: int) -> int:
        return self._base_tick + (now - self._base_cycle) // (self._scaler + 1)

    def _cycle(self, tick: int) -> int:
        return self._base_cycle + (tick - self._base_tick) * (self._scaler + 1)

    def update(self, now: int) -> None:
        """Let timers that have come below zero by the time `now` do so."""
        tick = self._tick(now)
        for number, timer in enumerate(self._timers):
            while timer.is_enabled and timer.underflow <= tick:
                self._underflow(number, timer)

    def _underflow(self, number: int, timer: _Timer) -> None:
        at = timer.underflow
        timer.control |= _IS_PENDING
        if timer.control & _RESTART:
            timer.load(at)
        else:
            timer.control &= ~_ENABLE
            timer.counter = _WORD
        if timer.control & _INTERRUPT:
            self._request(TIMER_INTERRUPT + number)

    def next_interrupt(self) -> int | None:
        """Return when the next one is due; None: none ever."""
        due = [t.underflow for t in self._timers if t.is_enabled and t.control & _INTERRUPT]
        return self._cycle(min(due)) if due else None

    def read(self, offset: int, now: int) -> int:
        """Return the register at `offset`, in bytes, at the time `now`."""
        self.update(now)
        if offset < 0x10:
            since = (now - self._base_cycle) % (self._scaler + 1)
            configuration = _OWN_INTERRUPTS | TIMER_INTERRUPT << 3 | TIMERS
            return (self._scaler - since, self._scaler, configuration, 0)[offset >> 2]
        number, register = (offset >> 4) - 1, offset & 15
        if number >= TIMERS:
            return 0
        timer = self._timers[number]
        values = {0: timer.value(self._tick(now)), 4: timer.reload, 8: timer.control}
        return values.get(register, 0)

    def write(self, offset: int, value: int, now: int) -> None:
        """Set the register at `offset`, in bytes, at the time `now`."""
        self.update(now)
        if offset in (0x00, 0x04):
            self._base_tick, self._base_cycle = self._tick(now), now
            self._scaler = value & 0xFFFF
        number, register = (offset >> 4) - 1, offset & 15
        if 0 <= number < TIMERS:
            self._write_timer(self._timers[number], register, value, self._tick(now))

    def _write_timer(self, timer: _Timer, register: int, value: int, tick: int) -> None:
        if register == 0:
            timer.counter, timer.since = value, tick
        elif register == 4:
            timer.reload = value
        elif register == 8:
            if value & _CHAIN:
                raise UnsupportedError("the program chains timers, which simprof's have not")
            timer.counter, timer.since = timer.value(tick), tick
            pending = timer.control & _IS_PENDING & ~(value & _IS_PENDING)
            timer.control = value & (_ENABLE | _RESTART | _INTERRUPT) | pending
            if value & _LOAD:
                timer.load(tick)


_GAISLER: Final = 1
_LEON3, _APB_BRIDGE, _UART, _IRQMP, _GPTIMER = 0x003, 0x006, 0x00C, 0x00D, 0x011
_UART_AT, _CONTROLLER_AT, _TIMERS_AT = 0x8000_0100, 0x8000_0200, 0x8000_0300
PLUG_AND_PLAY: Final = 0xFFFF_F000
APB_PLUG_AND_PLAY: Final = 0x800F_F000


def _identity(device: int, interrupt: int = 0, version: int = 0) -> int:
    return _GAISLER << 24 | device << 12 | version << 5 | interrupt


def _apb_place(address: int) -> int:
    return (address >> 8 & 0xFFF) << 20 | 0xFFF << 4 | 1


# What there is and where, as programs look it up: by address (GRLIB, 5 and 6).
PLUG_AND_PLAY_WORDS: Final = {
    PLUG_AND_PLAY: _identity(_LEON3),
    PLUG_AND_PLAY + 0x800: _identity(_APB_BRIDGE),
    PLUG_AND_PLAY + 0x810: 0x800 << 20 | 0xFFF << 4 | 2,
    APB_PLUG_AND_PLAY + 0x00: _identity(_IRQMP, version=2),
    APB_PLUG_AND_PLAY + 0x04: _apb_place(_CONTROLLER_AT),
    APB_PLUG_AND_PLAY + 0x08: _identity(_GPTIMER, TIMER_INTERRUPT),
    APB_PLUG_AND_PLAY + 0x0C: _apb_place(_TIMERS_AT),
    APB_PLUG_AND_PLAY + 0x10: _identity(_UART, UART_INTERRUPT, version=1),
    APB_PLUG_AND_PLAY + 0x14: _apb_place(_UART_AT),
}


_DEVICE_SIZE: Final = 0x100


class BusError(Exception):
    """Nothing answers at an address."""


# `Bus` has them beside the memory; `do_access` does on it what the engine leaves to us: accesses of
# devices, of alternate spaces, of data beside code. Time is given in processor cycles. What a
# device leaves out it refuses or reads as zero; the guide says which.
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
        if device == _UART_AT:
            return self.uart.read(offset)
        if device == _CONTROLLER_AT:
            return self.controller.read(offset)
        if device == _TIMERS_AT:
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
        if device == _UART_AT:
            self.uart.write(offset, value)
        elif device == _CONTROLLER_AT:
            self.controller.write(offset, value)
        elif device == _TIMERS_AT:
            self.timers.write(offset, value, self._now())
        elif address & -0x1000 not in (PLUG_AND_PLAY, APB_PLUG_AND_PLAY):
            raise BusError

    def _write_memory(self, address: int, data: bytes) -> None:
        end = address + len(data)
        if any(address < span.end and span.start < end for span in self._program.code):
            raise UnsupportedError(
                f"{self._program.path}: the program changes its own code at {address:#x}; "
                "simprof cannot profile self-modified code"
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
    op3 = plain_operation(word)
    return _ACCESSES[op3].size if op3 in _ACCESSES else 0


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
    else:
        value = bus.read(address, access.size)
        if op3 != _CASA or value == cpu.register(word & 31) & _WORD:
            stored = 0xFF if op3 == _LDSTUB else cpu.register(number) & _WORD
            bus.write(address, access.size, stored)
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
