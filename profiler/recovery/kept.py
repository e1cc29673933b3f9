"""The graphs of a program as bytes, and back: arrays in numpy's own form, one after the other.

Nothing is executed when they are read: they are numbers and text, no objects. What is no such file,
or one of another program, is no graphs. So it is with what the jumps of one of its files lead to.
"""

# numpy's .npz would be the same in an archive, whose reading imports twenty modules of Python: more
# time than small programs have for their graphs.

from __future__ import annotations

import io
from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from simprof.profiler.graphs.packed import PackedGraphs
from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.recovery.recovery import ProgramGraphs
from simprof.simulator.binary.program import Program

if TYPE_CHECKING:
    from simprof.profiler.recovery.jump_tables import Answers

# The columns of `PackedGraphs`, by name.
_COLUMNS: dict[str, type[np.generic]] = {
    "addresses": np.int64,
    "sizes": np.int64,
    "first_block": np.int64,
    "first_edge": np.int64,
    "block_start": np.int64,
    "block_length": np.int32,
    "block_is_slot": np.bool_,
    "block_is_indirect": np.bool_,
    "edge_source": np.int32,
    "edge_target": np.int32,
    "edge_kind": np.uint8,
}
_ADDRESSES = ("unresolved_jumps", "no_return_calls", "call_aliases", "irregular")
_TEXTS = ("program", "names", "reasons")
# All arrays, in their order, and what they are of.
_KINDS: dict[str, type[np.generic]] = {
    **_COLUMNS,
    **dict.fromkeys(_ADDRESSES, np.int64),
    **dict.fromkeys(_TEXTS, np.uint8),
}


def to_bytes(recovered: ProgramGraphs) -> bytes:
    """Return what `from_bytes` makes the graphs of."""
    graphs = recovered.arrays
    reasons = dict(recovered.irregular)
    addresses = {name: sorted(getattr(recovered, name)) for name in _ADDRESSES[:-1]}
    addresses["irregular"] = list(reasons)
    arrays: dict[str, Any] = {name: getattr(graphs, name) for name in _COLUMNS}
    arrays |= {name: np.array(each, np.int64) for name, each in addresses.items()}
    arrays["program"], arrays["names"] = _text(identity(recovered.program)), _text(graphs.names)
    arrays["reasons"] = _text(reasons.values())
    file = io.BytesIO()
    for name in _KINDS:
        npy.write_array(file, arrays[name], allow_pickle=False)
    return file.getvalue()


def from_bytes(data: bytes, program: Program, code: CodeImage) -> ProgramGraphs | None:
    """Return the graphs of a program with this code; None: the bytes are not what has them."""
    file = io.BytesIO(data)
    try:
        arrays = {name: npy.read_array(file, allow_pickle=False) for name in _KINDS}
        return _made(arrays, program, code)
    except Exception:  # whatever is wrong with it: numpy's errors are of many kinds
        return None


def _made(
    arrays: dict[str, NDArray[Any]], program: Program, code: CodeImage
) -> ProgramGraphs | None:
    if any(arrays[name].dtype != kind or arrays[name].ndim != 1 for name, kind in _KINDS.items()):
        return None
    if _texts(arrays["program"]) != identity(program):
        return None
    columns: dict[str, Any] = {name: arrays[name] for name in _COLUMNS}
    graphs = PackedGraphs(_texts(arrays["names"]), **columns)
    unresolved, no_return, aliases, irregular = (arrays[name].tolist() for name in _ADDRESSES)
    return ProgramGraphs(
        program=program,
        routines=graphs,
        code=code,
        block_at=graphs.block_index(code.place.indices, len(code.words)),
        first_block=graphs.first_block[:-1],
        unresolved_jumps=tuple(unresolved),
        no_return_calls=frozenset(no_return),
        call_aliases=frozenset(aliases),
        irregular=tuple(zip(irregular, _texts(arrays["reasons"]), strict=True)),
    )


def answers_from_bytes(data: bytes) -> Answers:
    """Return what is known of the jumps of a file: nothing, if the bytes are not what has it."""
    from simprof.profiler.recovery.jump_tables import Answers

    try:
        return msgspec.msgpack.decode(data, type=Answers)
    except msgspec.MsgspecError:
        return {}


def identity(program: Program) -> tuple[str, ...]:
    """Return what graphs depend on: the file, and the symbols that a debug file has."""
    if program.debug_file is None:
        return (program.sha256,)
    return program.sha256, sha256(program.debug_file.read_bytes()).hexdigest()


def _text(words: Iterable[str]) -> NDArray[np.uint8]:
    # names of symbols have no zero bytes
    text = "".join(f"{word}\0" for word in words)
    return np.frombuffer(text.encode("utf-8", "surrogateescape"), np.uint8)


def _texts(array: NDArray[Any]) -> tuple[str, ...]:
    return tuple(array.tobytes().decode("utf-8", "surrogateescape").split("\0")[:-1])
