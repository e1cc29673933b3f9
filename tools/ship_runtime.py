"""Compile the run-time of instrumented programs, `runtime.c`, to an image for each machine.

    python tools/ship_runtime.py [--check]

--check only says whether the images are those of the source as it is (exit status 1 if not). The
same source and compiler give the same bytes. An image can lie anywhere: it is linked at two
addresses, which must make no difference.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from simprof.profiler.profiles.output import replace
from simprof.simulator.binary.program import MachineKind

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "profiler/rewriting/elsewhere/runtime.c"
SUMS = SOURCE.with_name("runtime.b2sums")
COMPILER, COPY = "sparc64-linux-gnu-gcc-12", "sparc64-linux-gnu-objcopy"
WIDTHS = {
    MachineKind.SPARCV9: ("-m64", "-mcpu=v9"),
    MachineKind.SPARCV8PLUS: ("-m32", "-mcpu=v9", "-mno-v8plus"),
    MachineKind.SPARCV8: ("-m32", "-mcpu=v8"),
}
FLAGS = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fno-ident"),
    # no C library, and nothing that the compiler would take from one
    *("-ffreestanding", "-fno-builtin", "-fno-tree-loop-distribute-patterns", "-nostdlib"),
    *("-static", "-fno-stack-protector", "-fno-asynchronous-unwind-tables"),
    # everything in one section, in the order of the source, that names no address
    *("-fno-pic", "-no-pie", "-fno-jump-tables", "-fno-toplevel-reorder", "-fno-reorder-functions"),
    # registers that the program keeps values in
    *("-ffixed-g2", "-ffixed-g3", "-ffixed-g4", "-ffixed-g5", "-mno-app-regs", "-mno-fpu"),
    # memory is words, whatever they mean
    *("-fno-strict-aliasing", "-fomit-frame-pointer", "-Wl,--build-id=none,-n,-e,0"),
)
ADDRESSES = (0, 0x123400)


def main(arguments: Sequence[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if is_shipped():
        return 0
    if arguments:
        print(f"{SOURCE.name} has changed: run `make runtime`", file=sys.stderr)
        return 1
    if shutil.which(COMPILER) is None:
        print(f"make runtime: {COMPILER} is missing: `make toolchain`", file=sys.stderr)
        return 1
    for machine in MachineKind:
        code = compiled(machine)
        replace(image_file(machine), code, mode=0o644)
        print(f"{image_file(machine).name}: {len(code):,} bytes")
    replace(SUMS, sums().encode(), mode=0o644)
    return 0


def image_file(machine: MachineKind) -> Path:
    return SOURCE.with_name(f"runtime.{machine}")


def sums() -> str:
    """Return the digests of the source and of the images that there are."""
    files = (SOURCE, *map(image_file, MachineKind))
    return "".join(f"{hashlib.blake2b(f.read_bytes()).hexdigest()}  {f.name}\n" for f in files)


def is_shipped() -> bool:
    """Whether source and images are those that were written together."""
    files = (SUMS, *map(image_file, MachineKind))
    return all(file.is_file() for file in files) and SUMS.read_text() == sums()


def compiled(machine: MachineKind) -> bytes:
    """Return the image for a machine."""
    with tempfile.TemporaryDirectory() as directory:
        codes = {_linked(machine, address, Path(directory)) for address in ADDRESSES}
    if len(codes) != 1:
        raise SystemExit(f"make runtime: the code for {machine} depends on where it lies")
    return codes.pop()


def _linked(machine: MachineKind, address: int, directory: Path) -> bytes:
    linked, code = directory / "linked", directory / "code"
    place = f"-Wl,-Ttext={address:#x}"
    files = ["-o", str(linked), str(SOURCE)]
    subprocess.run([COMPILER, *WIDTHS[machine], *FLAGS, place, *files], check=True)
    options = ["--only-section=.text", "--output-target=binary"]
    subprocess.run([COPY, *options, linked, code], check=True)
    return code.read_bytes()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
