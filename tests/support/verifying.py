"""Verification of a program as tests want it: all modes, and what is not as predicted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

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
