"""The processor: calibration, registers, windows, condition codes."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simprof.simulator.cpu import cpu as cpu_module
from simprof.simulator.cpu.cpu import Cpu, HookKind, Stop
from simprof.simulator.cpu.cpu_state import (
    SYSTEM_PAGE,
    CpuState,
    set_condition_codes,
)
from simprof.simulator.cpu.engine import Engine
from simprof.simulator.cpu.native import read_condition_codes
from simprof.simulator.errors import EngineError

CODE = SYSTEM_PAGE + 0x400
WORDS = st.one_of(
    st.sampled_from([0, 1, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63, (1 << 64) - 1]),
    st.integers(0, (1 << 64) - 1),
)
SETTERS = {  # op3 of instructions that set condition codes
    "addcc": 0x10,
    "andcc": 0x11,
    "orcc": 0x12,
    "subcc": 0x14,
    "addccc": 0x18,
    "umulcc": 0x1A,
    "subccc": 0x1C,
    "taddcc": 0x20,
    "tsubcc": 0x21,
}
READ_CCR = 2 << 30 | 10 << 25 | 0x28 << 19 | 2 << 14  # rd %ccr, %o2
TRAP = 0x91D02070


class Stepper:
    """Runs a few instructions in the system page up to `ta 0x70`."""

    def __init__(self) -> None:
        self.cpu = Cpu(is64=True)
        self._callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p)(
            lambda handle, number, data: self.cpu.stop()
        )
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        assert address is not None
        self.cpu.add_hook(HookKind.INTERRUPT, address, 0)

    def run(self, *words: int) -> None:
        self.cpu.poke(CODE, *words, TRAP, 0x01000000)
        self.cpu.forget_code(SYSTEM_PAGE, SYSTEM_PAGE + 8192)
        assert self.cpu.run(CODE, CODE + 4) is Stop.REQUESTED


@pytest.fixture(scope="module")
def stepper() -> Stepper:
    return Stepper()


@pytest.mark.parametrize("is64", [True, False])
@pytest.mark.parametrize("windows", [3, 8, 32])
def test_starts_in_user_mode_with_free_windows(is64: bool, windows: int) -> None:
    cpu = Cpu(is64, windows)
    state = cpu.state
    assert (state.nwindows, state.cansave, state.canrestore) == (windows, windows - 2, 0)
    assert state.pstate == 0x10 | (0 if is64 else 8)
    assert state.fprs == 4
    assert [cpu.register(number) for number in range(32)] == [0] * 32


@pytest.mark.parametrize("windows", [2, 33])
def test_refuses_window_counts_that_cannot_be(windows: int) -> None:
    with pytest.raises(ValueError, match="register windows"):
        Cpu(True, windows)


@pytest.mark.parametrize(
    "context", [b"", bytes(8192), b"\0" * 8 + bytes.fromhex("0177665544332211") * 200]
)
def test_refuses_an_engine_that_it_does_not_recognise(
    context: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_module, "_read_context", lambda engine: context)
    with pytest.raises(EngineError, match=r"install unicorn 2\.1"):
        Cpu(True)


def test_refuses_a_window_pointer_that_leads_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    original = cpu_module._read_context

    def moved(engine: Engine) -> bytes:
        saved = original(engine)
        at = saved.find((0x1122334455667701).to_bytes(8, "little")) - 8 + CpuState.window.offset
        value = int.from_bytes(saved[at : at + 8], "little") + 8
        return saved[:at] + value.to_bytes(8, "little") + saved[at + 8 :]

    monkeypatch.setattr(cpu_module, "_read_context", moved)
    with pytest.raises(EngineError, match="state check failed"):
        Cpu(True)


def test_refuses_an_engine_that_fails_the_self_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_module, "FEATURE_QUAD_FLOAT", 0)
    with pytest.raises(EngineError, match="self-test failed"):
        Cpu(True)


@given(name=st.sampled_from(sorted(SETTERS)), first=WORDS, second=WORDS, carry=st.booleans())
@example(name="taddcc", first=1, second=0, carry=False)
def test_lazy_condition_codes_are_those_the_engine_computes(
    stepper: Stepper, name: str, first: int, second: int, carry: bool
) -> None:
    cpu = stepper.cpu
    word = 2 << 30 | 8 << 25 | SETTERS[name] << 19 | 1 << 14 | 2  # %g1, %g2 -> %o0
    cpu.state.globals[1], cpu.state.globals[2] = first, second
    set_condition_codes(cpu.state, int(carry), int(carry))
    stepper.run(word)
    lazy = read_condition_codes(cpu.state)
    set_condition_codes(cpu.state, int(carry), int(carry))
    stepper.run(word, READ_CCR)
    computed = cpu.register(10)
    assert lazy == (computed & 15, computed >> 4 & 15)


def test_single_registers_share_a_double(stepper: Stepper) -> None:
    cpu = stepper.cpu
    cpu.set_fp_word(6, 0x11223344)
    cpu.set_fp_word(7, 0x55667788)
    assert cpu.state.fp[3] == 0x1122334455667788


@pytest.mark.parametrize("direction", range(4))
def test_setting_the_fsr_sets_the_rounding_direction(stepper: Stepper, direction: int) -> None:
    """1/3 rounds up towards +infinity (2) only; -1/3 towards -infinity (3) only."""
    cpu = stepper.cpu
    divide = 2 << 30 | 4 << 25 | 0x34 << 19 | 0 << 14 | 0x4E << 5 | 2  # fdivd %f0, %f2, %f4
    cpu.set_fsr(direction << 30)
    magnitudes = []
    for one in (0x3FF0000000000000, 0xBFF0000000000000):
        cpu.state.fp[0], cpu.state.fp[1] = one, 0x4008000000000000
        stepper.run(divide)
        magnitudes.append(cpu.state.fp[2] & 0xFF)
    expected = {0: [0x55, 0x55], 1: [0x55, 0x55], 2: [0x56, 0x55], 3: [0x55, 0x56]}
    assert magnitudes == expected[direction]
    cpu.set_fsr(0)
