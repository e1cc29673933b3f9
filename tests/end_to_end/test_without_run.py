"""Programs that were instrumented without a run behave as the originals, whatever the mode.

They run under qemu-user in the place of the original, so that their names are the same. Small
programs have all modes, fixtures a third. Code for a whole C library takes seconds a mode: those
take turns. What only a profile guides (`tpp`, `pref`) has one of the emulator here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from simprof.profiler.profiles import storage
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.rewriting import instrument as alone
from simprof.profiler.rewriting.instrument import instrument
from simprof.profiler.schemes.registry import definition, planned_modes
from simprof.profiler.session.session import run_program
from tests.conftest import FIXTURES
from tests.oracles import qemu
from tests.support.exact_programs import LANGUAGES
from tests.support.turns import in_step
from tests.support.verifying import of_suite

Find = Callable[..., Path]
Compile = Callable[..., Path]
PROGRAMS = Path(__file__).parents[1] / "programs"
pytestmark = [pytest.mark.qemu]

WIDTHS = ("v9", "v8plus", "v8")
NAMES = sorted(path.stem for path in (FIXTURES / "bin" / "v9").glob("*.elf"))
ARGUMENTS = {"sieve": ["1"], "bench": ["1"], "deep": ["300"]}
MODES = tuple(mode for mode in planned_modes() if not definition(mode).guided)


def in_turn(number: int) -> list[str]:
    """Return the modes of a program of a list: it and the others have each mode once."""
    return list(MODES[number :: len(WITH_LIBRARY) + len(TAKEN_REAL)])


class Bench:
    """A program in a place of its own, and what it does there.

    Parameters
    ----------
    directory
        An empty one; `root` in it is where programs run.
    files
        A directory with what they find there, if they find anything.
    """

    def __init__(
        self,
        program: Path,
        directory: Path,
        arguments: Sequence[str] = (),
        stdin: bytes = b"",
        files: Path | None = None,
    ) -> None:
        self._files = files
        self._original, self._arguments, self._stdin = program.read_bytes(), arguments, stdin
        self._root, self._path = directory / "root", directory / "program"
        self._path.write_bytes(self._original)
        self._path.chmod(0o755)

    def run(self) -> qemu.Run:
        """Run what is in the place, with its files as they were."""
        shutil.rmtree(self._root, ignore_errors=True)
        if self._files is None:
            self._root.mkdir()
        else:
            shutil.copytree(self._files, self._root)
        return qemu.run(self._path, self._arguments, self._stdin, directory=self._root, timeout=20)

    def behaviours(self, modes: Sequence[str]) -> Iterator[tuple[str, qemu.Run]]:
        """Yield what the program does as it is, and instrumented without a run for each mode."""
        yield "plain", self.run()
        basis = alone.basis_without_run(self._path)
        for mode in modes:
            profile = self._profile() if definition(mode).guided else None
            setting = Setting(mode, mode, SchemeOptions(edge_profile=profile))
            self._path.write_bytes(instrument(basis.order(setting), self._original).file)
            yield mode, self.run()

    def _profile(self) -> Path:
        """Return a profile of edges and paths of a run of the original."""
        self._path.write_bytes(self._original)
        saved, output = self._path.with_name("profile"), self._path.with_name("output")
        with output.open("wb") as nowhere:
            guest = GuestOptions(self._root, stdout=nowhere.fileno(), stderr=nowhere.fileno())
            arguments = tuple(argument.encode() for argument in self._arguments)
            request = RunRequest(self._path, guest, arguments, mode="pp")
            storage.save(run_program(request), saved)
        return saved


def check(bench: Bench, modes: Sequence[str] = MODES) -> None:
    """Check that a program behaves in each mode as it does without."""
    behaviours = bench.behaviours(modes)
    _, plain = next(behaviours)
    assert {mode: run for mode, run in behaviours if run != plain} == {}


@pytest.mark.parametrize("width", WIDTHS)
def test_what_setjmp_returns_to_twice(fixture_elf: Find, tmp_path: Path, width: str) -> None:
    check(Bench(fixture_elf("nonlocal", width), tmp_path), ["pp", "bittrace"])


@pytest.mark.long
@pytest.mark.parametrize(("name", "width"), in_step(NAMES, WIDTHS))
def test_every_fixture(fixture_elf: Find, tmp_path: Path, name: str, width: str) -> None:
    """Each has a third of the modes, in turn."""
    bench = Bench(fixture_elf(name, width), tmp_path, ARGUMENTS.get(name, ()))
    check(bench, planned_modes()[NAMES.index(name) % 3 :: 3])


FLAGS = {
    "data_behind_call.S": ("-nostdlib",),
    "endings.c": ("-nostdlib", "-O1", "-fno-toplevel-reorder"),
    "flat.c": ("-O0", "-mflat", "-nostdlib", "-ffreestanding", "-w"),
    "large_frame.c": ("-O1", "-nostdlib", "-ffreestanding", "-w"),
    "leftover.S": ("-nostdlib",),
    "odd.S": ("-nostdlib",),
    "doubles.c": ("-O1", "-Wa,-Av9a"),
    "application_register.c": ("-O2", '-DREGISTER="g4"', "-nostdlib", "-ffreestanding", "-w"),
}
"""How programs are compiled for which `-O2` is not right."""
GIVEN = {"endings.c": ("b",), "faults.c": ("read",), "ending.c": ("exit",)}
"""Arguments of programs that need some."""
LEFT_OUT = {
    "exact/stale.c": "prints what the stack held before",
    "threads/counted.c": "a library of a dynamic program",
    "threads/linked.c": "a dynamic program",
    "threads/deadlock.c": "never ends",
    "programs/reserved.c": "qemu may abort (`tcg fatal error`) on conditions that V9 reserves",
    "programs/signals.c": "qemu ends it at its division by zero (64 bits) or never does (32)",
}
"""Programs that do not end, or are not whole, or whose output is not their own under qemu."""
MODES_LEFT_OUT = {"leftover.S": ("kblpp",)}
"""Modes of programs where only a run shows that control comes back into a routine behind another's
`restore`: path registers hold nothing then, and `kblpp` goes by them to the nodes of its forest.
"""
FOLDERS_LEFT_OUT = ("hostile", "leon")
"""Programs that look for a way out of simprof's files, and such without Linux."""
SOURCES = sorted(
    path
    for path in PROGRAMS.rglob("*.*")
    if path.suffix in LANGUAGES
    and path.parent.name not in FOLDERS_LEFT_OUT
    and f"{path.parent.name}/{path.name}" not in LEFT_OUT
)
# Code for a whole C library takes longest: of programs with one, every sixth.
TAKEN = [
    path
    for number, path in enumerate(SOURCES)
    if number % 6 == 2 or "-nostdlib" in FLAGS.get(path.name, ())
]
WITH_LIBRARY = [
    path
    for path in TAKEN
    if "-nostdlib" not in FLAGS.get(path.name, ()) and path.parent.name != "threads"
]
"""These and the real programs have three modes each: together all modes."""

