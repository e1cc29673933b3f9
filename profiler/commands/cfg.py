"""`simprof cfg`: show the recovered control-flow graphs, or routines with generated code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simprof.profiler.commands import modes, options, outputs
from simprof.profiler.commands.help import in_sections
from simprof.profiler.commands.progress import ready_engine
from simprof.profiler.request.request import Phase, Selection, Setting
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.mode_options import ModeSetting
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    from simprof.profiler.recovery.recovery import ProgramGraphs

FORMATS = ("text", "dot", "graphml", "json")


SECTIONS = {
    "Which routines": ("routines", "exclude", "user_only"),
    "What is shown, and how": ("form", "output", "code", "weights"),
}


@click.command("cfg", cls=in_sections(SECTIONS))
@click.argument("elf", type=options.PATH)
@options.selection_options("Show")
@options.choice_option("--format", "form", FORMATS, "text", "Output format.")
@options.output_option("FILE", "Write there, not to stdout.")
@click.option(
    "--code",
    type=modes.OneMode(planned=True),
    multiple=True,
    callback=modes.one_mode,
    metavar=modes.METAVAR,
    help="Show routines as SPARC assembly with the instrumentation code of a mode in place, and "
    "what each piece costs, and the run-time routines that it calls. Counters lie as in a run that "
    "executes these routines only. See the options below; they are those of `simprof run`.",
)
@click.option(
    "--weights",
    type=options.weights,
    default=Weights.HEURISTIC,
    metavar=options.WEIGHTS,
    help="Edge-frequency estimates that guide the code, or a saved profile.",
)
@options.debug_dir_option
@options.progress_option
@modes.scheme_options("saved profile (`simprof run -o`) that guides it; needed.")
def cfg_command(
    elf: Path,
    routines: tuple[str, ...],
    exclude: tuple[str, ...],
    user_only: bool,
    form: str,
    output: Path | None,
    code: ModeSetting | None,
    progress: bool | None,
    **scheme: Any,
) -> int:
    """Show the control-flow graphs of the SPARC program ELF, recovered from its code alone."""
    outputs.check_outputs(output, inputs=(elf, scheme["edge_profile"]))
    if code is not None and form != "text":
        raise UsageError(f"--code is shown as text only: leave out --format {form}")
    modes.refuse_unused([] if code is None else [code.mode])
    definition = None if code is None else registry.definition(code.mode)
    if definition is not None and definition.guided and scheme["edge_profile"] is None:
        raise UsageError(f"{definition.mode} {modes.guide_lacks(definition)}")
    from simprof.profiler.commands.progress import phase_bar
    from simprof.profiler.recovery.recovery import recover
    from simprof.profiler.reports.display import UNFOLDED
    from simprof.simulator.binary.elf import load_own

    ready_engine(progress)
    with phase_bar(progress, Phase.RECOVERING) as told:
        recovered = recover(load_own(elf), told=told)
    selected = select(recovered, Selection(routines, exclude, user_only))
    shown = partial(render, recovered, selected, form)
    if code is not None:
        setting = code.setting(modes.collect(scheme, scheme["weights"]))
        shown = partial(render_code, recovered, selected, setting)
    outputs.show(lambda width, _: shown(width), output, UNFOLDED)
    return 0


def render_code(
    recovered: ProgramGraphs, selected: Mapping[int, str | None], setting: Setting, width: int
) -> str:
    """Return routines with their instrumentation code in place, and run-time routines it calls."""
    from simprof.profiler.code.context import ProgramContexts
    from simprof.profiler.code.emission import emit
    from simprof.profiler.reports import code_text
    from simprof.profiler.session.scheme_runs import Planner, saved_profiles

    planner = Planner(setting, saved_profiles(recovered.program.sha256))
    mode = setting.mode
    contexts, pricer = ProgramContexts(recovered), registry.pricer(mode, setting.options)
    shown = []
    for number, alias in selected.items():
        cfg, context = recovered.routines[number], contexts.of(number)
        planned = planner.make(cfg)
        plan = planned.plan
        code = pricer.code(cfg, plan, planned.weights, context)
        for body in filter(None, (code, code.copy)):
            parts = body, emit(cfg, context, body), alias, body is code.copy
            shown.append(code_text.InstrumentedRoutine(number, plan, *parts))
    runtime = code_text.render_runtime(
        recovered.program.machine,
        code_text.called_routines(shown),
        registry.definition(mode).code().routines,
    )
    return "\n".join(filter(None, (code_text.render(recovered, mode, shown, width), runtime)))


def select(recovered: ProgramGraphs, selection: Selection) -> dict[int, str | None]:
    """Return the positions of the routines that a selection takes.

    With each comes the alias by which it was selected, None where that is its own name. Raises
    UsageError if the selection does not fit the program.
    """
    from simprof.profiler.recovery.selection import SelectedRoutines

    selected = SelectedRoutines(recovered, selection)
    return {
        position: selected.alias(graph)
        for position, graph in enumerate(recovered.routines)
        if selected.takes(graph)
    }


def render(
    recovered: ProgramGraphs, selected: Mapping[int, str | None], form: str, width: int
) -> str:
    """Return the graphs of the routines at positions `selected` in one of the formats."""
    from simprof.profiler.reports import cfg_formats

    renderers: dict[str, Callable[[ProgramGraphs, Sequence[int]], str]] = {
        "text": partial(cfg_formats.render_text, width=width, aliases=selected),
        "dot": cfg_formats.render_dot,
        "graphml": cfg_formats.render_graphml,
        "json": cfg_formats.render_json,
    }
    return renderers[form](recovered, tuple(selected))
