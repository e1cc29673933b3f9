"""An instrumented program: what to instrument, its file, and all that is known of it beforehand.

    Basis (graphs, and what a run has shown) -> Order (for one scheme)
    copies of routines -> code of the segment -> room for it -> file

The counters of routines in `Order.first` come first, in this order, then those of all others: a run
prices the routines that it entered, and equal addresses make equal code.

`instrument_file` is `simprof instrument`. With arguments for the program, it is run first: graphs
then have what only a run shows (where computed jumps lead), and guided schemes their edge profile.
The run's heap begins where that of the instrumented program will.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from simprof.profiler.code.context import ProgramContexts
from simprof.profiler.code.layout import STACK_REGISTERS
from simprof.profiler.code.registers import members
from simprof.profiler.code.snippets import RoutineCode
from simprof.profiler.plan.decoders import Plan
from simprof.profiler.profiles.profile import ProgramInfo
from simprof.profiler.recovery.calls import all_second_returns
from simprof.profiler.recovery.recovery import Discoveries, Known, ProgramGraphs, recover
from simprof.profiler.recovery.selection import SelectedRoutines
from simprof.profiler.request.request import (
    ALL_ROUTINES,
    NO_SCHEME,
    Phase,
    ProgressCallback,
    RunRequest,
    Selection,
    Setting,
    report_progress,
)
from simprof.profiler.rewriting.calls import acts_on_signals
from simprof.profiler.rewriting.draft import CallPlaces
from simprof.profiler.rewriting.elsewhere import counter_file, recipe, runtime
from simprof.profiler.rewriting.elsewhere.memory import PlacedPlan, placed, program_memory
from simprof.profiler.rewriting.jumps import shared_targets
from simprof.profiler.rewriting.program import (
    Copies,
    Rewritten,
    copy_routines,
    place_program,
    program_items,
    size_of,
)
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.definition import ProfileKind
from simprof.profiler.schemes.registry import definition
from simprof.profiler.session import scheme_runs
from simprof.profiler.session.observation import ending
from simprof.profiler.session.session import observe
from simprof.profiler.trace.format import discovery_fields
from simprof.simulator.binary import elf
from simprof.simulator.binary.elf_writer import HEADER_ROOM, extend, find_room, heap_start
from simprof.simulator.binary.program import Platform, Program
from simprof.simulator.errors import RewritingError, UsageError
from simprof.simulator.isa.assembler import Item, Label, Register, assign_labels


class Basis(Struct, frozen=True, dict=True):
    """A program as it is known before it is instrumented, whatever the scheme."""

    recovered: ProgramGraphs  # Its graphs
    selection: Selection = ALL_ROUTINES  # The routines that are instrumented
    # What the graphs rest on beside the program's file
    discoveries: Discoveries = field(default_factory=Discoveries)
    # Routines that a run has entered. Their counters come first, as where a run is measured.
    entered: Sequence[int] = ()
    # edge_counts, path_counts: Those of the run, which guide schemes that need a profile; None:
    # there was no run, or no such scheme.
    edge_counts: scheme_runs.EdgeCounts | None = None
    path_counts: scheme_runs.PathCounts | None = None
    known: Known = field(default_factory=Known)  # What recoveries of the program have found

    @cached_property
    def contexts(self) -> ProgramContexts:
        """What code generation knows of its routines."""
        return ProgramContexts(self.recovered)

    @cached_property
    def calls(self) -> CallPlaces:
        """Where its calls must stay."""
        return CallPlaces(self.recovered, self.contexts)

    def order(self, setting: Setting) -> Order:
        """Return the order for one scheme; SimulatorError if a saved profile cannot be read, or a
        selection names what is not there.
        """
        if registry.beginning(setting.mode, setting.options):
            raise UsageError(
                f"{setting.name}: a program is instrumented before its run begins: save the edge "
                "profile with `simprof run --max-instructions N -o FILE`, and give --edge-profile"
            )
        profiles = scheme_runs.saved_profiles(self.recovered.program.sha256)
        graphs = scheme_runs.Graphs(self.recovered, self.selection)
        planner = scheme_runs.Planner(setting, profiles, self.edge_counts, self.path_counts)

        def plan(number: int) -> Plan | None:
            cfg = graphs(number)
            return None if cfg is None else planner.make(cfg)

        options, edge_counts, path_counts, weights = setting.options, None, None, None
        saved = None if (file := options.edge_profile) is None else profiles(file)
        match definition(setting.mode).guided:
            case ProfileKind.EDGES:
                edge_counts = (
                    self.edge_counts if saved is None else scheme_runs.EdgeCounts.saved(saved)
                )
            case ProfileKind.PATHS:
                path_counts = self.path_counts if saved is None else saved.path_counts_for
        if isinstance(options.weights, Path):
            weights = scheme_runs.EdgeCounts.saved(profiles(options.weights))
        return Order(
            self,
            setting,
            plan,
            [number for number in self.entered if graphs(number) is not None],
            recipe.counts_of(self.recovered, edge_counts),
            recipe.paths_of(self.recovered, path_counts),
            recipe.counts_of(self.recovered, weights),
            planner.unit_flow,
        )


class Order(Struct, frozen=True):
    """What is to be instrumented."""

    basis: Basis  # The program
    setting: Setting  # The scheme with its options
    # Routine number -> its plan; None where nothing is to be counted.
    plan: Callable[[int], Plan | None]
    first: Sequence[int] = ()  # Routines whose counters come first
    # edge_counts, path_counts, weights: Those that guide plans, by routine number
    # (`counter_file.CounterRecipe`).
    edge_counts: counter_file.Counts = field(default_factory=dict)
    path_counts: counter_file.CountedPaths = field(default_factory=dict)
    weights: counter_file.Counts = field(default_factory=dict)
    unit_flow: int | None = None  # What guides plans beside them (`PlanOrder.unit_flow`)


_CALL = ".call."
_TOLD = 64  # routines after which progress is told
_CALL_ENTRY = 32  # bytes that the address of a call takes in the header, at most


class Instrumented(Struct, frozen=True):
    """An instrumented program."""

    program: ProgramInfo  # What was instrumented
    file: bytes  # The ELF file
    # The routines' copies, and the routines that were left alone
    copies: Copies
    # codes, placed: Routine number -> its code, and its plan with the places of its counters; of
    # routines that were not left alone.
    codes: Mapping[int, RoutineCode]
    placed: Mapping[int, PlacedPlan]
    memory: runtime.StartMemory  # What the program maps, and what of that it writes
    rewritten: Rewritten  # Where everything is
    # The names of the routines that were left alone, and why each was
    left_names: tuple[tuple[str, str], ...] = ()
    # Registers that the program keeps values in across calls: no added code uses them.
    carried: tuple[Register, ...] = ()


def instrument(
    order: Order, original: bytes, progress: ProgressCallback | None = None
) -> Instrumented:
    """Write the program of `order` with the code of its scheme.

    Raises RewritingError if it cannot be done: no room, code that the program can write to, already
    done.
    Raises UsageError if the counters do not fit their memory.
    """
    # progress: Is told what is being done.
    recovered, scheme = order.basis.recovered, registry.definition(order.setting.mode)
    program = recovered.program
    if program.load_bias:
        # only the kernel decides where it is, and copies have old addresses as constants, where
        # code reads the program counter, for example
        raise RewritingError(
            f"{program.path}: is position-independent: link it for one address (-no-pie)"
        )
    _refuse_writable_code(program)
    codes, plans = _codes(order, progress)
    report_progress(progress, Phase.COPYING)
    shown = order.basis.discoveries.indirect_targets
    # where the graphs have the targets of jumps, copies test whether these lead elsewhere
    calls = order.basis.calls
    copies = copy_routines(recovered, order.basis.contexts, codes, calls, shown)
    kept = {number: plan for number, plan in plans.items() if number not in copies.left}
    if any(plan.plan.addresses for plan in plans.values()):
        raise UsageError(
            f"{order.setting.name}: instrumented programs write one file of trace: instrument "
            "without addresses"
        )
    buffer, trace = scheme.code().stream, None
    if buffer is not None and any(plan.plan.buffers for plan in plans.values()):
        trace = runtime.Stream(buffer, packed=_calls(buffer.packing, codes.values()))
    memory = replace(
        program_memory(plans),
        trace=trace,
        auxiliary=runtime.original_auxiliary(program),
        signals=not acts_on_signals(recovered, copies.left),
    )

    report_progress(progress, Phase.LINKING)
    front = program_items(recovered, copies, scheme.code().routines)
    left = tuple(number for number in plans if number in copies.left)

    def end(copied: recipe.CopiedCalls) -> Sequence[Item]:
        """Return the run-time, given where the calls are that the counter file's header names."""
        head = _header(order, plans, memory.dumped, copied, left)
        return runtime.runtime_items(program.machine, memory, head)

    without = end({})
    base = _room(program, front, size_of(without)) + HEADER_ROOM
    labels = assign_labels(front, base)
    calls_of = ((address, name.rpartition(_CALL)) for name, address in labels.items())
    last = end({address: int(old, 16) for address, (_, call, old) in calls_of if call})
    labels |= assign_labels(last, base + size_of(front))
    rewritten = place_program(copies, [*front, *last], base, labels, program.entry)
    file = extend(
        original,
        program,
        rewritten.patches,
        base - HEADER_ROOM,
        bytes(HEADER_ROOM) + rewritten.code,
        rewritten.labels[runtime.START],
        _symbols(recovered, copies, rewritten),
        heap_start(program),
    )
    codes = {number: code for number, code in codes.items() if number in kept}
    chosen = SelectedRoutines(recovered, order.basis.selection).takes
    names = tuple(
        (recovered.routines[number].name, reason)
        for number, reason in sorted(copies.left.items())
        if chosen(recovered.routines[number])
    )
    carried = tuple(members(order.basis.contexts.carried, tuple(Register)))
    return Instrumented(
        ProgramInfo(
            str(program.path), program.sha256, program.machine, (), len(recovered.routines)
        ),
        file,
        copies,
        codes,
        kept,
        memory,
        rewritten,
        names,
        carried,
    )


