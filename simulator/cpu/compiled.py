"""Native functions: machine code that is shipped or kept, or what numba compiles in this process.

Modules of native code take everything from here: `types`, `ir`, `intrinsic`, `jit`, `inline`,
`c_function` and `for_python`. What the engine and Python call are C functions alone, and their
machine code is loaded (`machine_code`), so that nobody imports numba. Then `types` and `ir` stand
for nothing, and bodies are not read. Only where machine code is made and in tests does numba
compile in the process that asks for it (`compile_here`).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from simprof.simulator.cpu import machine_code

P = ParamSpec("P")
T = TypeVar("T")


# What makes machine code where none is shipped. It stands above this package, as does where code is
# kept, and is imported only then.
_MAKER = "simprof.profiler.engine.kernel_cache"


class Nothing:
    """Stands for numba's types and llvmlite's where machine code is loaded: nobody looks at it."""

    def __getattr__(self, name: str) -> Nothing:
        return self

    def __call__(self, *arguments: object, **options: object) -> Nothing:
        """Return nothing."""
        return self

    def __mul__(self, times: int) -> tuple[()]:
        return ()


class CFunction:
    """A native function with an address. Python may call those of words of 64 bits only."""

    def __init__(self, name: str, arguments: int) -> None:
        self._name, self.arguments = name, arguments

    @cached_property
    def address(self) -> int:
        """Address of its machine code, which is loaded or compiled now where it is not there."""
        return _address(self._name)

    @cached_property
    def _function(self) -> Callable[..., int]:
        words = [ctypes.c_int64] * (self.arguments + 1)
        return ctypes.PYFUNCTYPE(*words)(self.address)

    def __call__(self, *arguments: int) -> int:
        """Call it."""
        return self._function(*arguments)


class _State:
    # By the name of a C function: where it is; what has numba compile it, in this process.
    addresses: dict[str, int] = {}  # noqa: RUF012 - one for the process
    compilers: dict[str, Callable[[], Any]] = {}  # noqa: RUF012 - one for the process
    compiled: list[Any] = []  # noqa: RUF012 - kept, for their machine code is freed with them
    natives: dict[str, Mapping[str, CFunction]] = {}  # noqa: RUF012 - by module; one for the process
    is_here = False
    directory: Path | None = None
    is_searched = False


def compile_here(directory: Path | None = None) -> None:
    """Have numba compile native functions in this process, so that Python can call all of them.

    `directory`: Where numba keeps what it makes; None: nowhere. To be called first.
    """
    _State.is_here, _State.directory = not is_plain(), directory


def is_here() -> bool:
    """Whether numba compiles native functions in this process."""
    return _State.is_here


def is_plain() -> bool:
    """Whether functions that are parts of others stay Python's (NUMBA_DISABLE_JIT=1)."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def is_at_hand(module: str) -> bool:
    """Whether a module's C functions can be had without compiling anything."""
    _search()
    return is_here() or any(name.startswith(f"{module}.") for name in _State.addresses)


def natives(module: str) -> Mapping[str, CFunction]:
    """Return a module's C functions by name, none where they cannot be had without compiling."""
    known = _State.natives.get(module, {})
    if not known and not is_plain() and is_at_hand(module):
        found = vars(import_module(module)).items()
        known = {name: each for name, each in found if isinstance(each, CFunction)}
        _State.natives[module] = known
    return known


def _search() -> None:
    if not _State.is_searched and not is_here():
        _State.is_searched = True
        code = machine_code.shipped()
        if code is not None:
            _State.addresses |= machine_code.load(code)


def load(code: bytes) -> None:
    """Take C functions from machine code."""
    _State.addresses |= machine_code.load(code)


def _address(name: str) -> int:
    _search()
    if name not in _State.addresses:
        if name in _State.compilers:
            made = _State.compilers[name]()
            _State.compiled.append(made)
            _State.addresses[name] = made.address
        else:
            load(import_module(_MAKER).provide(name.rpartition(".")[0]))
    return _State.addresses[name]


def compilers(module: str) -> dict[str, Callable[[], Any]]:
    """Return what has numba compile the C functions of a module that has been imported, by name."""
    return {
        name: make for name, make in _State.compilers.items() if name.rpartition(".")[0] == module
    }


def _numba() -> Any:
    import numba

    untyped: Any = numba
    if _State.directory is not None:
        untyped.config.CACHE_DIR = str(_State.directory)
    return untyped


