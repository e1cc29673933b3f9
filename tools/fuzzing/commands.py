"""Commands of simprof as readers: all that a user would do with a file, but for the process."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def prepare() -> None:
    """Have native code at hand, and file names in the corpora mean what they say."""
    os.chdir(ROOT)


def run(words: Sequence[str | Path]) -> int:
    """Run a command of simprof in this process; return its status. Errors come as exceptions."""
    from simprof.profiler.commands.group import simprof

    status = simprof.main(list(map(str, words)), prog_name="simprof", standalone_mode=False)
    return status if isinstance(status, int) else 0


def chosen(data: bytes, count: int) -> int:
    """Return which of `count` things is done with an input: always the same with the same one."""
    return zlib.crc32(data) % count