def _refuse_writable_code(program: Program) -> None:
    """Refuse programs with routines in a segment that can be written to.

    Code there may change while the program runs, or be data, too. The stubs of static programs,
    which their start-up writes, are no routines: nothing is named there, and no program begins so.
    """
    functions = (symbol.address for symbol in program.symbols if symbol.is_function)
    for address in (program.entry, *functions):
        if any(address in span for span in program.late_code):
            raise RewritingError(
                f"{program.path}: the program can write to its code at {address:#x}: "
                "link it with read-only code (no -N, no writable section with code)"
            )


def _header(
    order: Order,
    plans: Mapping[int, PlacedPlan],
    regions: Sequence[counter_file.FileRegion],
    copies: recipe.CopiedCalls,
    left: tuple[int, ...],
) -> bytes:
    program, setting = order.basis.recovered.program, order.setting
    return counter_file.CounterRecipe(
        program=counter_file.InstrumentedProgram(
            str(program.path), program.sha256, program.machine
        ),
        mode=setting.mode,
        options=recipe.option_fields(setting.options),
        regions=tuple(regions),
        discoveries=discovery_fields(order.basis.discoveries),
        routines=tuple(plans),
        edge_counts=order.edge_counts,
        path_counts=order.path_counts,
        weights=order.weights,
        unit_flow=order.unit_flow,
        copies=tuple(sorted(copies.items())),
        # only the code told how many words the path registers need beside the stack
        words={
            number: plan.layout.words
            for number, plan in plans.items()
            if plan.layout.words != max(plan.plan.registers - STACK_REGISTERS, 0)
        },
        left=left,
        trace=registry.definition(setting.mode).code().stream is not None,
    ).header()