REAL = ("bzip2", "minigzip", "mawk", "tinyscheme", "dblat2", "compress", "stones", "simulator")
TAKEN_REAL = REAL[4::2]


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("number", "source"), list(enumerate(TAKEN)), ids=[path.name for path in TAKEN]
)
def test_every_program_of_the_tests(
    compile_c: Compile, tmp_path: Path, number: int, source: Path
) -> None:
    flags = FLAGS.get(source.name, ("-O2", "-g"))
    width = WIDTHS[number % 2]
    built = compile_c(
        source, (*flags, "-lm", "-pthread"), width=width, language=LANGUAGES[source.suffix]
    )
    # Counters are not locked (docs/INSTRUMENT.md, *Threads*): threads that run at once may break
    # a hash table or a trace's buffer, and arrays lose counts alone.
    if source.parent.name == "threads":
        modes = [("pp", "qpt2")[number % 2]]
    elif source in WITH_LIBRARY:
        modes = in_turn(WITH_LIBRARY.index(source))
    else:
        left_out = MODES_LEFT_OUT.get(source.name, ())
        modes = [mode for mode in MODES if mode not in left_out]
    check(Bench(built, tmp_path, GIVEN.get(source.name, ())), modes)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(("number", "name"), list(enumerate(TAKEN_REAL)), ids=TAKEN_REAL)
def test_real_programs(tmp_path: Path, number: int, name: str) -> None:
    program, given = of_suite("spec-like", name, (64, 32)[number % 2])
    stdin = b"" if given.stdin is None else given.stdin.read_bytes()
    modes = in_turn(len(WITH_LIBRARY) + number)
    check(Bench(program, tmp_path, given.arguments, stdin, given.root), modes)


def test_each_mode_has_a_program_with_a_library() -> None:
    programs = len(WITH_LIBRARY) + len(TAKEN_REAL)
    assert {mode for number in range(programs) for mode in in_turn(number)} == set(MODES)
