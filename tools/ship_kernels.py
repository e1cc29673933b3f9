"""Make the machine code of native functions that is shipped.

    python tools/ship_kernels.py [--check]

Does nothing where what is there was made from the sources as they are. --check only says whether it
was (exit status 1 if not). The same sources, numba, LLVM and kind of machine give the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from simprof.profiler.engine import kernel_builder
from simprof.profiler.profiles.output import replace
from simprof.simulator.cpu import linking, machine_code


def main(arguments: Sequence[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    files = {machine: machine_code.shipped_file(machine) for machine in linking.MACHINES}
    if all(
        file.exists() and machine_code.fits(file.read_bytes(), machine)
        for machine, file in files.items()
    ):
        return 0
    if arguments:
        print("kernels have changed: run `make kernels`", file=sys.stderr)
        return 1
    for file, code in zip(files.values(), build(), strict=True):
        replace(file, code, mode=0o644)
        print(f"{file.name}: {len(code):,} bytes")
    return 0


def build() -> list[bytes]:
    """Return the machine code of all C functions, compiled now, for each machine."""
    process = kernel_builder.start(kernel_builder.MODULES, [*linking.MACHINES])
    codes = process.communicate()[0]
    if process.returncode:
        raise SystemExit("the kernels could not be compiled: the reason is above")
    return [*machine_code.files(codes)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
