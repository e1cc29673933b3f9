"""Files mapped MAP_SHARED: what each mapping, each descriptor and the file itself show."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.simulator.binary.elf import load
from simprof.simulator.linux.files import Host
from simprof.simulator.linux.outside import RecordingHost, ReplayHost
from simprof.simulator.machine.machine import Machine
from tests.conftest import EMULATORS

SOURCE = Path(__file__).parents[2] / "programs" / "mapped.c"


@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("width", ["v9", "v8plus"])
def test_it_is_as_under_qemu(compile_c: Callable[..., Path], width: str, tmp_path: Path) -> None:
    program = compile_c(SOURCE, ("-O1",), width)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    expected = subprocess.run(
        [EMULATORS[width], program], cwd=theirs, capture_output=True, check=True
    )
    output = bytearray()
    host = Host(ours, program=program, writable=ours, stdin=b"", stdout=output, stderr=output)
    recording = RecordingHost(host)
    result = Machine(load(program), host=recording).run()
    assert (result.status, bytes(output).decode()) == (0, expected.stdout.decode())
    assert (ours / "file").read_bytes() == (theirs / "file").read_bytes()
    again = Machine(load(program), host=ReplayHost(recording.log)).run()
    assert again.ended_like(result)
