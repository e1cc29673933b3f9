"""What `engine` says of Unicorn's C interface is what the Python package says."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import Any

import pytest
import unicorn
from unicorn import sparc_const, unicorn_const

from simprof.simulator.cpu import engine
from simprof.simulator.errors import EngineError

NAMES = [name for name in vars(engine) if name.startswith("UC_")]


def test_numbers_are_those_of_the_package() -> None:
    expected = {
        name: getattr(unicorn_const, name, None) or getattr(sparc_const, name) for name in NAMES
    }
    assert {name: getattr(engine, name) for name in NAMES} == expected
    assert len(NAMES) > 20


def test_registers_and_memory_are_those_of_the_package() -> None:
    one = engine.Engine()
    package: Any = unicorn  # its type hints are incomplete
    mode = package.UC_MODE_SPARC64 | package.UC_MODE_BIG_ENDIAN
    other = package.Uc(package.UC_ARCH_SPARC, mode)
    for name in ("G1", "G7", "O0", "O5", "L3", "I2"):
        number = getattr(sparc_const, f"UC_SPARC_REG_{name}")
        one.set_register(number, number << 40)
        other.reg_write(number, number << 40)
        assert one.register(number) == other.reg_read(number)
    saved, context = one.context(), other.context_save()
    assert saved is not None
    assert len(saved) == context.size


def test_errors_have_the_engines_own_words() -> None:
    one = engine.Engine()
    with pytest.raises(engine.UnicornError, match="Invalid argument") as caught:
        one.map(1, 1, 0)
    assert caught.value.number == unicorn_const.UC_ERR_ARG


def test_an_engine_is_closed_with_its_object(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    monkeypatch.setattr(engine.library, "uc_close", closed.append)
    one = engine.Engine()
    handle = one.handle
    del one
    assert closed == [handle]


def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", lacks)
    with pytest.raises(OSError, match=r"libunicorn"):  # it is there: something else is wrong
        engine._load()
    monkeypatch.setattr(os.path, "exists", lambda _: False)
    with pytest.raises(EngineError, match=r"cannot be loaded: install unicorn 2\.1"):
        engine._load()


def test_the_package_is_not_imported() -> None:
    code = "import sys; from simprof.simulator.cpu import cpu; sys.exit('unicorn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
