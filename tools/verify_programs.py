"""Verify real programs: instrument each, run it, and compare with what was predicted.

    python -m tools.verify_programs                          all programs, all modes, a table
    python -m tools.verify_programs wcet                     one suite
    python -m tools.verify_programs spec-like lua mawk/32    some of its programs
    python -m tools.verify_programs --modes pp,qpt2 --on emulator
    python -m tools.verify_programs --each 2                 two modes a program, in turn

The programs are those of the suites `wcet` and `spec-like` (`simprof suite build`), each with its
input for training, and as `compiled` those of tests/programs/exact in all ways that the tests
compile them, beside those that end by a signal or a fault. `--strip` verifies programs without
symbols, too. Some programs are left out unless they are named (`LEFT_OUT`). The exit status is 1 if
anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from msgspec.structs import replace

from simprof.profiler.experiments.suites.builder import build_suite
from simprof.profiler.experiments.suites.suite import Input, build_name
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.experiments.suites.toolchain import BuildError
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.request.request import GuestOptions, RunRequest, SchemeOptions, Setting
from simprof.profiler.rewriting.verification import WAYS, Verification
from simprof.profiler.rewriting.verify import verify
from simprof.profiler.schemes.registry import planned_modes
from simprof.simulator.errors import SimulatorError
from tests.conftest import WIDTH_FLAGS, compile_once
from tests.support.exact_programs import LANGUAGES, LONG, PROGRAMS, QUICK

COMPILED = "compiled"
GROUPS = ("wcet", COMPILED, "spec-like")
LEFT_OUT = {
    "stale.c": "prints what the stack held before",
    "library.cc": "looks for a byte in words on the stack whose other bytes hold anything (memchr)",
    "lua": "hashes by addresses of its stack, on which frames are larger",
    "cc65": "formats the time, and compares strings on the stack by words whose last bytes hold "
    "anything (strcmp)",
    "jumping.c/32": "longjmp of the 32-bit C library acts by how far apart two frames are",
    "gnugo": "is too large for copies of all its routines to be in reach",
}
"""Programs whose counts differ or that are refused, and why; verified only if they are named."""
STRIP = "sparc64-linux-gnu-strip"


@dataclass(frozen=True)
class Case:
    """A program that is verified, and what it is given."""

    group: str
    name: str
    width: int
    program: Path
    given: Input
    stripped: bool = False


@dataclass(frozen=True)
class Row:
    """What was found of a program: `differences` by mode; `left` is a share of base."""

    group: str
    name: str
    width: int
    stripped: bool
    base: int
    rewriting: dict[str, float]
    left: float
    routines_left: int
    differences: dict[str, tuple[str, ...]]
    seconds: float


def cases(group: str, names: Sequence[str], scratch: Path, *, stripped: bool) -> Iterator[Case]:
    """Yield the programs of a group; those of `names` only, "NAME" or "NAME/WIDTH"."""
    yield from (
        compiled(names, scratch) if group == COMPILED else of_suite(group, names, stripped=stripped)
    )


def wanted(name: str, width: int, names: Sequence[str]) -> bool:
    """Whether a program is verified; `names`: those that the command line names, if it does."""
    if not names:
        return LEFT_OUT.keys().isdisjoint({name, f"{name}/{width}"})
    return not {name, f"{name}/{width}"}.isdisjoint(names)


def compiled(names: Sequence[str], scratch: Path) -> Iterator[Case]:
    """Yield the compiled programs of the tests."""
    for number, how in enumerate((*QUICK, *LONG)):
        width = 64 if how.width == "v9" else 32
        if not wanted(how.source, width, names):
            continue
        source, flags = PROGRAMS / how.source, (*WIDTH_FLAGS[how.width], "-static", *how.flags)
        program = scratch / f"compiled-{number}"
        compile_once(source.read_text(), (*flags, "-lm"), LANGUAGES[source.suffix], program)
        name = " ".join([how.source, *how.flags])
        yield Case(COMPILED, name, width, program, Input("train", how.arguments))


def of_suite(name: str, names: Sequence[str], *, stripped: bool = False) -> Iterator[Case]:
    """Yield the programs of a suite."""
    suite = load_suite(name)
    chosen = [b for b in suite.benchmarks if any(wanted(b.name, w, names) for w in (64, 32))]
    built = build_suite(replace(suite, benchmarks=tuple(chosen)))
    for key, reason in built.failures.items():
        raise BuildError(f"{key}: {reason}")
    for benchmark in chosen:
        for width in (64, 32):
            if not wanted(benchmark.name, width, names):
                continue
            program = built.programs[benchmark.name, build_name(width)].path
            for without in (False, True) if stripped else (False,):
                yield Case(
                    suite.name, benchmark.name, width, program, benchmark.inputs["train"], without
                )


def in_turn(modes: Sequence[str], each: int | None, number: int) -> Sequence[str]:
    """Return the modes of a program: `each` of them, from where the last program's ended."""
    if each is None or each >= len(modes):
        return modes
    return [modes[(number * each + k) % len(modes)] for k in range(each)]


