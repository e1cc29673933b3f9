"""Native functions: compiled by numba, or taken as the machine code that an earlier process had."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property, wraps
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
_HEAD = struct.Struct("<Q")  # bytes of the JSON in front of the object file
# Directories of other versions of a module's code that are left when a new one is made.
_VERSIONS = 1
_PASS = "numba:run_pass"  # the event of which numba's compiler makes many
_PYTHON = ("Py", "_Py")  # how the names of functions begin that Python itself has


# Modules of native code take everything from here: `types`, `ir`, `intrinsic`, `jit`, `inline`,
# `c_function` and `for_python`. Where machine code has been loaded, `types` and `ir` stand for
# nothing, bodies are not read, and only C functions can be called: Python must call nothing else.
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

    def __init__(self, address: int, arguments: int) -> None:
        self.address, self._arguments = address, arguments

    @cached_property
    def _function(self) -> Callable[..., int]:
        words = [ctypes.c_int64] * (self._arguments + 1)
        return ctypes.PYFUNCTYPE(*words)(self.address)

    def __call__(self, *arguments: int) -> int:
        """Call it."""
        return self._function(*arguments)


class _State:
    addresses: dict[str, int] | None = None
    engine: Any = None
    made: dict[str, Any] = {}  # noqa: RUF012 - one for the process
    may_load = True
    is_dumped = False
    keeps = True
    tell: Callable[[], None] | None = None


def is_loaded() -> bool:
    """Whether native functions are machine code that was loaded."""
    return _State.addresses is not None


def compile_here() -> None:
    """Have this process compile all native functions, so that Python can call each of them."""
    _State.may_load = False


def may_load() -> bool:
    """Whether `load` can be of use: nothing is loaded, and numba has made nothing."""
    return _State.may_load and not is_plain() and not is_loaded() and not _State.made


def may_dump() -> bool:
    """Whether numba has compiled something here that nobody has had as machine code."""
    may = bool(_State.made) and not is_plain() and not is_loaded()
    return may and _State.may_load and not _State.is_dumped


def keep_nothing() -> None:
    """Have numba keep nothing of what it compiles: there is no place that could be trusted."""
    _State.keeps = False


def keeps() -> bool:
    """Whether numba keeps what it compiles."""
    return _State.keeps


def on_compiling(tell: Callable[[], None]) -> None:
    """Have `tell` called once, when numba begins to compile a C function: it is in no cache."""
    _State.tell = tell


@contextmanager
def _watched() -> Iterator[None]:
    if _State.tell is None:
        yield
        return
    from numba.core import event

    events: Any = event

    class Once(event.Listener):
        def on_start(self, event: object) -> None:
            told, _State.tell = _State.tell, None
            if told is not None:
                told()

        def on_end(self, event: object) -> None:
            """Do nothing."""

    with events.install_listener(_PASS, Once()):
        yield


def is_plain() -> bool:
    """Whether numba is switched off (NUMBA_DISABLE_JIT=1)."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def host() -> str:
    """Return for what processor code is compiled here: machine code for another may not run."""
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten()
    return f"{binding.get_process_triple()} {binding.get_host_cpu_name()} {features}"


# Importing numba and having it find what it has compiled takes a quarter of a second, more than a
# small program runs. So what numba has made of all C functions (those with an address: for hooks,
# for pointers in arrays, and for Python) can be had as one object file (`dump`) and be given to a
# later process (`load`), which needs llvmlite alone to link it.
def load(code: bytes) -> None:
    """Take all C functions from machine code, before any module of native code is imported."""
    from llvmlite import binding

    end = _HEAD.size + _HEAD.unpack_from(code)[0]
    head = json.loads(code[_HEAD.size : end])
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    abort = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value
    for name in head["missing"]:  # numba's own, for errors that these functions do not make
        binding.add_symbol(name, abort)
    target = binding.Target.from_default_triple()
    machine = target.create_target_machine(codemodel="jitdefault", jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code[end:]))
    engine.finalize_object()
    symbols = head["symbols"].items()
    _State.engine = engine
    _State.addresses = {name: engine.get_function_address(symbol) for name, symbol in symbols}


def dump() -> bytes:
    """Return the machine code of all C functions that numba has made in this process."""
    libraries = [function._library for function in _State.made.values()]
    symbols = {name: function.native_name for name, function in _State.made.items()}
    whole = None
    for symbol, library in zip(symbols.values(), libraries, strict=True):
        module = library._get_module_for_linking().clone()
        module.get_function(symbol).linkage = "external"
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    if whole is None:
        raise ValueError("numba has compiled nothing")
    known = [each for each in (*whole.functions, *whole.global_variables) if each.is_declaration]
    missing = [each.name for each in known if not each.name.startswith((*_PYTHON, "llvm."))]
    _State.is_dumped = True
    head = json.dumps({"symbols": symbols, "missing": missing}).encode()
    code: bytes = libraries[0].codegen._tm.emit_object(whole)
    return _HEAD.pack(len(head)) + head + code


