"""Jumps of one routine that lead to the same places: none is left alone, and all is predicted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.rewriting.verification import EMULATOR, Verification
from simprof.profiler.rewriting.verify import verify
from tests.support.exact_random import BARE, WIDTHS
from tests.support.random_programs import BEGINNING
from tests.support.turns import turns
from tests.support.verifying import check_verified

Compile = Callable[..., Path]

GOTOS = """
__attribute__((noinline)) static int run(const unsigned char *code, int value)
{
    static const void *const table[] = { &&stop, &&add, &&twice, &&less, &&skip };
    static const void *const other[] = { &&skip, &&stop, &&add, &&twice, &&less };
    goto *table[*code++];
add:
    value += 3;
    goto *table[*code++];
twice:
    value *= 2;
    goto *other[*code++];
less:
    value -= 1;
    if (value > 100) goto *other[*code++];
    goto *table[*code++];
skip:
    code++;
    goto *table[*code++];
stop:
    return value;
}
"""
MAIN = """
int start(void)
{
    static const unsigned char code[] = { 1, 2, 2, 4, 9, 3, 2, 3, 1, 2, 2, 2, 4, 0, 2, 1, 0, 0 };
    for (int k = 1; k < 50; k++)
        sink += run(code, k);
    return sink & 63;
}
"""


def built(compile_c: Compile, width: str, *flags: str) -> Path:
    """Compile a program of one routine with jumps."""
    source = "static volatile int sink;\n" + GOTOS + MAIN + BEGINNING
    return compile_c(source, ("-O2", *BARE, *flags), width=width)


def verified(program: Path, directory: Path) -> Verification:
    """Verify a program under schemes with code on edges and in blocks."""
    modes = ("pp", "naive", "bits", "kiter")
    settings = [Setting(mode, mode, SchemeOptions()) for mode in modes]
    return verify(RunRequest(program, GuestOptions(root=directory)), settings, [EMULATOR])


@pytest.mark.toolchain
@pytest.mark.parametrize(("width", "flags"), turns(WIDTHS, [(), ("-fPIC",)]))
def test_jumps_to_the_same_places_are_as_predicted(
    compile_c: Compile, tmp_path: Path, width: str, flags: tuple[str, ...]
) -> None:
    result = verified(built(compile_c, width, *flags), tmp_path)
    check_verified(result, [EMULATOR])
    for mode in result.modes:
        assert mode.left == ()
        assert mode.rewriting[Cause.JUMP_TABLES] > 0
