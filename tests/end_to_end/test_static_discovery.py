"""What a run would only show as it goes is found before: one emulation is enough."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.graphs.cfg import EdgeKind
from simprof.profiler.recovery.recovery import recover
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.session.observation import Observation
from simprof.profiler.session.session import observe
from simprof.simulator.binary import elf
from tests.support.turns import first, in_step

Compile = Callable[..., Path]
WIDTHS = ("v9", "v8plus")

PRINTING = """
#include <stdio.h>
#include <wchar.h>
#include <stdlib.h>
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(int argc, char **argv) {
    int n = fib(10 + argc);
    printf("%d %#x %-5s|%c %g %5.2f %%\\n", n, n, "text", 'c', n / 3.0, 1.25);
    printf("%2$s %1$d\\n", n, "positional");
    wchar_t wide[40];
    swprintf(wide, 40, L"%d %ls\\n", n, L"wide");
    int read = 0;
    sscanf("12 word", "%d", &read);
    return read + (wide[0] == L'8') == 0;
}
"""

INTERPRETER = """
#include <stdlib.h>
static volatile int sink;
__attribute__((noinline)) int absolute(const unsigned char *code, int value) {
    static const void *const table[] = { &&stop, &&add, &&twice, &&less, &&never };
    for (;;) {
        goto *table[*code++];
add:    value += 3; continue;
twice:  value *= 2; goto *table[*code++];
less:   value -= 1; if (value > 100) goto *table[code[1] & 3]; continue;
never:  value += 100; sink++; continue;
stop:   return value;
    }
}
__attribute__((noinline)) int relative(const unsigned char *code, int value) {
    static const int table[] = { &&stop - &&stop, &&add - &&stop, &&less - &&stop };
    for (;;) {
        goto *(&&stop + table[*code++ % 3]);
add:    value += 3; continue;
less:   value -= 1; sink += value; continue;
stop:   return value;
    }
}
int main(void) {
    static const unsigned char code[] = { 1, 2, 2, 1, 3, 2, 1, 2, 0, 0, 0, 0 };
    sink += absolute(code, 1) + relative(code, 1);
    return sink & 31;
}
"""

THROWING = """
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>
struct Guard { const char *name; ~Guard() { std::printf("%s goes\\n", name); } };
static int check(int x) { if (x % 3 == 2) throw std::runtime_error("two"); return x; }
static int guarded(int x) { Guard guard{"guard"}; return check(x) + 1; }
int main() {
    std::vector<std::string> words;
    int total = 0;
    for (int i = 0; i < 9; i++) {
        try { total += guarded(i); } catch (const std::exception &e) { words.push_back(e.what()); }
    }
    std::printf("%d %zu\\n", total, words.size());
    return total != 27;
}
"""


def observed(program: Path, directory: Path) -> Observation:
    """Run a program that may use nothing of the outside."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        guest = GuestOptions(root=directory, stdin=Path(os.devnull), stdout=null, stderr=null)
        request = RunRequest(program, guest, remember=False)
        return observe(request, [Setting("edges", "edges", SchemeOptions())])
    finally:
        os.close(null)


def switch_targets(program: Path, routine: str) -> int:
    """How many blocks of a routine indirect jumps lead to."""
    cfg = next(cfg for cfg in recover(elf.load(program)).routines if cfg.name == routine)
    return len({edge.target for edge in cfg.edges if edge.kind is EdgeKind.SWITCH})


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(("flags", "width"), in_step([(), ("-s",)], WIDTHS))
def test_printf_is_known_before_it_is_called(
    compile_c: Compile, tmp_path: Path, width: str, flags: tuple[str, ...]
) -> None:
    """Its computed gotos took two runs, or more."""
    observation = observed(compile_c(PRINTING, ("-O2", *flags), width=width), tmp_path)
    assert observation.result.status == 0
    assert observation.discoveries.indirect_targets == frozenset()
    assert flags or observation.runs == 1, "without symbols, a leaf may be found by the run"


WAYS = [
    ("v9", "-O0", "-fno-pie"),
    ("v8plus", "-O1", "-fPIC"),
    ("v9", "-O2", "-fPIC"),
    ("v8plus", "-O3", "-fno-pie"),
]
"""Each level once, and each width with both kinds of code."""


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(("width", "level", "pic"), first(1, WAYS))
def test_computed_gotos_are_known(
    compile_c: Compile, tmp_path: Path, width: str, level: str, pic: str
) -> None:
    """All labels, with those that the run never comes to."""
    program = compile_c(INTERPRETER, (level, pic), width=width)
    assert observed(program, tmp_path).runs == 1
    assert switch_targets(program, "absolute") == 5
    assert switch_targets(program, "relative") == 3


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(("flags", "width"), in_step([("-O2",), ("-O0",)], WIDTHS))
def test_landings_of_exceptions_are_known(
    compile_c: Compile, tmp_path: Path, width: str, flags: tuple[str, ...]
) -> None:
    program = compile_c(THROWING, flags, width=width, language="c++")
    observation = observed(program, tmp_path)
    assert observation.result.status == 0
    assert observation.runs == 1
    assert observation.discoveries.entries == frozenset()
