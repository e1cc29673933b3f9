"""The files that programs of suites read: copied or generated into the cache."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from simprof.profiler.experiments.suites.directories import leads_out
from simprof.profiler.experiments.suites.generate import generate
from simprof.profiler.experiments.suites.suite import Benchmark, Input, InputFile
from simprof.profiler.experiments.suites.toolchain import BuildError
from simprof.profiler.profiles.output import write_atomically
from simprof.simulator.errors import UsageError

OLD = 1_000_000_000
"""When all input files were last changed: what a program learns of it is always the same."""


def prepare(benchmark: Benchmark, tree: Callable[[], Path]) -> None:
    """Write the files of both inputs.

    `tree`: Returns the benchmark's unpacked source; called only where a missing file comes from
    there.

    Raises
    ------
    UsageError
        If a file cannot be written.
    BuildError
        If the source cannot be had.
    """
    for given in benchmark.inputs.values():
        for file in given.files:
            assert given.root is not None
            mark = given.root.with_name(f"{given.root.name}.made") / file.name
            _write(file, given.root / file.name, mark, tree)


def _write(file: InputFile, target: Path, mark: Path, tree: Callable[[], Path]) -> None:
    """Write one file unless `mark`, kept where the program does not see it, says it is there."""
    recipe = describe(file)
    try:
        if target.is_file() and mark.is_file() and mark.read_text() == recipe:
            return
        for path in (target, mark):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, _content(file, tree))
        os.utime(target, (OLD, OLD))
        write_atomically(mark, recipe.encode())
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror})") from None


def _content(file: InputFile, tree: Callable[[], Path]) -> bytes:
    if file.source is not None:
        return file.source.read_bytes()
    if file.generator is not None:
        return generate(file.generator, file.parameters)
    assert file.unpacked is not None
    root = tree()
    if leads_out(file.unpacked, root):
        raise BuildError(f"{file.unpacked!r} leads out of the program's sources")
    return (root / file.unpacked).read_bytes()


def describe(file: InputFile) -> str:
    """Return a text that changes whenever the file's content would."""
    if file.source is not None:
        return f"copy {hashlib.sha256(file.source.read_bytes()).hexdigest()}\n"
    if file.generator is not None:
        return f"make {file.generator} {dict(file.parameters)}\n"
    return f"unpacked {file.unpacked}\n"


def digest(given: Input) -> str:
    """Return a digest of everything that the program is given: arguments, files, environment.

    Raises
    ------
    UsageError
        If a file is not there: build the suite first.
    """
    total = hashlib.sha256(repr((given.arguments, given.environment)).encode())
    paths = [given.root / file.name for file in given.files if given.root is not None]
    for path in [*paths, *([] if given.stdin is None else [given.stdin])]:
        try:
            total.update(f"{path.name} ".encode() + hashlib.sha256(path.read_bytes()).digest())
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read ({error.strerror}): run simprof suite build"
            ) from None
    return total.hexdigest()
