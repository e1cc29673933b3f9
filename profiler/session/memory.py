"""What earlier runs of a binary have shown, kept in the user's cache.

All of it depends on the program's file and on simprof's code alone, or is checked:

- *Graphs* are a function of the file and of discoveries. A run that finds its graphs here recovers
  nothing.
- *Plans* are a function of graphs and a setting, and where a profile guides them, of its
  counts, whose digest is kept with each.
- *Products*, what the schemes of a run do along the segments that were executed, are a function of
  the same for all of its schemes, and of the profile that guides the choice of segments.
- *Costs* of the code of routines are a function of the same, and of where the counters are, which
  is kept with each, too.

So no result depends on what is in the cache.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from simprof.profiler.code.pricing import KnownCosts
from simprof.profiler.engine.products import KeptProduct
from simprof.profiler.graphs.cfg import ControlFlowGraph
from simprof.profiler.graphs.loops import depth_first
from simprof.profiler.plan.decoders import Plan
from simprof.profiler.profiles import cache_files
from simprof.profiler.profiles.cache_files import CacheFiles
from simprof.profiler.profiles.fingerprint import fingerprint
from simprof.profiler.recovery.code_image import build_code_image
from simprof.profiler.recovery.kept import from_bytes, to_bytes
from simprof.profiler.recovery.recovery import Discoveries, Known, ProgramGraphs, recover
from simprof.profiler.request.request import Setting
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes import registry
from simprof.profiler.session.scheme_runs import (
    KeptProducts,
    KnownPlans,
    ProductName,
    plan_name,
)
from simprof.simulator.binary.program import Program

if TYPE_CHECKING:
    from simprof.profiler.code.context import ProgramContexts

Kept = TypeVar("Kept")

_SHORT = 16


class BinaryMemory:
    """What is known of one program; `files`: where it is kept. None: nowhere, nothing is known."""

    def __init__(self, program: Program, files: CacheFiles | None) -> None:
        self.program, self._files = program, files
        # The graphs that the file alone gives, once they are asked for ahead of any run
        self._ahead: ProgramGraphs | None = None
        self._contexts: tuple[ProgramGraphs, ProgramContexts] | None = None  # Those asked for last
        # Costs that have been handed out, which sessions add to: by the name under which they are
        # kept
        self._lent: dict[str, KnownCosts] = {}
        # Those that were read or kept, for each run asks for them
        self._of_routines: dict[str, Mapping[Any, bytes]] = {}

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
        data = self._files.read(self._name(_graphs_of(discoveries)))
        if data is None:
            return None
        program = program or self.program
        return from_bytes(data, program, build_code_image(program, discoveries.late_words))

    def keep_graphs(self, recovered: ProgramGraphs, discoveries: Discoveries) -> None:
        """Keep graphs that rest on some discoveries."""
        if self._files is not None:
            self._files.write(self._name(_graphs_of(discoveries)), to_bytes(recovered))

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
            recovered = recover(program or self.program, discoveries, known, told)
            self.keep_graphs(recovered, discoveries)
        return recovered

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

    def contexts(self, recovered: ProgramGraphs) -> ProgramContexts:
        """Return what code generation knows of the routines of some graphs."""
        from simprof.profiler.code.context import ProgramContexts  # not where all prices are known

        if self._contexts is None or self._contexts[0] is not recovered:
            self._contexts = recovered, ProgramContexts(recovered)
        return self._contexts[1]

    def forget(self, routine: int) -> None:
        """Let go of what is known of a routine's code."""
        if self._contexts is not None:  # else nobody has asked for any
            self._contexts[1].forget(routine)

    def plans(self, discoveries: Discoveries, setting: Setting) -> KnownPlans:
        """Return what plans of the graphs are known under a setting."""
        if not _decides(setting):
            return {}
        return self._load_of_routines(_made_for("plans", discoveries, setting))

    def keep_plans(
        self,
        discoveries: Discoveries,
        setting: Setting,
        plans: Iterable[tuple[ControlFlowGraph, Plan]],
    ) -> None:
        """Keep plans of graphs under a setting."""
        # They are read one by one, when a routine is first entered: that takes a fifth of the time
        # to make one. A plan's graph is not among what is kept: plans refer to the one that the
        # session has. Of a routine's plans under several edge profiles the last one is kept.
        if self._files is None or not _decides(setting):
            return
        before = self.plans(discoveries, setting)
        named = ((plan_name(cfg, plan.guide), cfg, plan) for cfg, plan in plans)
        more = {n: cache_files.dumps(plan, cfg) for n, cfg, plan in named if n not in before}
        self._keep_of_routines(_made_for("plans", discoveries, setting), more)

    def products(
        self, discoveries: Discoveries, settings: Sequence[Setting]
    ) -> KeptProducts | None:
        """Return what schemes did together in routines, if that is kept; None: it is not kept."""
        if self._files is None or not all(map(_decides, settings)):
            return None
        of = f"{'+'.join(setting.mode for setting in settings)}-{_digest(settings)}"
        return KeptProducts(of, self._load_of_routines(_products_of(discoveries, of)))

    def keep_products(
        self,
        discoveries: Discoveries,
        of: str,
        products: Iterable[tuple[ProductName, KeptProduct]],
    ) -> None:
        """Keep what schemes did together in routines; `of`: as in `KeptProducts`."""
        more = {name: cache_files.dumps(product) for name, product in products}
        self._keep_of_routines(_products_of(discoveries, of), more)

    def costs(self, discoveries: Discoveries, setting: Setting) -> KnownCosts:
        """Return what the code of routines costs under a setting, as far as that is known."""
        if not _decides(setting) or self._files is None:
            return KnownCosts()
        name = _made_for("costs", discoveries, setting)
        costs = self._lent[name] = KnownCosts(self._load(name, dict), keeps=True)
        return costs

    def keep_learnt(self) -> None:
        """Keep what a session has added to the costs that it was given."""
        for name, lent in self._lent.items():
            if lent.has_grown:
                self._keep(name, lent.everything)

    def _name(self, what: str) -> str:
        # `fingerprint` stands for simprof's code: files of another version are not found, and make
        # room when they have not been used for long.
        program = self.program
        name = re.sub(r"[^A-Za-z0-9_+-]", "_", Path(program.path).name)[:_SHORT]
        return f"{name}.{program.sha256[:_SHORT]}.{fingerprint()}.{what}"

    def _load(self, what: str, kind: type[Kept]) -> Kept | None:
        data = None if self._files is None else self._files.read(self._name(what))
        kept = None if data is None else cache_files.loads(data)
        if not isinstance(kept, tuple) or len(kept) != 2:
            return None
        return kept[1] if kept[0] == self.program.sha256 and isinstance(kept[1], kind) else None

    def _load_of_routines(self, what: str) -> Mapping[Any, bytes]:
        """Return what is kept by names that begin with the address and the name of a routine."""
        if what not in self._of_routines:
            found = self._load(what, dict) or {}
            self._of_routines[what] = found if set(map(type, found)) <= {tuple} else {}
        return self._of_routines[what]

    def _keep_of_routines(self, what: str, more: Mapping[Any, bytes]) -> None:
        """Keep more under such names; of what there was of the same routines nothing is left."""
        if more:
            again = {name[:2] for name in more}
            before = self._load_of_routines(what).items()
            rest = {name: data for name, data in before if name[:2] not in again}
            self._of_routines[what] = {**rest, **more}
            self._keep(what, self._of_routines[what])

    def _keep(self, what: str, value: object) -> None:
        if self._files is not None:
            data = cache_files.dumps((self.program.sha256, value))
            self._files.write(self._name(what), data)


def _graphs_of(discoveries: Discoveries, what: str = "graphs") -> str:
    names = ["indirect_targets", "entries", "returning_calls", "late_words"]
    names += ("modules", "earlier") if discoveries.modules else ()
    names += ("reentries",) if discoveries.reentries else ()
    return f"{what}-{_digest([sorted(getattr(discoveries, name)) for name in names])}"


def _decides(setting: Setting) -> bool:
    """Whether graphs, a setting, and the counts that guide it decide what code there is."""
    # So do saved profiles that give weights, and other distributions' code.
    own = registry.definition(setting.mode) in registry.OWN
    return own and isinstance(setting.options.weights, Weights)


def _made_for(what: str, discoveries: Discoveries, setting: Setting) -> str:
    """Return the name of what is made of graphs under a setting."""
    return f"{what}-{setting.mode}-{_digest([_graphs_of(discoveries), setting])}"


def _products_of(discoveries: Discoveries, of: str) -> str:
    return f"products-{of}-{_digest(_graphs_of(discoveries))}"


def _digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=_SHORT // 2).hexdigest()
