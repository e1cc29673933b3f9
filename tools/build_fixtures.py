#!/usr/bin/env python3
"""Build the fixture programs, byte for byte as they are committed.

    tools/build_fixtures.py             rebuild fixtures/bin
    tools/build_fixtures.py --check     rebuild elsewhere, compare, say which files differ
    tools/build_fixtures.py --expected  also rewrite fixtures/expected from runs under qemu-user

Needs sparc64-linux-gnu-gcc-12 with the 32-bit multilib, and qemu-user for --expected. The
compiler that built the committed files, and their checksums, are in fixtures/bin/BUILD.txt.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
COMPILER = "sparc64-linux-gnu-gcc-12"
NM = "sparc64-linux-gnu-nm"
RECORD = "BUILD.txt"

COMMON_FLAGS = (
    "-O2 -g -std=gnu11 -Wall -Wextra -Werror -ffreestanding -fno-builtin -fno-stack-protector"
    " -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -fno-pie -fno-ident"
    " -ffunction-sections"
    " -Iruntime -ffile-prefix-map={here}=."
).split()
LINK_FLAGS = "-nostdlib -static -no-pie -Wl,--build-id=none,--fatal-warnings,--gc-sections".split()


class BuildError(Exception):
    """A fixture cannot be built; the message says which and why."""


@dataclass(frozen=True)
class Variant:
    """One of the three builds of each program.

    Attributes
    ----------
    name
        Directory below fixtures/bin.
    flags
        Compiler flags that select it.
    emulator
        The qemu-user program that runs it.
    elf_class, machine
        What the ELF header must say (e_ident[4], e_machine).
    """

    name: str
    flags: tuple[str, ...]
    emulator: str
    elf_class: int
    machine: int


VARIANTS = (
    Variant("v8", ("-m32", "-mcpu=v8"), "qemu-sparc", 1, 2),
    Variant("v8plus", ("-m32", "-mcpu=v9", "-Wa,-Av8plus"), "qemu-sparc32plus", 1, 18),
    Variant("v9", ("-m64", "-mcpu=v9"), "qemu-sparc64", 2, 43),
)


@dataclass(frozen=True)
class Fixture:
    """A program as fixtures/manifest.toml describes it."""

    name: str
    sources: tuple[str, ...]
    flags: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    input: str | None = None
    status: int = 0

    def path(self, variant: Variant, root: Path = FIXTURES) -> Path:
        """Return where the built program lies below `root`."""
        return root / "bin" / variant.name / f"{self.name}.elf"


def read_manifest(root: Path = FIXTURES) -> tuple[Fixture, ...]:
    """Return the programs of fixtures/manifest.toml in its order."""
    table = tomllib.loads((root / "manifest.toml").read_text())
    return tuple(
        Fixture(
            name=name,
            sources=tuple(entry["sources"]),
            flags=tuple(entry.get("flags", ())),
            arguments=tuple(entry.get("arguments", ())),
            input=entry.get("input"),
            status=entry.get("status", 0),
        )
        for name, entry in table.items()
    )


def run(command: Sequence[str], directory: Path) -> str:
    """Run `command` in `directory` and return its output; raise BuildError with its complaint."""
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise BuildError(f"{command[0]} is not installed (Debian: see the README)") from error
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stderr.strip()}")
    return done.stdout


def compiler_version() -> str:
    """Return the first line of the compiler's and of the assembler's version."""
    compiler = run([COMPILER, "--version"], FIXTURES).splitlines()[0]
    assembler = run(["sparc64-linux-gnu-as", "--version"], FIXTURES).splitlines()[0]
    return f"{compiler}\n{assembler}"


def compile_sources(
    root: Path, sources: Sequence[str], variant: Variant, flags: Sequence[str], objects: Path
) -> list[Path]:
    """Compile `sources` (relative to `root`) into `objects`; return the object files."""
    common = [flag.format(here=root) for flag in COMMON_FLAGS]
    made = []
    for source in sources:
        target = objects / (source.replace("/", "_") + ".o")
        command = [COMPILER, *variant.flags, *common, *flags, "-c", source, "-o", str(target)]
        run(command, root)
        made.append(target)
    return made


def check_program(path: Path, variant: Variant) -> None:
    """Raise BuildError unless the ELF header is `variant`'s and no symbol is left undefined."""
    header = path.read_bytes()[:20]
    machine = int.from_bytes(header[18:20], "big")
    if (header[4], machine) != (variant.elf_class, variant.machine):
        raise BuildError(f"{path}: class {header[4]}, machine {machine}: not a {variant.name} file")
    listing = run([NM, "--undefined-only", str(path)], path.parent).splitlines()
    # V9 objects also declare the global registers that they use: undefined, without a name.
    undefined = [line.split()[-1] for line in listing if len(line.split()) > 1]
    if undefined:
        raise BuildError(f"{path}: undefined symbols: {' '.join(undefined)}")


