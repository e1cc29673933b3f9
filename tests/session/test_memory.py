"""What is known of a program from earlier runs changes how long a run takes, and nothing else."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from simprof.profiler.profiles.cache_files import CacheFiles
from simprof.profiler.recovery import jump_tables
from simprof.profiler.recovery.recovery import Discoveries, ProgramGraphs, recover
from simprof.profiler.request.request import GuestOptions, RunRequest
from simprof.profiler.session import memory, session
from simprof.profiler.session.memory import BinaryMemory
from simprof.profiler.session.session import run_program
from simprof.simulator.binary import elf
from simprof.simulator.binary.program import Program
from tests.oracles.linked import make_sysroot

Find = Callable[..., Path]
Compile = Callable[..., Path]

GOTO = """
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    volatile unsigned long ways[3], key = (unsigned long)&argc;
    char which = '0';
    ways[0] = (unsigned long)&&one ^ key;
    ways[1] = (unsigned long)&&two ^ key;
    ways[2] = (unsigned long)&&three ^ key;
    if (read(0, &which, 1) != 1)
        return 3;
    printf("%c\\n", which);
    goto *(void *)(ways[(which + argc) % 3] ^ key);
one:
    return puts("one") < 0;
two:
    return puts("two") < 0;
three:
    return puts("three") < 0;
}
"""
"""Where its jump leads, only a run shows."""


def run(program: Path, cache: Path, given: str, *words: str) -> dict[str, Any]:
    """Run `simprof run` in a process of its own, with a cache; return what it writes as JSON."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "SIMPROF_NO_CACHE": ""}
    file = program.parent / "stdin"
    file.write_text(given)
    start = [
        sys.executable,
        "-c",
        "from simprof.profiler.cli import main; main()",
        "run",
        "--mode=tpp",
    ]
    command = [*start, f"--stdin={file}", "--json=-", *words, str(program)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def runs(result: dict[str, Any]) -> tuple[int, int]:
    """Take out how often the program was emulated."""
    return result["counts"].pop("runs"), result["counts"].pop("whole_runs")


@pytest.mark.long
@pytest.mark.toolchain
def test_runs_begin_with_nothing_of_other_runs(compile_c: Compile, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(compile_c(GOTO).read_bytes())
    program.chmod(0o755)
    cache = tmp_path / "cache"
    plain = {given: run(program, tmp_path / "none", given, "--no-cache") for given in "01"}
    assert not (tmp_path / "none").exists()
    emulated = {given: runs(result) for given, result in plain.items()}
    assert min(emulated.values())[0] > 1

    def same(given: str) -> tuple[int, int]:
        found = run(program, cache, given)
        counted = runs(found)
        assert found == plain[given]
        return counted

    for given in "0011":
        assert same(given) == emulated[given]
    for path in (cache / "simprof" / "binaries").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert same("1") == emulated["1"]


def test_graphs_come_back_as_they_were(fixture_elf: Find, tmp_path: Path) -> None:
    program = elf.load(fixture_elf("switches_pic", "v9"))
    kept = BinaryMemory(program, CacheFiles(tmp_path))
    some = Discoveries(entries=frozenset({program.entry + 16}))
    for discoveries in (Discoveries(), some):
        assert kept.graphs(discoveries) is None
        recovered = recover(program, discoveries)
        kept.keep_graphs(recovered, discoveries)
        found = kept.graphs(discoveries)
        assert found is not None and replace(found, code=recovered.code) == recovered
        assert (found.code.words == recovered.code.words).all()
        assert found.program is program
        for name in ("block_at", "first_block"):
            assert (getattr(found, name) == getattr(recovered, name)).all()
        assert not found.block_at.flags.writeable
    other = elf.load(fixture_elf("switches", "v9"))
    assert BinaryMemory(other, CacheFiles(tmp_path)).graphs(some) is None
    assert BinaryMemory(program, None).graphs(some) is None


def test_graphs_that_are_known_are_not_recovered_again(
    fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "binaries", lambda: CacheFiles(tmp_path / "cache"))
    recovered: list[str] = []

    def recovering(program: Program, *rest: Any) -> ProgramGraphs:
        recovered.append(str(program.path))
        return recover(program, *rest)

    monkeypatch.setattr(memory, "recover", recovering)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    guest = GuestOptions(root=tmp_path, stdin=Path(os.devnull), stdout=nowhere, stderr=nowhere)
    request = RunRequest(fixture_elf("switches", "v9"), guest, mode="tpp", remember=True)
    plain = run_program(replace(request, remember=False))
    for times in (1, 0, 0):
        recovered.clear()
        assert run_program(request) == plain
        assert len(recovered) == times
    for mode in ("pp", "edges"):  # whatever the mode is
        assert run_program(replace(request, mode=mode)).base == plain.base
    assert not recovered
    os.close(nowhere)


def test_nothing_is_executed_that_somebody_has_put_into_the_cache(
    fixture_elf: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = CacheFiles(tmp_path / "cache")
    monkeypatch.setattr(session, "binaries", lambda: files)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    guest = GuestOptions(root=tmp_path, stdin=Path(os.devnull), stdout=nowhere, stderr=nowhere)
    request = RunRequest(fixture_elf("switches", "v9"), guest, mode="pp", remember=True)
    edges = run_program(replace(request, mode="edges"))
    plain = run_program(request)
    kinds = {entry.name.split(".")[3].partition("-")[0] for entry in files.entries()}
    assert kinds == {"graphs", "jumps"}
    mark = tmp_path / "executed"

    class Touch:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return os.system, (f"touch {mark}",)

    sha256 = elf.load(request.program).sha256
    for attack in (Touch(), (sha256, Touch())):
        for entry in files.entries():
            files.write(entry.name, pickle.dumps(attack))
        for mode, before in (("edges", edges), ("pp", plain)):
            again = run_program(replace(request, mode=mode))
            assert replace(again, counts=before.counts) == before
        assert not mark.exists()
    os.close(nowhere)


SORTS = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int by_text(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }
int main(int argc, char **argv)
{
    qsort(argv, argc, sizeof argv[0], by_text);
    for (int i = 0; i < argc; i++)
        printf("%s %g\\n", argv[i], strtod(argv[i], NULL));
    return 0;
}
"""
SAYS = '#include <stdio.h>\nint main(int argc, char **argv) { return printf("%d\\n", argc) < 0; }'
THROWS = """
#include <iostream>
#include <vector>
int main(int argc, char **argv)
{
    std::vector<int> some(argc);
    try {
        return some.at(100);
    } catch (std::exception &error) {
        std::cout << error.what() << argc << std::endl;
    }
    return 0;
}
"""
PROGRAMS = {"sorts": (SORTS, "c"), "says": (SAYS, "c"), "throws": (THROWS, "c++")}


class Sharing:
    """Runs of dynamically linked programs, each of which leaves graphs in a cache."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory, self._monkeypatch = directory, monkeypatch
        self.analysed = 0  # Routines whose jumps the last run has analysed
        self.sysroot: Path | None = None
        analyse = jump_tables._analyse

        def counted(*arguments: Any) -> Any:
            self.analysed += 1
            return analyse(*arguments)

        monkeypatch.setattr(jump_tables, "_analyse", counted)

    def files(self, cache: str) -> CacheFiles:
        return CacheFiles(self._directory / cache)

    def jumps(self, cache: str) -> set[str]:
        names = [entry.name for entry in self.files(cache).entries()]
        return {name for name in names if ".jumps-" in name}

    def run(self, program: Path, cache: str, *arguments: bytes) -> dict[str, bytes | None]:
        """Return all graphs in the cache after a run."""
        self._monkeypatch.setattr(session, "binaries", lambda: self.files(cache))
        self.analysed = 0
        nowhere = os.open(os.devnull, os.O_WRONLY)
        guest = GuestOptions(
            self._directory, stdin=Path(os.devnull), stdout=nowhere, stderr=nowhere,
            sysroot=self.sysroot,
        )  # fmt: skip
        run_program(RunRequest(program, guest, arguments=arguments, mode="edges", remember=True))
        os.close(nowhere)
        files = self.files(cache)
        names = [entry.name for entry in files.entries() if ".graphs-" in entry.name]
        return {name: files.read(name) for name in names}


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("width", ["v9", "v8plus"])
def test_graphs_are_the_same_whichever_programs_have_loaded_the_libraries_before(
    compile_c: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    runs = Sharing(tmp_path, monkeypatch)
    programs = {
        name: compile_c(text, width=width, language=language, static=False)
        for name, (text, language) in PROGRAMS.items()
    }
    asked = [(name, arguments) for name in programs for arguments in ((), (b"2", b"1"))]
    alone: dict[str, bytes | None] = {}
    cost = {}
    for number, (name, arguments) in enumerate(asked):
        found = runs.run(programs[name], f"alone{number}", *arguments)
        assert len(found) >= 2
        alone |= found
        cost[name, arguments] = runs.analysed
    for order in (asked, asked[::-1]):
        cache = f"together{order[0]}"
        for number, (name, arguments) in enumerate(order):
            found = runs.run(programs[name], cache, *arguments)
            assert number == 0 or name == "throws" or runs.analysed < cost[name, arguments] / 2
        assert found == alone


@pytest.mark.toolchain
def test_libraries_that_have_changed_are_analysed_again(
    compile_c: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Sharing(tmp_path, monkeypatch)
    runs.sysroot = make_sysroot(tmp_path, "64")
    says, sorts = (compile_c(PROGRAMS[name][0], static=False) for name in ("says", "sorts"))
    runs.run(says, "cache")
    first, names = runs.analysed, runs.jumps("cache")
    assert {name.partition(".")[0] for name in names} >= {"ld-linux_so_2", "libc_so_6"}
    runs.run(sorts, "cache")
    assert runs.analysed < first / 2
    for name in names:  # damaged
        path = tmp_path / "cache" / name
        path.write_bytes(path.read_bytes()[:-1])
    with (runs.sysroot / "lib" / "libc.so.6").open("ab") as library:
        library.write(b"another")
    found = runs.run(sorts, "cache")
    assert runs.analysed > first / 2
    assert {name.partition(".")[0] for name in runs.jumps("cache") - names} == {"libc_so_6"}
    alone = runs.run(sorts, "alone")
    assert len(alone) >= 2 and alone.items() <= found.items()
