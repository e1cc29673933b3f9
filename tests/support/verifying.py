"""Verification of a program as tests want it: all modes, and what is not as predicted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.suite import Input, Width, build_name
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.rewriting.verification import EMULATOR, QEMU, Verification
from simprof.profiler.rewriting.verify import verify
from simprof.profiler.schemes.registry import definition, planned_modes

EVERYWHERE = (EMULATOR, QEMU)
TEXT = b"the quick brown fox\njumps over the lazy dog\n" * 3
"""What programs that read their input read."""

LEFT_ALONE = """
        .global _start
        .type _start, #function
_start: clr %fp
        sub %sp, 192, %sp
        set 5000, %l0
1:      call strange
         mov %l0, %o0
        subcc %l0, 1, %l0
        bne 1b
         nop
        clr %o0
        mov 1, %g1
        ta 0x6d
         nop
        .size _start, .-_start
        .type strange, #function
strange: andcc %o0, 3, %g0
        bne 1f
         nop
        add %o0, 1, %o0
1:      ba 2f
         rd %pc, %g1
2:      retl
         nop
        .size strange, .-strange
"""
"""A routine that cannot be copied, as a delay slot reads the program counter."""


def verified(
    program: Path,
    directory: Path,
    arguments: Sequence[str] = (),
    *,
    modes: Sequence[str] = (),
    ways: Sequence[str] = EVERYWHERE,
    options: SchemeOptions | None = None,
) -> Verification:
    """Verify a program.

    Parameters
    ----------
    directory
        An empty one, for what the program sees.
    modes
        None: all.
    """
    given, root = directory / "stdin", directory / "root"
    given.write_bytes(TEXT)
    root.mkdir(exist_ok=True)
    guest = GuestOptions(root=root, stdin=given)
    request = RunRequest(program, guest, tuple(map(os.fsencode, arguments)))
    settings = [
        Setting(mode, mode, options or SchemeOptions()) for mode in (modes or planned_modes())
    ]
    return verify(request, settings, ways)


def of_suite(suite: str, name: str, width: Width) -> tuple[Path, Input]:
    """Return a program of a suite, built where the cache lacks it, and its input for training."""
    whole = load_suite(suite)
    benchmark = whole.benchmark(name)
    report = build_suite(replace(whole, benchmarks=(benchmark,)))
    assert not report.failures
    return report.programs[name, build_name(width)].path, benchmark.inputs["train"]


def verified_on_input(
    program: Path, given: Input, directory: Path, modes: Sequence[str]
) -> Verification:
    """Verify a program on an input of its suite; `directory` is an empty one."""
    guest = GuestOptions(
        root=given.root or directory,
        stdin=given.stdin or Path(os.devnull),
        environment=tuple((os.fsencode(k), os.fsencode(v)) for k, v in given.environment),
    )
    request = RunRequest(program, guest, tuple(map(os.fsencode, given.arguments)))
    return verify(request, [Setting(mode, mode, SchemeOptions()) for mode in modes], EVERYWHERE)


def check_verified(
    result: Verification, ways: Sequence[str] = EVERYWHERE, *, counted: bool | None = True
) -> None:
    """Check that every way was run in every mode, and that nothing differs.

    `counted`: what is expected of the counters, None where the program ends without writing them.
    """
    found = {mode.setting.name: mode.differences for mode in result.modes if mode.differences}
    assert found == {}
    assert result.passed
    for mode in result.modes:
        assert set(mode.executed) == set(ways)
        assert set(mode.executed.values()) == {mode.predicted}
        assert mode.output_equal
        cut = definition(mode.setting.mode).writes_trace and any(r.instructions for r in mode.left)
        assert mode.counters_equal is (None if cut else counted)
    assert any(mode.added for mode in result.modes)