def build(root: Path, names: Sequence[str] = ()) -> Iterator[Path]:
    """Build the programs below `root` (a fixtures directory); yield each file as it is made.

    The compiler runs in `root` with relative source names, and its own name for that directory
    is mapped to ".", so nothing of the machine gets into the result.
    """
    runtime = sorted(f"runtime/{p.name}" for p in (root / "runtime").glob("*.[cS]"))
    for variant in VARIANTS:
        (root / "bin" / variant.name).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            shared = Path(scratch) / "runtime"
            shared.mkdir()
            objects = compile_sources(root, runtime, variant, (), shared)
            for fixture in read_manifest(root):
                if names and fixture.name not in names:
                    continue
                own = Path(scratch) / fixture.name
                own.mkdir()
                sources = [f"src/{source}" for source in fixture.sources]
                made = compile_sources(root, sources, variant, fixture.flags, own)
                target = fixture.path(variant, root)
                files = [str(p) for p in made + objects]
                run([COMPILER, *variant.flags, *LINK_FLAGS, *files, "-o", str(target)], root)
                target.chmod(0o755)
                check_program(target, variant)
                yield target


def checksums(root: Path) -> str:
    """Return BUILD.txt: the tools' versions, then sha256 and path of every built program."""
    lines = compiler_version().splitlines()
    for path in sorted((root / "bin").glob("*/*.elf")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        lines.append(f"{digest}  {path.relative_to(root / 'bin')}")
    return "\n".join(lines) + "\n"


def write_expected(names: Sequence[str]) -> None:
    """Run each program's V9 build under qemu-user and write its output to fixtures/expected."""
    for fixture in read_manifest():
        if names and fixture.name not in names:
            continue
        output, status = run_under_qemu(fixture, VARIANTS[-1])
        if status != fixture.status:
            raise BuildError(f"{fixture.name}: exit status {status}, manifest: {fixture.status}")
        (FIXTURES / "expected" / f"{fixture.name}.txt").write_bytes(output)


def run_under_qemu(fixture: Fixture, variant: Variant) -> tuple[bytes, int]:
    """Return standard output and exit status (128 + signal) of `fixture` under qemu-user."""
    given = b"" if fixture.input is None else (FIXTURES / "input" / fixture.input).read_bytes()
    command = [variant.emulator, str(fixture.path(variant)), *fixture.arguments]
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, env={}, check=False)
    return done.stdout, done.returncode if done.returncode >= 0 else 128 - done.returncode


def check(names: Sequence[str]) -> int:
    """Rebuild in a scratch directory; print each file that differs; return how many do."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "fixtures"
        shutil.copytree(FIXTURES, root, ignore=shutil.ignore_patterns("bin"))
        built = list(build(root, names))
        differing = 0
        for path in built:
            committed = FIXTURES / path.relative_to(root)
            if not committed.exists() or committed.read_bytes() != path.read_bytes():
                differing += 1
                print(f"differs: {committed.relative_to(FIXTURES.parent)}")
        if not names and checksums(root) != (FIXTURES / "bin" / RECORD).read_text():
            differing += 1
            print("differs: fixtures/bin/BUILD.txt (another compiler?)")
        print(f"{len(built)} programs rebuilt, {differing} differences")
        return differing


def main() -> int:
    """Build or check, as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed files")
    parser.add_argument("--expected", action="store_true", help="rewrite the expected outputs")
    parser.add_argument("names", nargs="*", help="programs to build (default: all)")
    options = parser.parse_args()
    try:
        if options.check:
            return 1 if check(options.names) else 0
        for path in build(FIXTURES, options.names):
            print(path.relative_to(FIXTURES.parent))
        (FIXTURES / "bin" / RECORD).write_text(checksums(FIXTURES))
        if options.expected:
            write_expected(options.names)
    except BuildError as error:
        print(f"build_fixtures: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
