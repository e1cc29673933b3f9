#!/usr/bin/env python3
"""Build the committed programs, byte for byte as they are committed.

    tools/build_fixtures.py             rebuild fixtures/bin
    tools/build_fixtures.py --suites    rebuild fixtures/suites/bin (the kernels of its src/wcet)
    tools/build_fixtures.py --check     rebuild elsewhere, compare, say which files differ
    tools/build_fixtures.py --expected  also rewrite the expected outputs from runs under qemu-user

Needs sparc64-linux-gnu-gcc-12 with the 32-bit multilib, and qemu-user for --expected. The
compiler that built the committed files, and their checksums, are in bin/BUILD.txt.
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

TOP = Path(__file__).resolve().parent.parent
FIXTURES = TOP / "fixtures"
SUITES = FIXTURES / "suites"
COMPILER = "sparc64-linux-gnu-gcc-12"
NM = "sparc64-linux-gnu-nm"
RECORD = "BUILD.txt"

COMMON_FLAGS = (
    "-O2 -g -std=gnu11 -Wall -Wextra -Werror -ffreestanding -fno-builtin -fno-stack-protector"
    " -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -fno-pie -fno-ident"
    " -ffunction-sections"
    " -I{runtime} -ffile-prefix-map={here}=."
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
class Layout:
    """Where a directory of committed programs keeps its parts, relative to itself.

    Attributes
    ----------
    manifest
        The TOML file that lists the programs.
    source, runtime, expected
        Directories of the sources, of the run-time and of the expected outputs.
    flags
        Compiler flags beside `COMMON_FLAGS`.
    """

    manifest: str
    source: str
    runtime: str
    expected: str
    flags: tuple[str, ...] = ()


FIXTURES_LAYOUT = Layout("manifest.toml", "src", "runtime", "expected")
SUITES_LAYOUT = Layout(
    manifest="src/wcet/programs.toml",
    source="src/wcet",
    runtime="../runtime",
    expected="expected/wcet",
    # The kernels were first built when `suites` lay beside `fixtures`. Their debug information
    # still calls the run-time's directory so: the files and their checksums stay the same.
    flags=("-ffile-prefix-map=../runtime=../fixtures/runtime",),
)


def layout_of(root: Path) -> Layout:
    """Return the layout of a fixtures or suites directory, or of a copy of one."""
    return FIXTURES_LAYOUT if (root / FIXTURES_LAYOUT.manifest).exists() else SUITES_LAYOUT


@dataclass(frozen=True)
class Fixture:
    """A program as its manifest describes it.

    Attributes
    ----------
    inputs
        Name and arguments of its runs, where it has several (the kernels of the suites).
    """

    name: str
    sources: tuple[str, ...]
    flags: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    input: str | None = None
    status: int = 0
    inputs: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def path(self, variant: Variant, root: Path = FIXTURES) -> Path:
        """Return where the built program lies below `root`."""
        return root / "bin" / variant.name / f"{self.name}.elf"

    def runs(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the file of the expected output and the arguments of each run."""
        if not self.inputs:
            return ((f"{self.name}.txt", self.arguments),)
        return tuple((f"{self.name}.{name}.txt", arguments) for name, arguments in self.inputs)


def read_manifest(root: Path = FIXTURES) -> tuple[Fixture, ...]:
    """Return the programs of the manifest of `root` in its order."""
    table = tomllib.loads((root / layout_of(root).manifest).read_text())
    return tuple(
        Fixture(
            name=name,
            sources=tuple(entry["sources"]),
            flags=tuple(entry.get("flags", ())),
            arguments=tuple(entry.get("arguments", ())),
            input=entry.get("input"),
            status=entry.get("status", 0),
            inputs=tuple(
                (name, tuple(each["arguments"])) for name, each in entry.get("inputs", {}).items()
            ),
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
    layout = layout_of(root)
    common = [flag.format(here=root, runtime=layout.runtime) for flag in COMMON_FLAGS]
    common += layout.flags
    made = []
    for source in sources:
        target = objects / (source.replace("../", "").replace("/", "_") + ".o")
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
    """Build the programs below `root` (fixtures or suites); yield each file as it is made.

    The compiler runs in `root` with relative source names, and its own name for that directory
    is mapped to ".", so nothing of the machine gets into the result.
    """
    layout = layout_of(root)
    files = (root / layout.runtime).glob("*.[cS]")
    runtime = sorted(f"{layout.runtime}/{p.name}" for p in files)
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
                sources = [f"{layout.source}/{source}" for source in fixture.sources]
                made = compile_sources(root, sources, variant, fixture.flags, own)
                target = fixture.path(variant, root)
                linked = [str(p) for p in made + objects]
                run([COMPILER, *variant.flags, *LINK_FLAGS, *linked, "-o", str(target)], root)
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


def write_expected(names: Sequence[str], top: Path = FIXTURES) -> None:
    """Run each program's V9 build under qemu-user and write down what it prints."""
    expected = top / layout_of(top).expected
    expected.mkdir(parents=True, exist_ok=True)
    for fixture in read_manifest(top):
        if names and fixture.name not in names:
            continue
        for file, arguments in fixture.runs():
            output, status = run_under_qemu(fixture, VARIANTS[-1], arguments, top)
            if status != fixture.status:
                message = f"exit status {status}, manifest: {fixture.status}"
                raise BuildError(f"{fixture.name}: {message}")
            (expected / file).write_bytes(output)


def run_under_qemu(
    fixture: Fixture, variant: Variant, arguments: Sequence[str], top: Path = FIXTURES
) -> tuple[bytes, int]:
    """Return standard output and exit status (128 + signal) of `fixture` under qemu-user."""
    given = b"" if fixture.input is None else (top / "input" / fixture.input).read_bytes()
    command = [variant.emulator, str(fixture.path(variant, top)), *arguments]
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, env={}, check=False)
    return done.stdout, done.returncode if done.returncode >= 0 else 128 - done.returncode


def check(names: Sequence[str], top: Path = FIXTURES) -> int:
    """Rebuild in a scratch directory; print each file that differs; return how many do."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / FIXTURES.name
        shutil.copytree(FIXTURES, copy, ignore=shutil.ignore_patterns("bin"))
        root = copy / top.relative_to(FIXTURES)
        built = list(build(root, names))
        differing = 0
        for path in built:
            committed = top / path.relative_to(root)
            if not committed.exists() or committed.read_bytes() != path.read_bytes():
                differing += 1
                print(f"differs: {committed.relative_to(TOP)}")
        if not names and checksums(root) != (top / "bin" / RECORD).read_text():
            differing += 1
            print(f"differs: {top.relative_to(TOP)}/bin/{RECORD} (another compiler?)")
        print(f"{len(built)} programs rebuilt, {differing} differences")
        return differing


def main() -> int:
    """Build or check, as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suites", action="store_true", help="the kernels in suites, not fixtures")
    parser.add_argument("--check", action="store_true", help="compare with the committed files")
    parser.add_argument("--expected", action="store_true", help="rewrite the expected outputs")
    parser.add_argument("names", nargs="*", help="programs to build (default: all)")
    options = parser.parse_args()
    top = SUITES if options.suites else FIXTURES
    try:
        if options.check:
            return 1 if check(options.names, top) else 0
        for path in build(top, options.names):
            print(path.relative_to(TOP))
        (top / "bin" / RECORD).write_text(checksums(top))
        if options.expected:
            write_expected(options.names, top)
    except BuildError as error:
        print(f"build_fixtures: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
