"""What poll says of files and pipes: as under qemu-user, which asks the host's Linux."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.simulator.binary.elf import load
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from tests.conftest import EMULATORS

SOURCE = Path(__file__).parents[2] / "programs" / "polled.c"


@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize("width", ["v9", "v8plus"])
def test_it_is_as_under_qemu(compile_c: Callable[..., Path], width: str, tmp_path: Path) -> None:
    program = compile_c(SOURCE, ("-O1",), width)
    run = [EMULATORS[width], str(program)]
    expected = subprocess.run(run, cwd=tmp_path, capture_output=True, check=True).stdout
    output = bytearray()
    host = Host(
        tmp_path, program=program, writable=tmp_path, stdin=b"", stdout=output, stderr=output
    )
    assert Machine(load(program), host=host).run().status == 0
    assert output.decode().splitlines() == expected.decode().splitlines()
