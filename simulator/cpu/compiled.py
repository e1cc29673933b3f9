"""Native functions: those of the shared library, or what numba compiles in this process.

Modules of native code take everything from here: `types`, `ir`, `intrinsic`, `jit`, `inline`,
`c_function`, `for_python` and `kernel`. What the engine and Python call are C functions alone.
Where the shared library fits (`library`) they are loaded from it, and nobody imports numba: `types`
and `ir` then stand for nothing, and bodies are not read. Otherwise numba compiles each C function
when it is first needed, and keeps it in a cache of its own. Tests always have it compile the parts
of C functions, which they call, too (`compile_here`); the C functions are those of the library.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, wraps
from inspect import isfunction
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from simprof.simulator.cpu import library
from simprof.simulator.errors import EngineError

P = ParamSpec("P")
T = TypeVar("T")


class Nothing:
    """Stands for numba's types and llvmlite's where the library is loaded: nobody looks at it."""

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
        """Address of its machine code, which is loaded or compiled now."""
        return _address(self._name)

    @cached_property
    def _function(self) -> Callable[..., int]:
        words = [ctypes.c_int64] * (self.arguments + 1)
        return ctypes.PYFUNCTYPE(*words)(self.address)

    def __call__(self, *arguments: int) -> int:
        """Call it."""
        return self._function(*arguments)


class _State:
    is_here: bool | None = None  # None: not decided yet
    is_asked: bool = False  # whether it was decided by `compile_here`, for want of nothing
    directory: Path | None = None  # where numba keeps what it makes
    tell: Callable[[str], None] | None = None
    # By the name of a C function: what has numba compile it, in this process; kernels in Python.
    compilers: dict[str, Callable[[], Any]] = {}  # noqa: RUF012 - one for the process
    kernels: dict[str, Callable[..., Any]] = {}  # noqa: RUF012 - one for the process
    natives: dict[Callable[..., Any], CFunction] = {}  # noqa: RUF012 - by kernel in Python
    registered: set[Callable[..., Any]] = set()  # noqa: RUF012 - which numba may compile
    compiled: list[Any] = []  # noqa: RUF012 - kept, for their machine code is freed with them


def compile_here(directory: Path | None = None) -> None:
    """Have numba compile native functions in this process, so that Python can call all of them.

    C functions that a library has which fits are its own still. `directory`: Where numba keeps what
    it makes; None: nowhere. To be called first.
    """
    _State.is_here, _State.is_asked, _State.directory = not is_plain(), True, directory


def is_here() -> bool:
    """Whether numba compiles native functions in this process."""
    if _State.is_here is None:
        _State.is_here = not is_plain() and not library.fits()
        _State.directory = _own_cache() if _State.is_here else None
    return _State.is_here


def is_plain() -> bool:
    """Whether functions that are parts of others stay Python's (NUMBA_DISABLE_JIT=1)."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def on_compiling(tell: Callable[[str], None]) -> None:
    """Have `tell` be told, once, that kernels are compiled because no library fits."""
    _State.tell = None if _State.is_asked else tell


def cache_directory() -> Path | None:
    """Return where numba keeps what it compiles; None: nowhere."""
    return _State.directory if is_here() else None


def _own_cache() -> Path | None:
    # What is kept is executed: nobody else may write there. Constants come from other modules than
    # the one that numba looks at, so that each state of the sources has its own directory.
    from numba.misc import appdirs

    untyped: Any = appdirs
    directory = Path(untyped.user_cache_dir("simprof"), "kernels", library.digest())
    with suppress(OSError):
        directory.mkdir(0o700, parents=True, exist_ok=True)
        status = directory.stat()
        if directory.is_absolute() and status.st_uid == os.geteuid() and not status.st_mode & 0o22:
            return directory
    return None


def _address(name: str) -> int:
    if not is_here():
        # Parts are Python's as they are now, so that C functions of before do for them.
        if not (library.is_whole() if is_plain() else library.fits()):
            raise EngineError("no library of kernels fits: unset NUMBA_DISABLE_JIT to compile them")
        return library.address(name)
    if _State.is_asked and library.fits() and library.has(name):
        return library.address(name)
    if _State.tell is not None:
        _State.tell("compiling kernels: no library fits this machine and these sources")
        _State.tell = None
    made = _State.compilers[name]()
    _State.compiled.append(made)
    return cast(int, made.address)


def compile_all() -> tuple[dict[str, Any], set[str]]:
    """Have numba compile all C functions of modules imported so far.

    Returns them by name, and the names of the modules that their parts are in.
    """
    made = {name: compile_it() for name, compile_it in _State.compilers.items()}
    owners = {name.rpartition(".")[0] for name in made}
    return made, owners | {each.__module__ for each in _State.registered}


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


# -- Kernels on arrays
#
# A kernel is a function that Python can execute, too. Its parameters are arrays, named tuples of
# arrays, and integers, and their annotations say of what: one of these names, `int`, or the name of
# the tuple's class. Its C function has one parameter: where three words for each array lie (address
# and lengths) and for each integer (its value, twice nothing).

