"""The oracle itself: parsing of qemu's log, and runs of which the counts are known otherwise."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tests.oracles.qemu import OracleError, parse, read_log, run, trace
from tests.support.turns import turns

WIDTHS = ("v8", "v8plus", "v9")


def function_address(path: Path, name: str) -> int:
    with path.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        symbols = table.get_symbol_by_name(name)
        assert symbols is not None
        (symbol,) = symbols
        return int(symbol["st_value"])


def test_parse_short_addresses() -> None:
    line = b"Trace 0: 0x7fa0316000c0 [0001194c/00011948/00000000/00000201] _start\n"
    pc, npc, stopped, sp = parse(line, stack_pointers=False)
    assert (pc.tolist(), npc.tolist(), stopped.tolist()) == ([0x11948], [0x1194C], [False])
    assert sp is None


def test_parse_long_addresses() -> None:
    line = b"Trace 0: 0x7f1936800100 [ffffffff0010007c/0000000000100078/82000000/00000201] \n"
    pc, npc, *_ = parse(line, stack_pointers=False)
    assert (pc.tolist(), npc.tolist()) == ([0x100078], [0xFFFFFFFF0010007C - (1 << 64)])


def test_stopped_line_takes_the_last_one_back() -> None:
    log = (
        b"Trace 0: 0x7f00 [0000000000000104/0000000000000100/82000000/00000201] f\n"
        b"Trace 0: 0x7f00 [0000000000000108/0000000000000104/82000000/00000201] f\n"
        b"Stopped execution of TB chain before 0x7f00 [0000000000000104] f\n"
        b"Trace 0: 0x7f00 [0000000000000204/0000000000000200/82000000/00000201] g\n"
    )
    pc, npc, sp = read_log(io.BytesIO(log), False, 100)
    assert (pc.tolist(), npc.tolist(), sp) == ([0x100, 0x200], [0x104, 0x204], None)


@pytest.mark.parametrize(
    ("outs", "sp"),
    [
        (b"%o0-3: 01 02 03 04 \n%o4-7: 0000000000000005 06 00000000fffe1f00 07 \n", 0xFFFE1F00),
        (b"%o0-7: 00000001 2 3 4 5 6 ffe1f000 8 \n", 0xFFE1F000),
    ],
    ids=["four in a line", "eight in a line"],
)
def test_stack_pointers_are_read_where_they_are_printed(outs: bytes, sp: int) -> None:
    line = b"Trace 0: 0x7f00 [0000000000000104/0000000000000100/82000000/00000201] f"
    log = line + b"\npc: 100\n" + outs + line + b"+longer\npc: 104\n" + outs
    assert read_log(io.BytesIO(log), True, 100)[2].tolist() == [sp, sp]  # type: ignore[union-attr]
    moved = log.replace(b"pc: 104\n", b"pc: 000104\n")
    with pytest.raises(AssertionError):
        parse(moved, stack_pointers=True)


@pytest.mark.qemu
@pytest.mark.parametrize("width", WIDTHS)
def test_known_call_count(fixture_elf: Callable[..., Path], width: str) -> None:
    """fibonacci(n) is entered 2 F(n + 1) - 1 times; hanoi(0) = 1 time, as n < 8."""
    path = fixture_elf("calls", width)
    found = trace(path, ["8"])
    counts = found.counts()
    assert counts[function_address(path, "fibonacci")] == 2 * 34 - 1
    assert counts[function_address(path, "hanoi")] == 1
    assert counts[function_address(path, "_start")] == 1
    assert sum(counts.values()) == found.instructions == len(found.pc)


@pytest.mark.qemu
@pytest.mark.parametrize(("name", "width"), turns(["nonlocal", "tailcalls", "control"], WIDTHS))
def test_stepping_changes_nothing(fixture_elf: Callable[..., Path], name: str, width: str) -> None:
    path = fixture_elf(name, width)
    found = trace(path)
    assert found.run == run(path)
    assert found.executed.all()
    assert not found.breaks.any()
    assert (np.diff(found.pc) != 0).all()


@pytest.mark.qemu
def test_window_trap_repeats(fixture_elf: Callable[..., Path]) -> None:
    """descend() saves and restores once per frame; traps repeat them in the log, not here."""
    path = fixture_elf("deep", "v9")
    found = trace(path, ["500"])
    assert found.repeats > 500
    assert found.counts()[function_address(path, "descend")] == 501


@pytest.mark.qemu
@pytest.mark.parametrize("width", WIDTHS)
def test_fault_does_not_execute(fixture_elf: Callable[..., Path], width: str) -> None:
    found = trace(fixture_elf("faults", width), ["unaligned"])
    assert found.run.status == 138
    assert not found.executed[-1]
    assert found.executed[:-1].all()


@pytest.mark.qemu
@pytest.mark.parametrize("kind", ["abort", "jump-null"])
def test_last_instruction_executes(fixture_elf: Callable[..., Path], kind: str) -> None:
    found = trace(fixture_elf("faults", "v9"), [kind])
    assert found.run.killed
    assert found.executed.all()


@pytest.mark.qemu
@pytest.mark.parametrize("width", WIDTHS)
def test_signals_break_the_sequence(fixture_elf: Callable[..., Path], width: str) -> None:
    """14 handled signals return, 6 do not; 3 of these are faults."""
    found = trace(fixture_elf("signals", width))
    assert int(found.breaks.sum()) == 2 * 14 + 6
    assert int((~found.executed).sum()) == 3


@pytest.mark.qemu
@pytest.mark.parametrize("width", WIDTHS)
def test_stack_pointers(fixture_elf: Callable[..., Path], width: str) -> None:
    path = fixture_elf("calls", width)
    plain, found = trace(path, ["2"]), trace(path, ["2"], stack_pointers=True)
    assert found.sp is not None
    assert len(found.sp) == len(found.pc)
    assert found.pc.tolist() == plain.pc.tolist()
    assert found.sp.max() == found.sp[0]
    assert found.sp.min() < found.sp[0]


@pytest.mark.qemu
def test_too_long(fixture_elf: Callable[..., Path]) -> None:
    with pytest.raises(OracleError, match="more than 1000"):
        trace(fixture_elf("sieve"), most=1000)