def _room(program: Program, front: Sequence[Item], rest: int) -> int:
    """Return where the segment goes; `rest`: bytes behind `front`, without where calls are."""
    calls = sum(isinstance(item, Label) and _CALL in item.name for item in front)
    size = size_of(front) + rest + _CALL_ENTRY * (calls + 1)
    room = find_room(program, HEADER_ROOM + size)
    if room is None:
        raise RewritingError(
            f"{program.path}: its code is too large for copies of its routines to be in reach: "
            "select fewer routines with --routine"
        )
    return room


def _codes(
    order: Order, progress: ProgressCallback | None
) -> tuple[dict[int, RoutineCode], dict[int, PlacedPlan]]:
    """Generate the code of all routines that are planned."""
    scheme = registry.definition(order.setting.mode)
    pricer = registry.pricer(scheme.mode, order.setting.options)
    codes: dict[int, RoutineCode] = {}
    plans: dict[int, PlacedPlan] = {}
    total = len(order.basis.recovered.routines)
    for number in dict.fromkeys((*order.first, *range(total))):
        if len(codes) % _TOLD == 0:
            report_progress(progress, Phase.GENERATING, len(codes), total)
        plan = order.plan(number)
        if plan is None:
            continue
        cfg = order.basis.recovered.routines[number]
        codes[number] = pricer.code(cfg, plan.plan, plan.weights, order.basis.contexts.of(number))
        plans[number] = placed(scheme, plan, codes[number].layout)
    return codes, plans


