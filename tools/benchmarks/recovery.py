"""How fast graphs are recovered: all routines of a program, nothing known of it before.

python -m tools.benchmarks.recovery ELF     the row, as JSON
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tools.benchmarks.commands import WARMING
from tools.benchmarks.programs import text_size
from tools.benchmarks.rows import Row, dump

CONFIGURATION = "recovery"


def measure(path: Path, name: str) -> Row:
    """Return what it takes to recover a program's graphs, in processor time of this process.

    Another program's are recovered before, so that modules and native code are loaded.
    """
    from simprof.profiler.recovery.recovery import recover
    from simprof.simulator.binary.elf import load

    recover(load(WARMING))
    program = load(path)
    wall, cpu = time.perf_counter(), time.process_time()
    recovered = recover(program)
    taken = time.perf_counter() - wall, time.process_time() - cpu
    assert len(recovered.routines)
    return Row(
        "recovery",
        name,
        CONFIGURATION,
        "",
        (),
        wall=taken[0],
        cpu=taken[1],
        text=text_size(path),
    )


if __name__ == "__main__":
    print(dump([measure(Path(sys.argv[1]), sys.argv[2])]), end="")