def verified_case(case: Case, modes: Sequence[str], ways: Sequence[str] = WAYS) -> Verification:
    """Verify one program."""
    with scratch_directory("simprof-verify-programs-") as scratch:
        empty = scratch / "empty"
        empty.mkdir()
        program = scratch / "program"
        shutil.copy(case.program, program)
        if case.stripped:
            subprocess.run([STRIP, "-s", program], check=True)
        given = case.given
        guest = GuestOptions(
            root=given.root or empty,
            stdin=given.stdin or Path(os.devnull),
            environment=tuple((os.fsencode(k), os.fsencode(v)) for k, v in given.environment),
        )
        request = RunRequest(program, guest, tuple(map(os.fsencode, given.arguments)))
        return verify(request, [Setting(mode, mode, SchemeOptions()) for mode in modes], ways)


def row(case: Case, modes: Sequence[str], ways: Sequence[str]) -> Row:
    """Verify one program; an error is a difference of all modes."""
    started = time.perf_counter()
    base = left = routines_left = 0
    rewriting: dict[str, float] = {}
    differences: dict[str, tuple[str, ...]]
    try:
        result = verified_case(case, modes, ways)
    except SimulatorError as error:
        differences = {"all": (str(error),)}
    else:
        first = result.modes[0]
        base, routines_left = first.base, len(first.left)
        left = sum(routine.instructions for routine in first.left)
        rewriting = {m.setting.name: sum(m.rewriting.values()) / base for m in result.modes}
        differences = {m.setting.name: m.differences for m in result.modes if m.differences}
        for way, why in result.skipped.items():
            differences[way] = (why,)
    return Row(
        case.group,
        case.name,
        case.width,
        case.stripped,
        base,
        rewriting,
        left / base if base else 0.0,
        routines_left,
        differences,
        time.perf_counter() - started,
    )


def describe(found: Row) -> Iterator[str]:
    """Yield the lines of a row."""
    name = f"{found.name}/{found.width}{' stripped' if found.stripped else ''}"
    shares = found.rewriting.values()
    cost = f"{100 * min(shares):.2f}-{100 * max(shares):.2f} %" if shares else "-"
    yield (
        f"{name:34} {found.base:>13,}  rewriting {cost:>16}  left {found.routines_left:>3}"
        f" {100 * found.left:6.2f} %  {len(found.rewriting):>2} modes,"
        f" {len(found.differences):>2} differ {found.seconds:7.1f} s"
    )
    for mode, lines in found.differences.items():
        yield from (f"    {mode}: {line}" for line in lines[:6])


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify programs as the command line says; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("group", nargs="?", choices=GROUPS, help="only these programs")
    parser.add_argument("name", nargs="*", help="only these: NAME or NAME/WIDTH")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=planned_modes())
    parser.add_argument("--each", type=int, metavar="N", help="N of the modes a program, in turn")
    parser.add_argument("--on", type=lambda text: text.split(","), default=WAYS)
    parser.add_argument("--strip", action="store_true", help="without symbols, too")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    with scratch_directory("simprof-verify-compiled-") as scratch:
        for group in [options.group] if options.group else GROUPS:
            for case in cases(group, options.name, scratch, stripped=options.strip):
                modes = in_turn(options.modes, options.each, len(rows))
                rows.append(row(case, modes, options.on))
                for line in describe(rows[-1]):
                    print(line, flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in rows], indent=1) + "\n")
    failed = sum(bool(each.differences) for each in rows)
    print(f"{len(rows)} programs, {failed} with differences")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
