"""Targets that read what runs have left: traces, recordings, counters, what a cache keeps."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from tools.fuzzing import commands, corpus
from tools.fuzzing.framed import mutate_counters, mutate_frames
from tools.fuzzing.mutation import mutate_bytes
from tools.fuzzing.worker import Target

PROGRAM = "tests/corpora/recovery/v9.elf"


def read_trace(data: bytes, where: Path) -> Hashable:
    """Regenerate an execution, with call paths and checks or without."""
    path = where / "trace"
    path.write_bytes(data)
    ways = ((), ("--check",), ("--call-paths", "5"), ("-o", where / "blocks"))
    return commands.run(("read", *ways[commands.chosen(data, len(ways))], path))


def read_recording(data: bytes, where: Path) -> Hashable:
    """Read all of a recording: what the program was given, and each answer that it got."""
    from simprof.profiler.request.request import GuestOptions, RunRequest
    from simprof.profiler.session.recordings import recorded_request
    from simprof.profiler.trace.recording_format import Recording

    path = where / "recording"
    path.write_bytes(data)
    recording = Recording(path)
    recorded_request(RunRequest(Path(PROGRAM), GuestOptions(where)), recording)
    log, offset = recording.log(), 0
    for _ in range(min(len(log), 1000)):
        _, offset = log.read(offset)
    return len(log)


def read_counters(data: bytes, where: Path) -> Hashable:
    """Make a profile of what an instrumented program has counted."""
    path = where / "counters"
    path.write_bytes(data)
    twice = (path,) if commands.chosen(data, 4) == 0 else ()
    return commands.run(("read", path, *twice, "-o", where / "profile"))


def read_cache(data: bytes, where: Path) -> Hashable:
    """Use a cache whose files are all like this one: it must be as if there were none."""
    from simprof.profiler.profiles.cache_files import CacheFiles
    from simprof.profiler.recovery.recovery import Discoveries
    from simprof.profiler.session.memory import BinaryMemory
    from simprof.simulator.binary import elf

    class Damaged(CacheFiles):
        """Every name is of the same file."""

        def read(self, name: str) -> bytes | None:
            path = self.directory / name
            path.write_bytes(data)
            return super().read(name)

    program = elf.load(PROGRAM)
    memory = BinaryMemory(program, Damaged(where))
    assert memory.graphs(Discoveries()) is None, "damaged graphs were taken"
    assert not list(where.iterdir()), "a damaged file stays"
    return None


TARGETS = (
    Target("trace", "traces, and the executions that they tell", read_trace, mutate_frames(False),
           commands.prepare, example=corpus.reader("trace", "seed-witness")),
    Target("recording", "recorded runs", read_recording, mutate_frames(True),
           commands.prepare, example=corpus.reader("recording", "seed")),
    Target("counters", "counter files of instrumented programs", read_counters, mutate_counters,
           commands.prepare, example=corpus.reader("counters", "seed-pp")),
    Target("cache", "files of the cache, damaged: never noticed", read_cache, mutate_bytes,
           commands.prepare),
)  # fmt: skip
