"""Programs that stress control flow, compiled in many ways: simprof against qemu-user's log.

Small programs of `tests/programs/exact` run in both widths, those with a C library in one of them.
Where one jumps out of activations,
the log has stack pointers too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.graphs.cfg import ENTRIES, EdgeKind
from tests.oracles.exact import check_against_qemu, simulate
from tests.support.exact_programs import (
    ENDINGS,
    LANGUAGES,
    LONG,
    PROGRAMS,
    QUICK,
    Build,
)
from tests.support.turns import first

LEFT_OUT = (
    *("stale.c v8plus", "switching.c v8plus", "calling.c v9", "jumping.c v9"),
    *("raising.cc v8plus", "unwinding.cc", "jumping.c v8plus"),
)
"""Programs with a C library that the other width has, and two that `test_call_tree.py` has."""
CASES = [how for how in QUICK if not str(how).startswith(LEFT_OUT)] + [*ENDINGS[::9], LONG[0]]


def check(compile_c: Callable[..., Path], directory: Path, how: Build) -> None:
    """Compile and compare."""
    source = PROGRAMS / how.source
    language = LANGUAGES[source.suffix]
    program = compile_c(source, (*how.flags, "-lm"), width=how.width, language=language)
    check_against_qemu(
        program, how.arguments, directory=directory, stack_pointers=how.stack_pointers
    )


@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("how", first(4, CASES), ids=str)
def test_program_is_exact(compile_c: Callable[..., Path], tmp_path: Path, how: Build) -> None:
    check(compile_c, tmp_path, how)


@pytest.mark.toolchain
@pytest.mark.qemu
def test_jump_to_a_label_behind_a_call_is_no_longjmp(
    compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    """The labels of `interpreter` are where its calls return; the jump stays an edge."""
    program = compile_c(PROGRAMS / "odd.S", ("-nostdlib",), width="v9", language="asm")
    found = check_against_qemu(program, directory=tmp_path)
    (events,) = [e for e in found.observation.events.values() if e.cfg.name == "interpreter"]
    assert events.activations == 5
    assert sum(events.early.values()) == 0
    assert len([e for e in events.cfg.edges if e.kind is EdgeKind.SWITCH]) == 4


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("width", first(1, ["v9", "v8plus"]))
def test_program_resumed_elsewhere_after_faults(
    compile_c: Callable[..., Path], tmp_path: Path, width: str
) -> None:
    """Handlers skip instructions, go to labels and callers, or mend the cause; slots included."""
    program = compile_c(PROGRAMS / "resuming.c", ("-O1", "-fno-pic", "-no-pie"), width=width)
    found = check_against_qemu(program, directory=tmp_path, stack_pointers=True)
    by_name = {e.cfg.name: e for e in found.observation.events.values()}
    assert sum(by_name["deeper"].early.values()) == 0  # the caller of all that faults
    assert sum(by_name["slot_of_return"].early.values()) == 0  # the return has executed
    # Where the handler steps over an instruction, its block goes on without it.
    (cut,) = (e for e in by_name["slot_of_annulled"].cut)
    assert (cut.executed, cut.count, by_name["slot_of_annulled"].entered) == (0, 3, 12)
    assert sum(by_name["slot_of_annulled"].early.values()) == 0


@pytest.mark.long
@pytest.mark.toolchain
def test_handler_may_change_npc_alone(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    program = compile_c(PROGRAMS / "resuming.c", ("-O1", "-fno-pic", "-no-pie"), width="v9")
    found = simulate(program, ["5"], directory=tmp_path)
    by_name = {e.cfg.name: e for e in found.observation.events.values()}
    labelled = by_name["labelled"]  # called 6 times, and 5 times more at the label
    assert (labelled.entered, labelled.activations, sum(labelled.early.values())) == (6, 11, 5)
    kinds = [edge.kind for edge in labelled.cfg.edges if edge.kind in ENTRIES]
    assert sorted(kinds) == ["entry", "re-entry"]
    assert sum(by_name["deeper"].early.values()) == 0
