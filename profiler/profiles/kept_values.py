"""Values of simprof's own classes as bytes of a cache, and back.

They are pickles, and a pickle can name any function of any module, to be called when it is read.
The reader here knows value classes alone (frozen dataclasses, named tuples, enums) of the modules
that are listed, each by its exact name, besides Python's containers and numbers. Arrays come back
through functions of this module: numpy's own believe whatever flags a pickle names. All else is
refused.

This is the second guard. What is kept is first of all read only where nobody else may have written
it (`cache_files`), since graphs and operations decide what native code does.
"""

from __future__ import annotations

import array
import copyreg
import importlib
import io
import pickle
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

MODULES = frozenset(
    {
        "simprof.profiler.code.layout",
        "simprof.profiler.code.pricing",
        "simprof.profiler.engine.states",
        "simprof.profiler.engine.walk",
        "simprof.profiler.graphs.cfg",
        "simprof.profiler.graphs.contraction",
        "simprof.profiler.graphs.dag",
        "simprof.profiler.graphs.numbering",
        "simprof.profiler.graphs.loops",
        "simprof.profiler.graphs.packed",
        "simprof.profiler.graphs.spanning",
        "simprof.profiler.plan.actions",
        "simprof.profiler.plan.placement",
        "simprof.profiler.plan.plan",
        "simprof.profiler.recovery.recovery",
        "simprof.profiler.session.kept_lines",
        "simprof.profiler.session.memory",
        "simprof.simulator.binary.program",
    }
)
"""Whose values are kept, besides plans: those are of the modules below `SCHEMES`."""
SCHEMES = "simprof.profiler.schemes."
_KINDS = frozenset(np.dtype(f"{order}{kind}").str for order in "<>" for kind in "?bBhHiIqQfd")
_LEFT_OUT = "left out"


def dumps(value: object, left_out: object = None) -> bytes:
    """Return a value as bytes.

    Parameters
    ----------
    left_out
        An object in it that is not kept; None: everything is.
    """
    file = io.BytesIO()
    (_Writer(file) if left_out is None else _LeavingOut(file, left_out)).dump(value)
    return file.getvalue()


def loads(data: bytes, left_out: object = None) -> Any:
    """Return the value that `dumps` has made bytes of, None if these are others'.

    Parameters
    ----------
    left_out
        What to put where an object was left out.
    """
    try:
        return _Reader(data, left_out).load()
    except Exception:  # whatever is wrong with it: nothing is known then
        return None


def array_of(kind: str, shape: tuple[int, ...], data: bytes) -> npt.NDArray[Any]:
    """Return the array of a kind of numbers that `data` holds; raises ValueError if it cannot."""
    if kind not in _KINDS:
        raise ValueError(f"no kind of numbers: {kind!r}")
    return np.frombuffer(data, kind).reshape(shape).copy()


def words_of(kind: str, data: bytes) -> array.array[Any]:
    """Return Python's array of a kind of numbers that `data` holds."""
    return array.array(kind, data)


class _Writer(pickle.Pickler):
    dispatch_table = copyreg.dispatch_table | {
        np.ndarray: lambda value: (array_of, (value.dtype.str, value.shape, value.tobytes())),
        array.array: lambda value: (words_of, (value.typecode, value.tobytes())),
    }

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)


class _LeavingOut(_Writer):
    """Asks about each object, which takes time."""

    def __init__(self, file: io.BytesIO, left_out: object) -> None:
        super().__init__(file)
        self._left_out = left_out

    def persistent_id(self, value: object) -> str | None:
        """Return what stands for the object that is left out; None for all else."""
        return _LEFT_OUT if value is self._left_out else None


class _Reader(pickle.Unpickler):
    def __init__(self, data: bytes, left_out: object) -> None:
        super().__init__(io.BytesIO(data))
        self._left_out = left_out

    def persistent_load(self, name: object) -> object:
        """Return the object that was left out."""
        return self._left_out

    def find_class(self, module: str, name: str) -> Any:
        """Return a value class, or what makes arrays; nothing else has a name."""
        if module == __name__ and name in ("array_of", "words_of"):
            return globals()[name]
        if module in MODULES or module.startswith(SCHEMES):
            found = vars(importlib.import_module(module)).get(name)
            if _is_value_class(found, module, name):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no class of values")


def _is_value_class(found: object, module: str, name: str) -> bool:
    """Whether `found` is a class of immutable values that a module itself defines by this name."""
    if not isinstance(found, type) or (found.__module__, found.__qualname__) != (module, name):
        return False
    if is_dataclass(found):
        return bool(found.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    return issubclass(found, Enum) or (issubclass(found, tuple) and hasattr(found, "_fields"))
