"""`rt_sigreturn` without a handler: what it takes for a frame decides, as on Linux."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.request.request import GuestOptions, RunRequest
from simprof.profiler.session.session import run_program
from tests.support.turns import first

WIDTHS = pytest.mark.parametrize("width", first(1, ["v9", "v8plus"]))
pytestmark = pytest.mark.toolchain
SOURCE = """
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
static jmp_buf before;
static void escape(int number) { longjmp(before, 1); }
__attribute__((noinline)) static int deep(int n)
{
    char room[2000] = {0};
    if (n) return deep(n - 1) + room[n];
    return syscall(SYS_rt_sigreturn) + room[n];
}
int main(int count, char **words)
{
    if (count > 1) {
        signal(SIGUSR1, escape);
        if (!setjmp(before))
            raise(SIGUSR1);
    }
    return deep(3);
}
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "arguments"), [("v8plus", ()), ("v9", (b"after",))], ids=["never", "left"]
)
def test_a_return_outside_a_handler_is_the_programs_fault(
    compile_c: Callable[..., Path], width: str, arguments: tuple[bytes, ...]
) -> None:
    """Where a handler was left by `longjmp`, what is on the stack decides which fault it is."""
    path = compile_c(SOURCE, ("-O1",), width)
    request = RunRequest(path, GuestOptions(root=path.parent), arguments, self_check=True)
    ended = run_program(request).ending
    assert (ended.reason, ended.signal) in [("fault", 11), *([("fault", 4)] if arguments else [])]