def jit(signature: Any = None, **options: Any) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Compile a function for other native code; `options` as of `numba.njit`."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        if not is_here():
            return function if is_plain() else _uncalled(function)
        given = () if signature is None else (signature,)
        kept = _State.directory is not None
        settings = {"cache": kept, "error_model": "numpy", **options}
        return cast(Callable[P, T], _numba().njit(*given, **settings)(function))

    return decorate


def inline(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function into each of its callers."""
    return jit(inline="always")(function)


def c_function(signature: Any, **options: Any) -> Callable[[Callable[..., Any]], CFunction]:
    """Make a C function; `options` as of `numba.cfunc`."""

    def decorate(function: Callable[..., Any]) -> CFunction:
        name = f"{function.__module__}.{function.__name__}"

        def compile_it() -> Any:
            kept = _State.directory is not None
            return _numba().cfunc(signature, cache=kept, **options)(function)

        if is_here():
            _State.compilers[name] = compile_it
        return CFunction(name, function.__code__.co_argcount)

    return decorate


def for_python(function: Callable[P, T]) -> Callable[P, T]:
    """Return a native function of 64-bit words as Python may call it."""
    if is_plain():
        return function
    types = __getattr__("types")
    body: Any = getattr(function, "py_func", None) or cast(Any, function).__wrapped__
    result = types.void if body.__annotations__["return"] == "None" else types.int64
    signature = result(*[types.int64] * body.__code__.co_argcount)
    return cast(Callable[P, T], c_function(signature, error_model="numpy")(body))


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that writes its own LLVM code (numba's `intrinsic`, which has no type)."""
    if not is_here():
        return _uncalled(function)
    from numba.extending import intrinsic as make

    untyped: Any = make
    return untyped(function)  # type: ignore[no-any-return]


def call_at(address: Any, *arguments: Any, result: Any = None) -> tuple[Any, Callable[..., Any]]:
    """Return what an intrinsic returns that calls the C function at its first argument."""
    # All types are those of integers; `result` is None for a function that returns nothing.
    from llvmlite import ir
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        returned = ir.VoidType() if result is None else ir.IntType(result.bitwidth)
        kind = ir.FunctionType(returned, [ir.IntType(each.bitwidth) for each in arguments])
        made = builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])
        return context.get_dummy_value() if result is None else made

    return (types.void if result is None else result)(address, *arguments), generate


def element_at(bits: int, is_set: bool) -> tuple[Any, Callable[..., Any]]:
    """Return what an intrinsic returns that gets or sets element `index` of the array at `base`."""
    # Elements have so many bits; all values are int64.
    from llvmlite import ir
    from numba import types

    word, kind = types.int64, ir.IntType(bits)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = builder.gep(builder.inttoptr(values[0], kind.as_pointer()), [values[1]])
        if is_set:
            builder.store(values[2] if bits == 64 else builder.trunc(values[2], kind), place)
            return context.get_dummy_value()
        value = builder.load(place)
        return value if bits == 64 else builder.zext(value, ir.IntType(64))

    return (types.void(word, word, word) if is_set else word(word, word)), generate


def array_of(kind: Any, dimensions: int = 1) -> Any:
    """Make an intrinsic: (address, lengths) -> the C array there, to which nobody refers."""
    # numba's own `carray` counts references, which C functions cannot do.
    if not is_here():
        return None
    from numba import types
    from numba.np import arrayobj

    untyped: Any = arrayobj
    array, word = types.Array(kind, dimensions, "C"), types.int64

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = untyped.make_array(array)(context, builder)
        size = context.get_abi_sizeof(context.get_data_type(kind))
        address, *shape = arguments
        strides = [context.get_constant(types.intp, size)]
        for length in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], length))
        data = builder.inttoptr(address, made.data.type)
        untyped.populate_array(
            made, data, shape, strides, context.get_constant(types.intp, size), None
        )
        return made._getvalue()

    def one(typing_context: Any, address: Any, length: Any) -> Any:
        return array(word, word), make

    def two(typing_context: Any, address: Any, rows: Any, columns: Any) -> Any:
        return array(word, word, word), make

    return intrinsic(one if dimensions == 1 else two)


def _uncalled(function: Callable[P, T]) -> Callable[P, T]:
    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        raise RuntimeError(f"{function.__name__} is part of machine code: it cannot be called")

    return call


def __getattr__(name: str) -> Any:
    """Return numba's `types` or llvmlite's `ir`, imported only where they are used."""
    if name not in ("types", "ir"):
        raise AttributeError(name)
    if not is_here():
        return Nothing()
    if name == "types":
        from numba import types

        return types
    from llvmlite import ir

    return ir
