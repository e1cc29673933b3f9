"""Which programs can be rewritten at all."""

from __future__ import annotations

from pathlib import Path

from simprof.simulator.binary import elf
from simprof.simulator.binary.program import Platform, Program
from simprof.simulator.errors import RewritingError


def load_rewritable(path: Path) -> Program:
    """Read a program that is to be rewritten.

    Raises
    ------
    ProgramFileError
        See `elf.load`.
    RewritingError
        If it is not for Linux: the code that sets counters up and writes them makes system calls.
    """
    program = elf.load(path)
    if program.platform is not Platform.LINUX:
        raise RewritingError(
            f"{path}: a program for {program.platform} cannot be instrumented, since counters are "
            "written by Linux: measure it with `simprof run` or `simprof compare`"
        )
    return program
