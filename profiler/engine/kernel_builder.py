"""Makes machine code of native functions, in a process that does nothing else.

It writes a file as `machine_code` reads it, with the C functions of modules, to stdout; one for
each machine that it is asked for.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from simprof.simulator.cpu import compiled, machine_code

if TYPE_CHECKING:
    import subprocess

ENGINE = (
    "simprof.simulator.cpu.native",
    "simprof.simulator.cpu.traps",
    "simprof.simulator.cpu.crash",
    "simprof.simulator.cpu.nans",
    "simprof.profiler.engine.kernels",
    "simprof.profiler.engine.block_kernel",
    "simprof.profiler.engine.walk_kernel",
    "simprof.profiler.engine.transition_kernel",
    "simprof.profiler.graphs.plan_native",
)
"""Those that every run needs."""
MODULES = (
    *ENGINE,
    "simprof.profiler.code.sites_native",
    "simprof.profiler.recovery.exploration_native",
    "simprof.simulator.linux.native_contexts",
    "simprof.simulator.cpu.operations",
    "simprof.profiler.engine.landing_kernel",
    "simprof.profiler.engine.recording_kernel",
    "simprof.profiler.engine.context_kernel",
    "simprof.profiler.engine.replay_kernel",
    "simprof.profiler.trace.regeneration_kernel",
)
"""All that have C functions."""
STDOUT = 1
_MAIN = """
import json, sys
sys.path[:], machines, modules = json.loads(sys.argv[1])
from simprof.profiler.engine.kernel_builder import main
main(machines, modules)
"""


def start(
    modules: Sequence[str], machines: Sequence[str] = (machine_code.MACHINE,)
) -> subprocess.Popen[bytes]:
    """Start a process that makes the machine code of modules."""
    import subprocess  # where machine code is shipped, nothing is compiled

    from simprof.simulator.cpu import linking

    words = [sys.executable, "-c", _MAIN, json.dumps((sys.path, machines, modules))]
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=linking.environment()
    )


def main(machines: Sequence[str], modules: Sequence[str]) -> None:
    """Write the machine code of modules to stdout."""
    from simprof.simulator.cpu import linking

    compiled.compile_here()
    for module in modules:
        importlib.import_module(module)
    found = [compiled.compilers(module) for module in modules]
    whole = {name: make for each in found for name, make in each.items()}
    code = linking.build(whole, machines)
    with open(STDOUT, "wb") as output:
        output.write(code)
