"""Break the code on purpose, one small break at a time, and see whether the tests notice.

    tools/mutants.py [PATTERN ...] [--workers N] [--list]

Each break ("mutant") of `tools/mutants.toml` replaces one text of one file and names the tests
that ought to fail with it. A mutant is

killed
    A test fails, or the tests do not end within the time limit.
survived
    They all pass: nothing notices that the code is wrong there. A test is missing.
inapplicable
    The text is not in the file exactly once, or the tests cannot be run: the list is out of date.

A mutant's tests are run as continuous integration runs them: with those that are marked `long`.

Everything happens in temporary copies of the tree, one for each worker; the work tree is only
read. First all tests must pass in a copy without any break. That also compiles the numba kernels
of the copy, which it keeps to itself: numba does not see that a constant of another module has
changed, so breaks of kernels are tried as plain Python, or with kernels compiled afresh.

The exit status is 1 if a mutant survived or is inapplicable.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "mutants.toml"
TIME_LIMIT = 600.0
"""Seconds for the tests of one mutant."""

_PASSED, _FAILED, _INTERRUPTED = 0, 1, 2
_PYTEST = (
    "-m",
    "pytest",
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "--no-header",
    "--tb=line",
    "--long",
)


class Fate(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    INAPPLICABLE = "inapplicable"


class Kernels(StrEnum):
    """How kernels are run with a break: those of before it, new ones, or as plain Python."""

    CACHED = "cached"
    FRESH = "fresh"
    PLAIN = "plain"


@dataclass(frozen=True)
class Mutant:
    """A small break of the code.

    Attributes
    ----------
    name
        What is wrong with it, in a few words; no two have the same.
    file
        Path of the file, from the root of the tree.
    old, new
        The text that is replaced, and by what; `old` is in the file exactly once.
    tests
        What pytest is to run: files, folders, or single tests.
    kernels
        How the tests run numba's kernels.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    kernels: Kernels = Kernels.CACHED

    def apply(self, root: Path) -> str | None:
        """Break the file in the tree at `root`; return why that cannot be, or None."""
        path = root / self.file
        if not path.is_file():
            return f"there is no file {self.file}"
        text = path.read_text(encoding="utf-8")
        found = text.count(self.old)
        if found != 1:
            return f"its text is in {self.file} {found} times, not once"
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        return None


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant, in how many seconds, and why."""

    mutant: Mutant
    fate: Fate
    seconds: float
    why: str = ""


def load(path: Path = LIST) -> list[Mutant]:
    """Return the mutants of a list, in its order.

    Raises
    ------
    ValueError
        If two have one name.
    """
    groups: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["group"]
    mutants = [
        Mutant(
            name=entry[0],
            file=group["file"],
            old=entry[1],
            new=entry[2],
            tests=tuple(entry[3:] or group["tests"]),
            kernels=Kernels(group.get("kernels", Kernels.CACHED)),
        )
        for group in groups
        for entry in group["mutants"]
    ]
    repeated = [name for name, count in Counter(m.name for m in mutants).items() if count > 1]
    if repeated:
        raise ValueError(f"{path}: several mutants are called {', '.join(repeated)}")
    return mutants


def chosen(mutants: Iterable[Mutant], patterns: Sequence[str]) -> list[Mutant]:
    """Return those whose name or file holds, or matches, one of `patterns`; all for none."""

    def matches(mutant: Mutant, pattern: str) -> bool:
        texts = (mutant.name, mutant.file)
        return any(pattern in text or fnmatch.fnmatch(text, pattern) for text in texts)

    return [m for m in mutants if not patterns or any(matches(m, each) for each in patterns)]


# -- copies of the tree


@dataclass
class Copy:
    """A copy of the tree that one worker breaks and mends.

    Attributes
    ----------
    root
        Where it is.
    command
        What runs tests, before their names.
    stamp
        Time of last change of the file that was changed last. No two changes have the same one,
        in whole seconds: Python and numba recognise what they compiled by it.
    """

    root: Path
    command: tuple[str, ...] = (sys.executable, *_PYTEST)
    stamp: float = field(default_factory=lambda: float(int(time.time())))

    def run(self, words: Sequence[str], kernels: Kernels, limit: float) -> tuple[int | None, str]:
        """Run pytest; return its exit status, None if the time was up, and its output."""
        home = self.root.parent
        cache = home / "fresh" if kernels is Kernels.FRESH else home / "kernels"
        environment = os.environ | {
            "PYTHONPATH": str(self.root),
            "NUMBA_CACHE_DIR": str(cache),
            "TMPDIR": str(home / "temporary"),
        }
        if kernels is Kernels.PLAIN:
            environment["NUMBA_DISABLE_JIT"] = "1"
        process = subprocess.Popen(
            [*self.command, *words],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            _end_group(process)
            shutil.rmtree(home / "fresh", ignore_errors=True)
        return process.returncode, output

    def attempt(self, mutant: Mutant, limit: float = TIME_LIMIT) -> Outcome:
        """Break the tree, run the mutant's tests, and mend the tree."""
        begin = time.monotonic()
        path = self.root / mutant.file
        original = path.read_bytes() if path.is_file() else b""
        before = path.stat().st_mtime if path.is_file() else 0.0
        if problem := mutant.apply(self.root):
            return Outcome(mutant, Fate.INAPPLICABLE, 0.0, problem)
        try:
            self.stamp += 2
            os.utime(path, (self.stamp, self.stamp))
            status, output = self.run(mutant.tests, mutant.kernels, limit)
        finally:
            path.write_bytes(original)
            os.utime(path, (before, before))
        fate, why = _judge(status, output)
        return Outcome(mutant, fate, time.monotonic() - begin, why)


