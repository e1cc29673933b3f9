"""Cells that run programs with counters in them: those of a scheme, and those of gcc.

An instrumented program is run where its instructions can be counted: under qemu-user where that is
installed and can count, else on simprof's own emulator. Programs built with gcc's -fprofile-arcs
write their counters to files (*.gcda).
"""

from __future__ import annotations

import resource
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from simprof.profiler.experiments.cells.cells import (
    ALONE_INSTRUCTIONS,
    ALONE_ROUTINES,
    PREDICTED,
    REWRITING,
    CellDocument,
    failure,
    found,
)
from simprof.profiler.plan.plan import SYMBOL_BITS
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.profiler.request.request import RunRequest, Setting
from simprof.profiler.rewriting import qemu
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.rewriting.elsewhere.whole_path import compressed_size, read_whole_path
from simprof.profiler.rewriting.instrument import instrument_file
from simprof.profiler.rewriting.trials import TrialDirectory
from simprof.profiler.rewriting.verification import EMULATOR, QEMU, ModeResult
from simprof.profiler.rewriting.verify import verify
from simprof.profiler.schemes.registry import definition
from simprof.profiler.session.session import run_program
from simprof.profiler.trace.net import DELAYS, forward_paths, predict
from simprof.simulator.binary import elf
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.errors import UsageError

# Bytes of a trace of paths that no grammar is made of any more: it would take minutes.
MOST_BYTES = 1 << 26

# Names of the counts of what rewriting executes, by cause.
CAUSES = tuple(f"{REWRITING}:{cause}" for cause in Cause)


def way(machine: MachineKind) -> str:
    """Return where programs for `machine` are run and their instructions counted."""
    if qemu.missing(machine) is None and qemu.uncounted(machine) is None:
        return QEMU
    return EMULATOR


def execute(request: RunRequest, settings: Sequence[Setting]) -> tuple[CellDocument, ...]:
    """Run a program with the code of each scheme in it, and compare with what was predicted.

    Raises SimulatorError as `verify`; if a scheme has no code.
    """
    for setting in settings:
        _check(setting)
    chosen = way(elf.load(request.program).machine)
    verification = verify(request, settings, (chosen,))
    results = (_executed(mode, chosen) for mode in verification.modes)
    return tuple(
        result.but(sizes=path_trace_sizes(request, mode.setting))
        if definition(mode.setting.mode).orders_paths and not result.failed
        else result
        for result, mode in zip(results, verification.modes, strict=True)
    )


def path_trace_sizes(request: RunRequest, setting: Setting) -> dict[str, int]:
    """Return what the trace of a program that writes its paths takes, as it is and in shorter
    forms, and how well NET predicts what is hot in it, by delay (`trace.net`).

    Raises SimulatorError if the program cannot be instrumented, or writes no trace.
    """
    with scratch_directory("simprof-paths-") as scratch:
        place = TrialDirectory(request, scratch)
        place.put(instrument_file(request.program, setting, request.selection).file)
        run = place.run(EMULATOR)
        if run.counters is None or run.trace is None:
            raise UsageError(f"{request.program}: instrumented it wrote no trace")
        if len(run.trace) > MOST_BYTES:
            return {
                "path_symbols": len(run.trace) * 8 // SYMBOL_BITS,
                "path_trace_bytes": len(run.trace),
                "path_zstd_bytes": compressed_size(run.trace),
            }
        whole = read_whole_path(
            run.counters,
            run.trace,
            request.program,
            longest=1,
            threshold=100.0,
            is_compared=True,
        )
    sizes = {
        "path_symbols": whole.length,
        "path_trace_bytes": whole.bytes,
        "path_zstd_bytes": whole.compressed,
        "grammar_rules": len(whole.grammar.bodies),
        "grammar_symbols": whole.grammar.symbols,
        "grammar_bytes": whole.grammar.bytes,
    }
    paths = forward_paths(whole.blocks())
    for delay in DELAYS:
        predicted = predict(paths, delay)
        for name in ("executions", "hot", "hits", "noise", "counters", "traces"):
            sizes[f"net_{name}_{delay}"] = getattr(predicted, name)
    return {**sizes, "net_paths": len(set(paths))}


def _check(setting: Setting) -> None:
    if not definition(setting.mode).instruments:
        raise UsageError(f"{setting.mode} instruments nothing: there is no code to execute")