def jit(signature: Any = None, **options: Any) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Compile a function for other native code, cached on disk; `options` as of `numba.njit`."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        return _uncalled(function) if is_loaded() else by_numba(function, signature, **options)

    return decorate


def by_numba(function: Callable[P, T], signature: Any = None, **options: Any) -> Callable[P, T]:
    """Have numba compile a function, for other native code and for Python, cached on disk."""
    import numba

    make: Any = numba.njit
    given = () if signature is None else (signature,)
    with _kept(function) as is_kept:
        settings = {"cache": is_kept, "error_model": "numpy", **options}
        return cast(Callable[P, T], make(*given, **settings)(function))


def inline(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function into each of its callers."""
    return jit(inline="always")(function)


def c_function(signature: Any, **options: Any) -> Callable[[Callable[..., Any]], CFunction]:
    """Compile a C function, cached on disk; `options` as of `numba.cfunc`."""

    def decorate(function: Callable[..., Any]) -> CFunction:
        name = f"{function.__module__}.{function.__name__}"
        arguments = function.__code__.co_argcount
        if _State.addresses is not None:
            return CFunction(_State.addresses[name], arguments)
        import numba

        make: Any = numba.cfunc
        with _watched(), _kept(function) as is_kept:
            made = make(signature, cache=is_kept, **options)(function)
        _State.made[name] = made
        return CFunction(made.address, arguments)

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


@contextmanager
def _kept(function: Callable[..., Any]) -> Iterator[bool]:
    # Have numba keep what the body makes of a function in `_directory`; yields whether it can.
    if not _State.keeps:
        yield False
        return
    from numba import config

    settings: Any = config
    before = settings.CACHE_DIR
    directory = _directory(function, before)
    settings.CACHE_DIR = str(directory or before)
    try:
        yield directory is not None
    finally:
        settings.CACHE_DIR = before


# numba knows only the file that a function stands in, and would take what it has kept though
# another module has changed whose functions and numbers are compiled into it. So what it keeps lies
# in a directory whose name has a digest of all of that (`_directory`).
def _directory(function: Callable[..., Any], chosen: str) -> Path | None:
    # Return where to keep what a function is compiled to, None if it cannot be kept.
    # `chosen`: numba's directory; empty for that beside the sources.
    module = function.__module__
    beside = Path(function.__code__.co_filename).parent / "__pycache__"
    stem = module.rpartition(".")[2]
    for place in (Path(chosen) if chosen else beside, Path("~/.cache/simprof/kernels")):
        directory = place.expanduser() / f"{stem}-{digest(module)}"
        try:
            if not directory.is_dir():
                directory.parent.mkdir(parents=True, exist_ok=True)
                others = sorted(
                    directory.parent.glob(f"{stem}-{'[0-9a-f]' * 16}"), key=os.path.getmtime
                )
                directory.mkdir(mode=0o755, exist_ok=True)
                for old in others[:-_VERSIONS]:
                    shutil.rmtree(old, ignore_errors=True)
        except OSError:
            continue
        if os.access(directory, os.W_OK):
            return directory
    return None


@cache
def digest(module: str) -> str:
    """Return 16 digits that change with anything that is compiled into a module's functions."""
    # That is the module's file, those of modules of the same package that it names (or whose
    # functions and classes it does), and so on, and all numbers that these modules have: they are
    # constants in machine code.
    package = module.partition(".")[0]
    found: dict[str, bytes] = {}
    due = [module]
    while due:
        name = due.pop()
        if name in found or name not in sys.modules:
            continue
        values = vars(sys.modules[name])
        file = values.get("__file__")
        text = Path(file).read_bytes() if file else b""
        # Addresses differ from process to process, and no native code has one as a constant.
        numbers = sorted(
            (key, int(value))
            for key, value in values.items()
            if isinstance(value, int) and abs(value) < 1 << 32
        )
        found[name] = text + repr(numbers).encode()
        for value in values.values():
            is_module = isinstance(value, ModuleType)
            owner = value.__name__ if is_module else getattr(value, "__module__", None)
            if isinstance(owner, str) and owner.partition(".")[0] == package:
                due.append(owner)
    whole = hashlib.blake2b(repr(sorted(found.items())).encode(), digest_size=8)
    return whole.hexdigest()


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that writes its own LLVM code (numba's `intrinsic`, which has no type)."""
    if is_loaded():
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


def _uncalled(function: Callable[P, T]) -> Callable[P, T]:
    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        raise RuntimeError(f"{function.__name__} is part of machine code: it cannot be called")

    return call


def __getattr__(name: str) -> Any:
    """Return numba's `types` or llvmlite's `ir`, imported only where they are used."""
    if name not in ("types", "ir"):
        raise AttributeError(name)
    if is_loaded():
        return Nothing()
    if name == "types":
        from numba import types

        return types
    from llvmlite import ir

    return ir