def _judge(status: int | None, output: str) -> tuple[Fate, str]:
    last = output.strip().splitlines()[-1:] or [""]
    match status:
        case None:
            return Fate.KILLED, "time limit"
        case 0:
            return Fate.SURVIVED, last[0]
        case 1 | 2:  # a test failed, or the tests cannot even be imported
            failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
            return Fate.KILLED, (failed or last)[0].partition(" - ")[0]
    if status < 0:
        return Fate.KILLED, f"signal {-status}"
    return Fate.INAPPLICABLE, last[0]


def _end_group(process: subprocess.Popen[str]) -> None:
    """End what the tests started and left, and the tests themselves if they go on."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def tree_files(root: Path) -> list[Path]:
    """Return the files of the work tree that are, or could be, committed; relative to `root`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    ).stdout.decode()
    names = sorted(set(filter(None, listed.split("\0"))))
    # Links too: those to folders, inside simprof/, lead within the copy.
    places = ((Path(name), root / name) for name in names)
    return [file for file, place in places if place.is_symlink() or place.is_file()]


@contextmanager
def copied(root: Path, files: Sequence[Path]) -> Iterator[Copy]:
    """Make a copy of `files` for the time of a `with` block."""
    with tempfile.TemporaryDirectory(prefix="simprof-mutants-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        (home / "temporary").mkdir()
        for file in files:
            (home / "tree" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / file, home / "tree" / file, follow_symlinks=False)
        yield Copy(home / "tree")


# -- all of them


def unbroken(copy: Copy, mutants: Iterable[Mutant]) -> str | None:
    """Run all tests of `mutants` without a break; return what fails, or None."""
    for kernels in (Kernels.CACHED, Kernels.PLAIN):
        is_plain = kernels is Kernels.PLAIN
        of_kind = (m for m in mutants if (m.kernels is Kernels.PLAIN) == is_plain)
        tests = {test for mutant in of_kind for test in mutant.tests}
        if tests:
            status, output = copy.run(sorted(tests), kernels, limit=3600)
            if status != _PASSED:
                return output
    return None


def attempt_all(
    root: Path, mutants: Sequence[Mutant], workers: int, report: Callable[[Outcome], None]
) -> list[Outcome]:
    """Try all mutants in so many copies of the tree at `root`; return what became of them.

    Raises
    ------
    RuntimeError
        If tests fail without any break.
    """
    files = tree_files(root)
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        waiting.put(mutant)
    shares = [mutants[number::workers] for number in range(workers)]
    outcomes: list[Outcome] = []
    problems: list[str] = []

    def work(share: Sequence[Mutant]) -> None:
        with copied(root, files) as copy:
            if problem := unbroken(copy, share):
                problems.append(problem)
            ready.wait()
            while not problems:
                try:
                    outcome = copy.attempt(waiting.get_nowait())
                except queue.Empty:
                    return
                outcomes.append(outcome)
                report(outcome)

    ready = threading.Barrier(workers)
    threads = [threading.Thread(target=work, args=(share,), daemon=True) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise RuntimeError(f"{problems[0]}\nthese tests fail without any break: mend them first")
    place = {mutant.name: number for number, mutant in enumerate(mutants)}
    return sorted(outcomes, key=lambda outcome: place[outcome.mutant.name])


def line(outcome: Outcome) -> str:
    """Return the line about one mutant."""
    fate, mutant = outcome.fate, outcome.mutant
    return f"{fate:12} {outcome.seconds:6.1f} s  {mutant.file}: {mutant.name}  [{outcome.why}]"


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return how many met which fate, and those that were not killed."""
    counts = Counter(outcome.fate for outcome in outcomes)
    lines = [f"{len(outcomes)} mutants: " + ", ".join(f"{counts[fate]} {fate}" for fate in Fate)]
    lines += [line(outcome) for outcome in outcomes if outcome.fate is not Fate.KILLED]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pattern", nargs="*", help="only those with this in their name or file")
    parser.add_argument("--workers", type=int, default=2, help="how many at once (2)")
    parser.add_argument("--list", action="store_true", help="list them and try none")
    options = parser.parse_args(arguments)
    everything = load()
    for pattern in options.pattern:
        if not chosen(everything, [pattern]):
            parser.error(f"no mutant has {pattern!r} in its name or file")
    mutants = chosen(everything, options.pattern)
    if options.list:
        for mutant in mutants:
            print(f"{mutant.file}: {mutant.name}")
        return 0
    workers = max(1, min(options.workers, len(mutants)))
    begin = time.monotonic()
    try:
        outcomes = attempt_all(ROOT, mutants, workers, lambda each: print(line(each), flush=True))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\n{summary(outcomes)}\nin {(time.monotonic() - begin) / 60:.1f} minutes")
    return int(any(outcome.fate is not Fate.KILLED for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
