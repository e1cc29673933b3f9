"""Cached graphs of a binary, in the user's cache, and what its jumps and its libraries' lead to.

Graphs are a function of the program's file, of discoveries, and of simprof's code, all of which the
name of what is kept stands for. What jumps lead to is one of each file, whichever program has
loaded it. So no result depends on what is in the cache.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.profiles.cache_files import CacheFiles
from simprof.profiler.profiles.fingerprint import fingerprint
from simprof.profiler.recovery.code_image import build_code_image
from simprof.profiler.recovery.kept import answers_from_bytes, from_bytes, identity, to_bytes
from simprof.profiler.recovery.recovery import Discoveries, Known, ProgramGraphs, recover
from simprof.simulator.binary.program import Program

if TYPE_CHECKING:
    from simprof.profiler.code.context import ProgramContexts
    from simprof.profiler.recovery.jump_tables import Answers

_SHORT = 16


class BinaryMemory:
    """What is known of one program; `files`: where it is kept. None: nowhere, nothing is known."""

    def __init__(self, program: Program, files: CacheFiles | None) -> None:
        self.program, self._files = program, files
        # The graphs that the file alone gives, once they are asked for ahead of any run
        self._ahead: ProgramGraphs | None = None
        self._contexts: tuple[ProgramGraphs, ProgramContexts] | None = None  # Those asked for last
        self._jumps: dict[str, Answers] = {}  # As of `recovery.Known`

    def graphs(
        self, discoveries: Discoveries, program: Program | None = None
    ) -> ProgramGraphs | None:
        """Return the graphs that rest on some discoveries, None if they are not known.

        `program`: With the modules that it loads; None: it is the file alone.
        """
        if self._ahead is not None and discoveries == Discoveries():
            return self._ahead
        if self._files is None:
            return None
        data = self._files.read(_name(self.program, _graphs_of(discoveries)))
        if data is None:
            return None
        program = program or self.program
        return from_bytes(data, program, build_code_image(program, discoveries.late_words))

    def keep_graphs(self, recovered: ProgramGraphs, discoveries: Discoveries) -> None:
        """Keep graphs that rest on some discoveries."""
        if self._files is not None:
            name = _name(self.program, _graphs_of(discoveries))
            self._files.write(name, to_bytes(recovered))

    def recover(
        self,
        discoveries: Discoveries,
        known: Known,
        told: Callable[[int, int], None],
        program: Program | None = None,
    ) -> ProgramGraphs:
        """Return the graphs that rest on some discoveries: those that were kept, or else new ones.

        `known`, `told`: As for `recovery.recover`. `program`: As for `graphs`.
        """
        recovered = self.graphs(discoveries, program)
        if recovered is None:
            with self._known_jumps(program or self.program, known):
                recovered = recover(program or self.program, discoveries, known, told)
            self.keep_graphs(recovered, discoveries)
        return recovered

    @contextmanager
    def _known_jumps(self, program: Program, known: Known) -> Iterator[None]:
        """Let a recovery know what the jumps of each file lead to, and keep what it finds."""
        from simprof.profiler.recovery.jump_tables import files_of

        files = [file for file, _ in files_of(program)]
        for file in files:
            if file.sha256 not in self._jumps:
                kept = self._files.read(_name(file, _jumps_of(file))) if self._files else None
                self._jumps[file.sha256] = answers_from_bytes(kept or b"")
            known.jumps.setdefault(file.sha256, self._jumps[file.sha256])
        before = {each: len(answers) for each, answers in known.jumps.items()}
        yield
        for file in files:
            answers = known.jumps[file.sha256]
            if self._files is not None and len(answers) > before[file.sha256]:
                self._files.write(_name(file, _jumps_of(file)), msgspec.msgpack.encode(answers))

    def recover_ahead(self, told: Callable[[int, int], None]) -> None:
        """Find what the file alone gives: processes that are forked then share it.

        `told`: As for `recovery.recover`. Of a dynamically linked program that is nothing before it
        has been run.
        """
        if not self.program.parts:
            self._ahead = self.recover(Discoveries(), Known(), told)
            # What is found of the whole program in one call comes with one routine.
            first = self._ahead.routines[0]
            depth_first(first)
            self.contexts(self._ahead).of(0).places_of(first)

    def contexts(
        self, recovered: ProgramGraphs, chosen: Iterable[int] | None = None
    ) -> ProgramContexts:
        """Return what code generation knows of the routines of some graphs.

        `chosen`: Those that will be asked for; None: nobody knows.
        """
        from simprof.profiler.code.context import ProgramContexts  # not where all prices are known

        if self._contexts is None or self._contexts[0] is not recovered:
            numbers = None if chosen is None else sorted(chosen)
            self._contexts = recovered, ProgramContexts(recovered, numbers)
        return self._contexts[1]

    def forget(self, routine: int) -> None:
        """Let go of what is known of a routine's code."""
        if self._contexts is not None:  # else nobody has asked for any
            self._contexts[1].forget(routine)


def _name(file: Program, what: str) -> str:
    # `fingerprint` stands for simprof's code: files of another version are not found, and make
    # room when they have not been used for long.
    name = re.sub(r"[^A-Za-z0-9_+-]", "_", Path(file.path).name)[:_SHORT]
    return f"{name}.{file.sha256[:_SHORT]}.{fingerprint()}.{what}"


def _graphs_of(discoveries: Discoveries) -> str:
    names = ["indirect_targets", "entries", "returning_calls", "late_words"]
    names += ("modules", "earlier") if discoveries.modules else ()
    names += ("reentries",) if discoveries.reentries else ()
    return f"graphs-{_digest([sorted(getattr(discoveries, name)) for name in names])}"


def _jumps_of(file: Program) -> str:
    return f"jumps-{_digest(identity(file))}"


def _digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=_SHORT // 2).hexdigest()
