"""No command needs numba: their kernels are a shared library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simprof.profiler.schemes import registry
from simprof.simulator.cpu import library
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(
    not library.file().exists(), reason="there is no library for this machine"
)
REFUSED = "raise ImportError('no command may import this')\n"
ANSWER = "answer"
PROGRAM = """
import shlex, sys
from simprof.profiler.cli import run
for line in sys.stdin.read().splitlines():
    print(flush=True); print("answer", line, run(shlex.split(line)))
for name in ("numba", "llvmlite"):
    assert name not in sys.modules, name
"""
ELF = ROOT / "fixtures" / "bin" / "v9"
# Recordings, traces and profiles lie in the test's directory.
COMMANDS = f"""
doctor
run --call-tree {ELF}/nonlocal.elf
run --mode=witness --self-check -o witness.simprof {ELF}/calls.elf
run --mode=pp --self-check {ROOT}/fixtures/bin/v8plus/nonlocal.elf
run --mode=edges {ELF}/signals.elf
compare --call-tree {ELF}/calls.elf
record -o calls.run {ELF}/calls.elf
run --replay=calls.run --mode=pp
compare --replay=calls.run
show witness.simprof
export --format=csv witness.simprof -o exported
cfg {ELF}/switches.elf
cfg --format=json -o graphs.json {ELF}/switches.elf
verify --mode=pp,witness --on=emulator {ELF}/calls.elf
instrument --mode=witness -o traced.elf {ELF}/calls.elf
run traced.elf
sweep --suite=micro --benchmark=sieve --mode=pp,qpt2 -o sweep.db --jobs=2
table epp1 --suite=micro --benchmark=sieve
"""


@pytest.mark.long
def test_no_command_imports_numba(tmp_path: Path) -> None:
    refused = tmp_path / "refused"
    refused.mkdir()
    for name in ("numba", "llvmlite"):
        (refused / f"{name}.py").write_text(REFUSED)
    modes = [f"run --mode={mode} {ELF}/calls.elf" for mode in registry.modes()]
    asked = [*modes, *COMMANDS.strip().splitlines()]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=os.environ
        | {
            "PYTHONPATH": f"{refused}:{ROOT}",
            "HOME": str(tmp_path),
            "XDG_CACHE_HOME": str(tmp_path),
        },
        input="".join(f"{line}\n" for line in asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [line for line in done.stdout.splitlines() if line.startswith(f"{ANSWER} ")]
    # 4: the program has left activations as its routines do not return.
    assert [line for line in answers if line[-1] not in "04"] == []
    assert len(answers) == len(asked)
