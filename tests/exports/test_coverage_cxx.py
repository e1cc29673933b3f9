"""Coverage of C++, whose routines are inlined into each other across many headers."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.experiments.suites.sources import fetched_archive, unpack
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.profiler.exports.coverage import coverage
from simprof.profiler.exports.formats import ExportSource
from simprof.profiler.graphs.cfg import VertexName
from simprof.profiler.profiles.lines import Placing
from simprof.profiler.request.request import GuestOptions, RunRequest
from simprof.profiler.session.session import run_program
from tests.conftest import ROOT
from tests.support.coverage import exported, lines_of, read_back, written
from tests.support.turns import turns
from tests.support.verifying import of_suite

LEVELS = ("-O0", "-Og", "-O1", "-O2", "-Os")
SOURCES = sorted((ROOT / "tests" / "programs").rglob("*.cc"))

CONTAINERS = r"""#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>
int main(int count, char **)
{
    std::map<int, int> found;
    std::vector<int> all;
    for (int i = 0; i < count + 9; i++) {
        found[i * 7 % 5]++;
        all.push_back(i * 7 % 5);
    }
    std::sort(all.begin(), all.end());
    std::printf("%zu %d\n", found.size(), all[3]);
}
"""

PREPROCESSOR = r"""#include <fstream>
#include <iostream>
#include "simplecpp.h"
int main(int, char **words)
{
    std::ifstream text(words[1]);
    std::vector<std::string> files;
    simplecpp::OutputList messages;
    simplecpp::TokenList read(text, files, words[1], &messages), tokens(files);
    std::map<std::string, simplecpp::TokenList *> included;
    simplecpp::preprocess(tokens, read, files, included, simplecpp::DUI(), &messages);
    std::cout << tokens.stringify() << messages.size() << std::endl;
}
"""
PREPROCESSED = """#define TWICE(x) ((x) + (x))
#define JOIN(a, b) a ## b
#if TWICE(2) == 4 && !defined(NONE)
int JOIN(no, thing)[] = { TWICE(1), TWICE(TWICE(2)) };
#else
#error never
#endif
"""

INNER, OUTER, ROWS = "inner.h", "outer.h", "rows.inc"
HEADERS = {
    INNER: "static inline int inner(int n)\n{\n  int s = 0;\n"
    "  for (int i = 0; i < n; i++)\n    s += i & 3;\n  return s;\n}\n",
    OUTER: '#include "inner.h"\n\n\n\n\n\n\n\n\nstatic inline int outer(int n)\n'
    "{ return inner(n); }\nstatic inline int outer2(int n)\n{ return inner(n) * 3; }\n",
    ROWS: "  s += i & 3;\n",
    "main.c": '#include <stdio.h>\n#include "outer.h"\n'
    "static inline int rows(int i)\n{\n  int s = i;\n"
    '#include "rows.inc"\n  return s;\n}\n'
    "int main(int c, char **v)\n{\n  int s = outer(c + 4);\n  s += outer2(c + 9) + rows(c);\n"
    '  printf("%d\\n", s);\n  return 0;\n}\n',
}


@pytest.mark.toolchain
def test_source_of_routines_that_are_inlined_everywhere(
    compile_c: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        HEADERS[INNER] + "int main(int c, char **v)\n{\n  return inner(c + 4) + inner(c * 9);\n}\n"
    )
    program = compile_c(text, ("-O2", "-g"), "v9")
    profile = str(tmp_path / "profile")
    assert cli.run(["run", str(program), "--mode", "edges", "-o", profile]) == 18
    capsys.readouterr()
    assert cli.run(["show", profile, "source", "inner", "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert {line["line"] for line in file["lines"]} <= {1, 3, 4, 5, 6}
    assert [(each["name"], each["executions"]) for each in file["inlined"]] == [("inner", 1)] * 2
    assert cli.run(["show", profile, "source", "inner", "--code", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [each["symbol"] for each in answer["routines"]] == ["main"]  # that holds both
    assert answer["files"] == []


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.viewers
@pytest.mark.parametrize(
    ("level", "static", "width"),
    turns(LEVELS, (True, True, True, False), ("v9", "v8plus"), few=2),
)
def test_containers(
    compile_c: Callable[..., Path], tmp_path: Path, level: str, static: bool, width: str
) -> None:
    program = compile_c(CONTAINERS, (level, "-g"), width, "c++", static)
    read_back(exported(program, tmp_path), tmp_path)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.viewers
@pytest.mark.parametrize(
    ("source", "level", "width", "static"),
    turns(SOURCES[::2], LEVELS, ("v9", "v8plus"), (True, True, False)),
    ids=lambda value: value.stem if isinstance(value, Path) else str(value),
)
def test_programs(
    compile_c: Callable[..., Path],
    tmp_path: Path,
    source: Path,
    level: str,
    width: str,
    static: bool,
) -> None:
    program = compile_c(source, (level, "-g", "-w", "-pthread"), width, "c++", static)
    read_back(exported(program, tmp_path), tmp_path)


@pytest.fixture(scope="module")
def cppcheck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of cppcheck."""
    package = load_suite("real").benchmark("cppcheck").recipe.package
    assert package is not None
    place = tmp_path_factory.mktemp("cppcheck")
    unpack(fetched_archive(package, place), place / "sources", package.directory)
    return place / "sources"


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.viewers
@pytest.mark.parametrize(
    ("level", "static", "width"), turns(LEVELS, (True, False), ("v9", "v8plus"))
)
def test_a_real_program(
    compile_c: Callable[..., Path],
    tmp_path: Path,
    cppcheck: Path,
    level: str,
    static: bool,
    width: str,
) -> None:
    """The preprocessor of cppcheck, which takes seconds to build where the whole takes minutes."""
    own = cppcheck / "externals" / "simplecpp"
    flags = (level, "-g", "-w", f"-I{own}", str(own / "simplecpp.cpp"))
    program = compile_c(PREPROCESSOR, flags, width, "c++", static)
    (tmp_path / "input").write_text(PREPROCESSED)
    source = exported(program, tmp_path, arguments=["input"])
    lines = lines_of(written("lcov", source).decode())[str(own / "simplecpp.cpp")]
    assert sum(map(bool, lines.values())) > 400
    read_back(source, tmp_path)


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.viewers
def test_the_whole_of_a_real_program(tmp_path: Path) -> None:
    """Network flows by templates of LEMON, with all of its libraries.

    A line was executed if one of the blocks that its code is in was, and no more often than they;
    but for lines in several blocks, none of which begins one: a jump or a constant was left there.
    """
    program, given = of_suite("spec-like", "flow", 64)
    with (tmp_path / "output").open("wb") as file:
        guest = GuestOptions(
            root=given.root or tmp_path, stdout=file.fileno(), stderr=file.fileno()
        )
        words = tuple(map(str.encode, given.arguments))
        source = ExportSource(run_program(RunRequest(program, guest, words, "edges")))
    tracefile = tmp_path / "x.info"
    tracefile.write_bytes(written("lcov", source))
    lines = {
        (file, line): count
        for file, counts in lines_of(tracefile.read_text()).items()
        for line, count in counts.items()
    }
    executed = {place for place, count in lines.items() if count}
    command = ["lcov", "--summary", str(tracefile)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"({len(executed)} of {len(lines)} lines)" in shown
    assert source.program is not None
    blocks: dict[tuple[str, int], dict[VertexName, int]] = defaultdict(dict)
    for block in (b for routine in source.measurement.routines for b in routine.block_counts):
        for address in range(block.start, block.start + 4 * block.instructions, 4):
            if (place := source.program.lines.find(address)) is not None:
                blocks[os.path.normpath(place.file), place.line][block.name] = block.count
    assert blocks.keys() <= lines.keys()
    entered = {place for place, counts in blocks.items() if any(counts.values())}
    in_one = (Placing.ALONE, Placing.SHARED)
    one = {
        (file.file, number)
        for file in coverage(source)
        for number, line in file.lines.items()
        if line.placing in in_one
    }
    assert executed <= entered
    assert not entered & one - executed
    assert all(lines[place] <= sum(counts.values()) for place, counts in blocks.items())
    alone = {place for place, counts in blocks.items() if len(counts) == 1}
    assert all(lines[place] in blocks[place].values() for place in alone)
    assert len(executed) > 500 and len(alone) > 40


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize("packing", [(), ("-gz=zlib-gnu",), ("-gz",)], ids=str)
def test_inlined_functions_are_in_the_files_that_declare_them(
    tmp_path: Path, packing: Sequence[str]
) -> None:
    """Also where their first instruction is one of another header's, and in packed sections.

    The smallest of which stay as they are.
    """
    for name, text in HEADERS.items():
        (tmp_path / name).write_text(text)
    command = ["sparc64-linux-gnu-gcc-12", "-O2", "-g", "-static", *packing, "main.c", "-o", "a"]
    subprocess.run(command, cwd=tmp_path, check=True)
    measurement = exported(tmp_path / "a", tmp_path).measurement
    found = {
        (Path(file.file).name, each.name, each.line, each.count)
        for file in coverage(ExportSource(measurement))
        for each in file.functions
        if file.file.startswith(str(tmp_path))
    }
    assert found == {
        (INNER, "inner", 1, 2),
        (OUTER, "outer", 10, 1),
        (OUTER, "outer2", 12, 1),
        ("main.c", "rows", 3, 1),
        ("main.c", "main", 10, 1),
    }