_ELEMENTS = {
    "Bools": ("boolean", 1),
    "Bytes": ("uint8", 1),
    "Words": ("uint32", 1),
    "Ints": ("int32", 1),
    "Longs": ("int64", 1),
    "Reals": ("float64", 1),
    "Table": ("int32", 2),
    "Rows": ("int64", 2),
    "RealRows": ("float64", 2),
}


def kernel(function: Callable[P, int]) -> Callable[P, int]:
    """Make a C function of a kernel, too; see `native` and `call`."""
    name = f"{function.__module__}.{function.__name__}"
    _State.kernels[name] = function
    if is_here():
        _State.compilers[name] = lambda: _compile_kernel(name)
    if not is_plain():
        _State.natives[function] = CFunction(name, 1)
    return function


def native(function: Callable[..., int]) -> CFunction | None:
    """Return the C function of a kernel; None where Python is to execute it."""
    return _State.natives.get(function)


def call(function: Callable[..., int], *arguments: Any) -> int:
    """Call a kernel as machine code, with arrays of numpy."""
    words = array("q", [word for each in arguments for word in _words(each)])
    return _State.natives[function](words.buffer_info()[0])


def run(function: Callable[..., int], *arguments: Any) -> int:
    """Call a kernel: as machine code where that is, else in Python, with Python's own numbers."""
    if native(function) is None:
        return function(*map(_plain, arguments))
    return call(function, *arguments)


def _plain(argument: Any) -> Any:
    if isinstance(argument, tuple):
        return cast(Any, type(argument))(*map(_plain, argument))
    return argument if isinstance(argument, int) else argument.data


def _words(argument: Any) -> Iterator[int]:
    if isinstance(argument, int):
        yield from (argument, 0, 0)
    elif isinstance(argument, tuple):
        for each in argument:
            yield from _words(each)
    else:
        yield from (argument.ctypes.data, *argument.shape, 0)[:3]


def _compile_kernel(name: str) -> Any:
    global _arguments
    function = _State.kernels[name]
    if _arguments is None:
        _arguments = _make_arguments()
    _register(function)

    def at_arguments(at: Any) -> Any:
        return function(*_arguments(at, name))

    options = {"cache": _State.directory is not None, "error_model": "numpy", "_nrt": False}
    types = __getattr__("types")
    return _numba().cfunc(types.int64(types.int64), **options)(at_arguments)


_arguments: Any = None  # (where the words of a kernel's arguments lie, its name) -> the arguments


def _make_arguments() -> Any:
    from llvmlite import ir
    from numba.extending import intrinsic as make

    types: Any = __getattr__("types")
    word = ir.IntType(64)

    def typed(typing_context: Any, at: Any, name: Any) -> Any:
        function = _State.kernels[name.literal_value]
        hints = [hint for key, hint in function.__annotations__.items() if key != "return"]
        result = types.Tuple([_type_of(hint, function.__globals__) for hint in hints])

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            base, taken = builder.inttoptr(values[0], word.as_pointer()), iter(range(1 << 10))

            def take(kind: Any) -> Any:
                if isinstance(kind, types.BaseTuple):
                    return context.make_tuple(builder, kind, [take(each) for each in kind])
                first = 3 * next(taken)
                places = [builder.gep(base, [word(first + number)]) for number in range(3)]
                if kind == types.int64:
                    return builder.load(places[0])
                return _array(context, builder, kind, [builder.load(place) for place in places])

            return take(result)

        return result(at, name), generate

    untyped: Any = make
    return untyped(prefer_literal=True)(typed)


def _type_of(hint: Any, known: dict[str, Any]) -> Any:
    types: Any = __getattr__("types")
    hint = getattr(hint, "__forward_arg__", hint)
    if hint == "int":
        return types.int64
    if hint in _ELEMENTS:
        element, dimensions = _ELEMENTS[hint]
        return types.Array(getattr(types, element), dimensions, "C")
    of = known[hint]
    return types.NamedTuple([_type_of(each, known) for each in of.__annotations__.values()], of)


def _array(context: Any, builder: Any, kind: Any, words: list[Any]) -> Any:
    # numba's own `carray` counts references, which C functions cannot do.
    from numba import types
    from numba.np import arrayobj

    untyped: Any = arrayobj
    made = untyped.make_array(kind)(context, builder)
    size = context.get_constant(
        types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype))
    )
    address, *shape = words[: kind.ndim + 1]
    strides = [size]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length))
    data = builder.inttoptr(address, made.data.type)
    untyped.populate_array(made, data, shape, strides, size, None)
    return made._getvalue()


def _register(function: Any) -> None:
    """Have numba compile a function of Python, and those that its module names, where called."""
    if function in _State.registered or not function.__module__.startswith("simprof."):
        return
    from numba.extending import register_jitable

    untyped: Any = register_jitable
    untyped(function)
    _State.registered.add(function)
    for each in list(function.__globals__.values()):
        if isfunction(each):
            _register(each)


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