def _executed(mode: ModeResult, chosen: str) -> CellDocument:
    """Return what was found of one scheme; `added` is what its code executed."""
    instructions = mode.executed.get(chosen)
    if instructions is None:
        return failure("; ".join(mode.differences) or f"{chosen} did not count its instructions")
    causes = {f"{REWRITING}:{cause}": count for cause, count in mode.rewriting.items()}
    rewriting = sum(mode.rewriting.values())
    counts = {
        PREDICTED: mode.added,
        REWRITING: rewriting,
        ALONE_ROUTINES: len(mode.left),
        ALONE_INSTRUCTIONS: sum(routine.instructions for routine in mode.left),
    }
    return CellDocument(
        found(
            mode.base,
            instructions - mode.base - rewriting,
            counts={**counts, **dict.fromkeys(CAUSES, 0), **causes},
            differences=list(mode.differences),
        )
    )


def timed(fresh: Callable[[], RunRequest], setting: Setting, directory: Path) -> CellDocument:
    """Measure the time of a simulated run, of the program and of the instrumented one under qemu.

    Times are seconds of processor time, of one run each.

    `fresh`: Returns a request whose files are as they are at the program's start. `directory`:
    Where the instrumented program is written.

    Raises SimulatorError as `run_program` and `instrument_file`; if the instrumented program ends
    otherwise.
    """
    _check(setting)
    request = fresh()
    started = time.process_time()
    measured = run_program(replace(request, mode=setting.mode, scheme=setting.options))
    result = CellDocument(found(measured.base, measured.added)).timed(
        simulated=time.process_time() - started, original=None, instrumented=None
    )
    machine = elf.load(request.program).machine
    if qemu.missing(machine) is not None:
        return result
    instrumented = directory / request.program.name
    instrumented.write_bytes(instrument_file(request.program, setting, request.selection).file)
    instrumented.chmod(0o755)
    original, first = _under_qemu(request.program, machine, fresh())
    edited, second = _under_qemu(instrumented, machine, fresh())
    if first != second:
        raise UsageError(f"instrumented it ended with status {second}, not {first}")
    return result.timed(original=original, instrumented=edited)


def _under_qemu(file: Path, machine: MachineKind, request: RunRequest) -> tuple[float, int]:
    guest = request.guest
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = qemu.run(
        file,
        machine,
        arguments=request.arguments,
        argv0=guest.argv0_of(file),
        environment=guest.environment_strings,
        stdin=None if guest.stdin is None else guest.stdin.resolve(),
        directory=guest.root,
        stdout=guest.stdout,
        stderr=guest.stderr,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, done.status


# A file is a header (magic, version, stamp, checksum) and records of a tag, a length in bytes and
# data, all in words of 32 bits of the program's machine: here big-endian. A function's record is
# followed by that of its counters, 64 bits each with the lower half first; a negative length stands
# for counters that are all 0 (GCC 12, gcov-io.h).
MAGIC = b"gcda"
HEADER = 16
FUNCTION = 0x0100_0000
ARC_COUNTERS = 0x01A1_0000
SUFFIX = ".gcda"


def arc_counts(path: Path) -> dict[int, tuple[int, ...]]:
    """Return the counters of each function in a file, by gcc's number of the function.

    Raises UsageError if the file cannot be read, or is cut or none of a big-endian program's.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from None
    if data[: len(MAGIC)] != MAGIC:
        raise UsageError(f"{path.name} holds no counters of a big-endian program")
    counts: dict[int, tuple[int, ...]] = {}
    function = None
    for tag, length, body in _records(path, data):
        if tag == FUNCTION and body:
            (function,) = struct.unpack_from(">I", body)
        elif tag == ARC_COUNTERS and function is not None:
            halves = struct.iter_unpack(">II", body)
            counted = tuple(low | high << 32 for low, high in halves)
            counts[function] = counted or (0,) * (-length // 8)
    return counts


def _records(path: Path, data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = HEADER
    while at < len(data) and data[at : at + 4] != bytes(4):
        if at + 8 > len(data):
            raise UsageError(f"{path.name} is cut")
        tag, length = struct.unpack_from(">Ii", data, at)
        body = data[at + 8 : at + 8 + max(length, 0)]
        if len(body) < length:
            raise UsageError(f"{path.name} is cut")
        yield tag, length, body
        at += 8 + len(body)


def arc_increments(directory: Path) -> int:
    """Return how often gcc's counters count, in all files below a directory.

    Raises UsageError if there is no such file, or one cannot be read.
    """
    files = sorted(directory.rglob(f"*{SUFFIX}"))
    if not files:
        raise UsageError("the program wrote no counters of gcc's")
    return sum(sum(counts) for file in files for counts in arc_counts(file).values())
