"""What a run shows of the program that its file does not: code and transfers of control.

These are values. The next round recovers its graphs with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from simprof.profiler.engine.walk import Missing, MissingEntry, MissingReturn, MissingTarget
from simprof.profiler.recovery.code_image import build_code_image
from simprof.profiler.recovery.recovery import START_UP, Discoveries, RecoveredProgram, read_words
from simprof.profiler.session.world import World
from simprof.simulator.machine.codewatch import LoadedCode
from simprof.simulator.machine.running import RunResult


def late_words(world: World) -> Discoveries:
    """Return the words of code that the program writes while it starts, if it writes any.

    To find them, the program is run up to the first use of such code; nothing is counted.
    """
    spans = build_code_image(world.program).deferred
    if not spans:
        return Discoveries()
    words: frozenset[tuple[int, int]] = frozenset()

    def on_late_code() -> None:
        nonlocal words
        words = read_words(machine.read, spans)
        machine.stop_soon(0)

    machine = world.machine(on_late_code=on_late_code)
    machine.stop_soon(START_UP)
    machine.run()
    machine.close()
    return Discoveries(late_words=words)


def scout(world: World) -> tuple[Discoveries, RunResult]:
    """Run a dynamically linked program to see what it loads, and which stubs are bound to what.

    Nothing is counted: most of a program's code is in libraries, and graphs of all of it are
    needed before anything can be. Also return how the run ended.
    """
    machine = world.machine()
    result = machine.run()
    loaded = machine.loaded
    machine.close()
    return _everything(loaded), result


def loaded_code(recovered: RecoveredProgram, loaded: LoadedCode) -> Discoveries:
    """Return what a dynamically linked program has loaded, if its graphs lack some of that."""
    code = recovered.code
    known = loaded.modules.issubset(recovered.program.modules) and all(
        code.find_version(address, words) is not None for address, words in loaded.blocks
    )
    return Discoveries() if known else _everything(loaded)


def _everything(loaded: LoadedCode) -> Discoveries:
    return Discoveries(late_words=loaded.late_words, modules=loaded.modules, earlier=loaded.earlier)


def discoveries_of(
    recovered: RecoveredProgram,
    missing: Collection[Missing],
    read: Callable[[int, int], bytes],
) -> Discoveries:
    """Return what a run did that its graphs do not contain.

    If the run came into code that the program itself had written, only the words of that code are
    returned. As long as they are unknown, control seems to enter routines in places where it does
    not, so what else the graphs lack is left to the next run.

    Parameters
    ----------
    recovered
        The graphs.
    missing
        What they lacked in the run.
    read
        (address, size in bytes) -> the program's memory as the run left it.
    """
    entries = {s.address for s in missing if isinstance(s, MissingEntry) and not s.behind}
    targets = {(s.jump, s.target) for s in missing if isinstance(s, MissingTarget)}
    returning = {step.call for step in missing if isinstance(step, MissingReturn)}
    reached = entries | {target for _, target in targets}
    late = [s for s in recovered.code.deferred if any(a in s for a in reached)]
    if late and not recovered.knows_late_words:
        return Discoveries(late_words=read_words(read, late))
    return Discoveries(frozenset(targets), frozenset(entries), frozenset(returning))