def _calls(symbol: str, codes: Iterable[RoutineCode]) -> bool:
    """Whether code calls a run-time routine."""
    return any(
        instruction.fixup is not None and instruction.fixup.symbol == symbol
        for code in codes
        for snippets in (code.snippets, code.block_snippets, code.block_end_snippets)
        for snippet in snippets.values()
        for instruction in snippet.instructions
    )


def _symbols(recovered: ProgramGraphs, copies: Copies, rewritten: Rewritten) -> dict[str, int]:
    """Return names of the copies, for debuggers and listings."""
    names = {}
    for number, copy in copies.routines.items():
        cfg = recovered.routines[number]
        if cfg.address in copy.entries:
            label, _ = copy.entries[cfg.address]
            names[f"{cfg.name}.simprof"] = rewritten.labels[label]
    return names


def load_rewritable(path: Path) -> Program:
    """Read a program that is to be rewritten.

    Raises ProgramFileError: see `elf.load`.
    Raises RewritingError if it is not for Linux: the code that sets counters up and writes them
    makes system calls.
    """
    program = elf.load(path)
    if program.platform is not Platform.LINUX:
        raise RewritingError(
            f"{path}: a program for {program.platform} cannot be instrumented, since counters are "
            "written by Linux: measure it with `simprof run` or `simprof compare`"
        )
    return program


def instrument_file(
    file: Path, setting: Setting, selection: Selection, progress: ProgressCallback | None = None
) -> Instrumented:
    """Return a program with the code of a scheme in its place; SimulatorError if it cannot be done,
    and why.
    """
    original = content_of(file)
    with collected_later():
        order = basis_without_run(file, selection, progress).order(setting)
        return instrument(order, original, progress)


def basis_without_run(
    file: Path, selection: Selection = ALL_ROUTINES, progress: ProgressCallback | None = None
) -> Basis:
    """Return a program as its file alone shows it; parameters and errors as above.

    All places to which a call may return a second time are entries: what lands there must find the
    scheme's registers as at the beginning of an activation.
    """
    program, known = load_rewritable(file), Known()
    told = partial(report_progress, progress, Phase.RECOVERING)
    told()
    recovered = recover(program, known=known, told=told)
    expected = Discoveries(entries=all_second_returns(recovered))
    if expected.entries:
        recovered = recover(program, expected, known, told)
    return Basis(recovered, selection, expected, known=known)


def content_of(file: Path) -> bytes:
    """Return what is in a file; `UsageError` if it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read ({error.strerror}): name a readable file"
        ) from None


def instrument_after_run(request: RunRequest) -> Instrumented:
    """Return a program with the code of the request's scheme, made with what a run of it shows;
    SimulatorError if it cannot be done, and why; also if the run does not come to an end by itself.
    """
    original = content_of(request.program)
    order = basis_after_run(request, (request.setting,)).order(request.setting)
    with collected_later():
        return instrument(order, original, request.progress)


def basis_after_run(request: RunRequest, settings: Sequence[Setting]) -> Basis:
    """Return a program as its file and a run of it show it; errors as above.

    `settings`: The schemes that the run may have to guide. The request's scheme is not read.
    """
    without = basis_without_run(request.program, progress=request.progress)
    guest = replace(request.guest, heap_start=heap_start(without.recovered.program))
    request = replace(request, guest=guest)
    # all routines of the run: a selection may leave out some of those that are counted first
    guides = scheme_runs.judges(
        [each for each in settings if scheme_runs.needs_path_counts((each,))]
    )
    schemes = (NO_SCHEME, *guides)
    known = without.known
    observation = observe(request, schemes, without.discoveries, known=known)
    seen = shared_targets(observation.program, observation.discoveries, known)
    if seen != observation.discoveries:
        observation = observe(request, schemes, seen, known=known)
    result = observation.result
    if result.is_cut_short:
        from simprof.profiler.reports.run_text import ending_text

        how = ending_text(ending(observation, result))
        raise UsageError(
            f"{request.program}: the run did not come to its own end ({how}): "
            "instrument with a shorter one, or without one"
        )
    return Basis(
        observation.recovered,
        request.selection,
        observation.discoveries,
        tuple(observation.events),
        observation.edge_counts,
        observation.path_counts if guides else None,
        known,
    )


@contextmanager
def collected_later() -> Iterator[None]:
    """Have Python look for cyclic garbage only after the `with` block.

    It looks the more often the more objects are made, and at all of them. The instructions of a
    program's copies are millions, all in use, and looking at them took a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
