"""Which routines are a program's own, and what selections take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.recovery.recovery import ProgramGraphs, recover
from simprof.profiler.recovery.selection import RoutineNames, SelectedRoutines
from simprof.profiler.request.library_sources import is_library_source
from simprof.profiler.request.request import ALL_ROUTINES, Selection
from simprof.simulator.binary import elf
from simprof.simulator.binary.program import LineTable, Range, SourceLine
from simprof.simulator.errors import UsageError
from tests.support.turns import turns

LIBRARIES = ("/build/glibc-2.36/csu/../csu/libc-start.c", "/usr/include/c++/12/bits/stl_map.h")


@dataclass(frozen=True)
class Lines(LineTable):
    """Source files by the address of a routine."""

    files: Mapping[int, str]

    def find(self, address: int) -> SourceLine | None:
        return SourceLine(self.files[address], 1) if address in self.files else None

    def stretches(self) -> Iterator[tuple[Range, SourceLine]]:
        for address, file in sorted(self.files.items()):
            yield Range(address, address + 4), SourceLine(file, 1)


@pytest.fixture(scope="module")
def recovered(fixture_elf: Callable[..., Path]) -> ProgramGraphs:
    return recover(elf.load(fixture_elf("control")))


def compiled_from(recovered: ProgramGraphs, files: Mapping[str, str]) -> ProgramGraphs:
    """The program as if its routines were compiled from these files, others without `-g`."""
    known = {cfg.address: files[cfg.name] for cfg in recovered.routines if cfg.name in files}
    return replace(recovered, program=replace(recovered.program, lines=Lines(known)))


def taken(recovered: ProgramGraphs, selection: Selection) -> list[str]:
    selected = SelectedRoutines(recovered, selection)
    return [cfg.name for cfg in recovered.routines if selected.takes(cfg)]


@pytest.mark.parametrize(
    ("file", "library"),
    [
        ("/home/me/prog/main.c", False),
        ("src/main.c", False),
        ("./SRC/dgemm.f", False),
        ("/home/me/glibc.c", False),
        ("/home/me/gcc-12/gcc/tree.c", False),
        ("/home/me/include/vector.h", False),
        ("/usr/src/prog/main.c", False),
        ("/home/me/libcompress/io.c", False),
        ("/usr/include/stdlib.h", True),
        ("/usr/sparc64-linux-gnu/include/c++/12/bits/stl_tree.h", True),
        ("/usr/lib/gcc-cross/sparc64-linux-gnu/12/include/stddef.h", True),
        ("/build/glibc-2.36/string/../sysdeps/sparc/memcpy.S", True),
        ("/src/glibc/malloc/malloc.c", True),
        ("/build/gcc-12-12.2.0/libgcc/unwind-dw2.c", True),
        ("../../../src/libgfortran/io/transfer.c", True),
        ("/b/gcc/libstdc++-v3/src/c++98/ios.cc", True),
        ("/b/musl-1.2.3/src/stdio/vfprintf.c", True),
        ("/b/libquadmath/math/expq.c", True),
    ],
)
def test_sources_of_libraries(file: str, library: bool) -> None:
    assert is_library_source(file) is library


def test_own_routines_have_debug_information_and_are_no_librarys(
    recovered: ProgramGraphs,
) -> None:
    names = [cfg.name for cfg in recovered.routines]
    mine, header, library, bare = names[:4]
    files = {mine: "prog.c", header: LIBRARIES[1], library: LIBRARIES[0]}
    program = compiled_from(recovered, files)
    assert bare not in files
    assert taken(program, Selection(user_only=True)) == [mine]
    assert taken(program, ALL_ROUTINES) == names
    assert taken(program, Selection(exclude=(mine,))) == [each for each in names if each != mine]
    with pytest.raises(UsageError, match=r"^no routine of .*control.elf is left: `simprof cfg`"):
        taken(program, Selection(exclude=(mine,), user_only=True))


def test_patterns_are_combined(recovered: ProgramGraphs) -> None:
    names = [cfg.name for cfg in recovered.routines]
    some = [name for name in names if name.startswith("m")]
    assert "main" in some and len(some) > 1
    assert taken(recovered, Selection(("m*",))) == some
    without = [name for name in some if name != "main"]
    assert taken(recovered, Selection(("m*",), ("main",))) == without
    assert taken(recovered, Selection(("m*", "sub_1"), ("main", "sub_2"))) == without


@pytest.mark.toolchain
def test_cpp_functions_have_names_without_types_and_scopes(
    compile_c: Callable[..., Path],
) -> None:
    source = """
    namespace app {
    struct Parser { __attribute__((noinline)) int parse(int x) { return 2 * x; } };
    template<class T> __attribute__((noinline)) T sum(T x) { return x + 1; }
    }
    extern "C" __attribute__((noinline)) int text(int x) { return 3 * x; }
    namespace app { __attribute__((noinline)) int text(int x) { return 4 * x; } }
    int main(int n, char **) {
        return app::Parser().parse(n) + app::sum<long>(n) + text(n) + app::text(n);
    }
    """
    recovered = recover(elf.load(compile_c(source, ("-O1",), language="c++")))
    parse, total = "_ZN3app6Parser5parseEi", "_ZN3app3sumIlEET_S1_"
    for name in ("parse", "Parser::parse", "app::Parser::parse", "app::P*"):
        assert taken(recovered, Selection((name,))) == [parse]
    assert taken(recovered, Selection(("app::sum",))) == taken(recovered, Selection(("sum",)))
    assert taken(recovered, Selection(("sum",))) == [total]
    # a whole name comes before one without scopes, and patterns are of whole names
    assert taken(recovered, Selection(("text",))) == ["text"]
    assert parse not in taken(recovered, Selection(("p*",)))
    assert parse not in taken(recovered, Selection(exclude=("parse",)))
    # what one pattern means says nothing of another
    assert taken(recovered, Selection(("parse",), exclude=("sum",))) == [parse]
    numbers = RoutineNames(recovered.program).named(recovered.arrays, "parse")
    assert [recovered.arrays.names[each] for each in numbers] == [parse]


def test_a_pattern_that_matches_nothing(recovered: ProgramGraphs) -> None:
    for selection in (Selection(("nosuch",)), Selection(exclude=("nosuch",))):
        with pytest.raises(UsageError, match="no routine matches 'nosuch'"):
            SelectedRoutines(recovered, selection)
    tolerant = Selection(exclude=("nosuch",), tolerant=True)
    assert len(taken(recovered, tolerant)) == len(recovered.routines)


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("nosuch", []),
        ("Main", ["main"]),
        ("mian", ["main"]),
        ("_mai*", ["main", "runtime_main"]),
        ("x", []),
    ],
)
def test_names_that_were_meant(recovered: ProgramGraphs, word: str, names: list[str]) -> None:
    found = RoutineNames(recovered.program).like(recovered.arrays, word)
    assert found[: len(names)] == names
    assert bool(found) == bool(names)


def test_a_program_without_debug_information(recovered: ProgramGraphs) -> None:
    with pytest.raises(UsageError) as caught:
        SelectedRoutines(compiled_from(recovered, {}), Selection(user_only=True))
    message = str(caught.value)
    assert "control.elf has no debug information" in message and "\n" not in message
    assert "--exclude" in message


PROGRAMS = {
    "c": (
        "#include <stdio.h>\n#include <stdlib.h>\n"
        "static int order(const void *a, const void *b) { return *(int *)a - *(int *)b; }\n"
        "int main(int n, char **v) { int a[3] = {3, 1, 2}; qsort(a, 3, 4, order);\n"
        '    printf("%d\\n", a[n]); return 0; }\n',
        {"main", "order"},
    ),
    "c++": (
        "#include <iostream>\n#include <map>\n#include <string>\n"
        "int main() { std::map<std::string, int> m; m[std::string(1, 'a')]++;\n"
        "    for (auto &each : m) std::cout << each.first << each.second; }\n",
        {"main", "_GLOBAL__sub_I_main"},
    ),
    "fortran": (
        "program p\n  real :: x(4)\n  integer :: i\n  do i = 1, 4\n    x(i) = sqrt(real(i))\n"
        "  end do\n  call show(x)\ncontains\n  subroutine show(x)\n    real :: x(:)\n"
        "    print *, sum(x)\n  end subroutine\nend program\n",
        {"main", "MAIN__", "show.0"},
    ),
}


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(("language", "width"), turns(PROGRAMS, ["v9", "v8plus"], few=1))
def test_what_is_left_of_static_programs(
    compile_c: Callable[..., Path], language: str, width: str
) -> None:
    text, own = PROGRAMS[language]
    flags = ("-O1", "-g", "-fno-inline")
    program = recover(elf.load(compile_c(text, flags, width=width, language=language)))
    assert len(program.routines) > 500
    names = {name.partition(".constprop")[0] for name in taken(program, Selection(user_only=True))}
    assert own <= names
    library = {name for name in names if "Rb_tree" in name or name.startswith(("_gfortran", "_IO"))}
    assert library == set()
    if language != "c++":  # templates of the program's own file are its own
        assert names == own
