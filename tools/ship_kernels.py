"""Write the shared libraries of the kernels, one for each kind of machine, and what they fit.

    python tools/ship_kernels.py [--check]

Does nothing where what is there was made from the sources as they are. --check only says whether it
was (exit status 1 if not). The same sources, numba, LLVM and linker give the same bytes.

Steps -> functions
1. have numba compile all C functions, and bring them to one module   `whole_module`
2. have LLVM write it for any processor of a kind                     `object_file`
3. link it                                                            `link`

All kinds of machines are 64-bit and little-endian with the same layout of data, and numba's code
calls nothing that only one of them has: one module is written for each of them, on any of them.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from simprof.profiler.profiles.output import replace
from simprof.simulator.cpu import compiled, library

MACHINES = ("aarch64", "x86_64")
# numba's variables for code that any processor of this kind can execute. Strings are in the order
# of their hashes in sets that numba goes through; machine code is to be the same each time.
VARIABLES = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "PYTHONHASHSEED": "0"}
LINKER = "ld.lld"
NATIVE = re.compile(
    r"^ *@(\w+\.)?(c_function|hook_part|kernel)\b|= compiled\.for_python\(|\bc_function\(_", re.M
)
NOT_COMPILED = {
    "simulator/binary/program.py": "an address's page, whose size SPARC's ABI says",
    "simulator/cpu/library.py": "the library itself",
    "simulator/errors.py": "Python's exceptions",
    "simulator/stopping.py": "Python's exceptions and signals",
}
"""Imported by modules with native code; what is compiled in is not theirs, or never changes."""
FROM_C = ("memset",)
"""What kernels call of the C library, which every process has: the library names none."""


def main(arguments: Sequence[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if all(map(library.is_made, MACHINES)):
        return 0
    if arguments:
        print("kernels have changed: run `make kernels`", file=sys.stderr)
        return 1
    if shutil.which(LINKER) is None:
        print(f"make kernels: {LINKER} is missing: `apt install lld`", file=sys.stderr)
        return 1
    if not VARIABLES.items() <= os.environ.items():
        kept = {name: value for name, value in os.environ.items() if name[:6] != "NUMBA_"}
        os.execve(sys.executable, [sys.executable, *sys.argv], kept | VARIABLES)
    digests = {}
    names, module, owners = whole_module()
    for machine in MACHINES:
        file = library.file(machine)
        replace(file, link(object_file(module, machine)), mode=0o644)
        digests[file] = library.digest_of(file)
        print(f"{file.name}: {file.stat().st_size:,} bytes, {names} functions")
    digests |= {path: library.digest_of(path) for path in sources(owners)}
    lines = [f"{digest}  {path.relative_to(library.ROOT)}\n" for path, digest in digests.items()]
    replace(library.SUMS, "".join((f"# {compiler()}\n", *lines)).encode(), mode=0o644)
    return 0


def native_modules() -> list[str]:
    """Return the names of all modules that have C functions."""
    paths = [
        path for part in ("profiler", "simulator") for path in (library.ROOT / part).rglob("*.py")
    ]
    found = sorted(path for path in paths if NATIVE.search(path.read_text()))
    return [
        ".".join(("simprof", *path.relative_to(library.ROOT).with_suffix("").parts))
        for path in found
    ]


def sources(modules: Iterable[str]) -> list[Path]:
    """Return the files of modules, and of those that they import: their numbers are constants."""
    found = set()
    for module in modules:
        own = _file(module)
        found.add(own)
        for node in ast.walk(ast.parse(own.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("simprof."):
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                found |= {_file(str(name)) for name in names}
    left_out = {library.ROOT / name for name in NOT_COMPILED}
    return sorted(path for path in found - left_out if path.is_file())


def _file(module: str) -> Path:
    return library.ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")


def compiler() -> str:
    """Return the versions of what compiles and links here, and the machine it is done on."""
    import llvmlite
    import numba

    done = subprocess.run([LINKER, "--version"], capture_output=True, text=True, check=True)
    versions = f"numba {numba.__version__}, llvmlite {llvmlite.__version__}, {done.stdout.strip()}"
    return f"{versions}, {library.MACHINE}"


def whole_module() -> tuple[int, Any, set[str]]:
    """Return how many C functions there are, LLVM's module of all, and whose parts are in it."""
    compiled.compile_here()
    for name in native_modules():
        importlib.import_module(name)
    functions, owners = compiled.compile_all()
    return len(functions), join(functions), owners


def join(functions: dict[str, Any]) -> Any:
    """Return one module with what numba has compiled, in which C functions have these names."""
    whole: Any = None
    for name, function in functions.items():
        module = function._library._get_module_for_linking().clone()
        symbol = module.get_function(function.native_name)
        symbol.linkage, symbol.name = "external", name
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    for value in (*whole.functions, *whole.global_variables):
        if not value.is_declaration and value.linkage.name not in ("internal", "private"):
            value.visibility = "default" if value.name in functions else "hidden"
    define_missing(whole)
    return whole


def define_missing(whole: Any) -> None:
    """Define what numba's code names of its run-time: it is for errors that kernels do not make."""
    from llvmlite import binding

    missing = [each.name for each in whole.functions if each.is_declaration]
    own = [name for name in missing if not name.startswith("llvm.") and name not in FROM_C]
    text = "declare void @llvm.trap()\n"
    for name in own:
        text += f'define hidden void @"{name}"() {{ call void @llvm.trap() unreachable }}\n'
    for variable in whole.global_variables:
        if variable.is_declaration:
            text += f'@"{variable.name}" = hidden global i64 0\n'
    whole.link_in(binding.parse_assembly(text))


def object_file(module: Any, machine: str) -> bytes:
    """Return the object file of a module for any processor of a kind."""
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    triple = f"{machine}-unknown-linux-gnu"
    writer = binding.Target.from_triple(triple).create_target_machine(
        cpu=VARIABLES["NUMBA_CPU_NAME"], opt=3, reloc="pic", codemodel="small"
    )
    module = module.clone()  # LLVM changes what it writes
    module.triple, module.data_layout = triple, str(writer.target_data)
    return bytes(writer.emit_object(module))


def link(code: bytes) -> bytes:
    """Return the shared library of an object file: it needs no other one."""
    with tempfile.TemporaryDirectory() as directory:
        source, made = Path(directory, "kernels.o"), Path(directory, "kernels.so")
        source.write_bytes(code)
        options = ["-shared", "--gc-sections", "--strip-all", "-z", "noexecstack", "-z", "relro"]
        subprocess.run([LINKER, *options, "-o", made, source], check=True)
        return made.read_bytes()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
