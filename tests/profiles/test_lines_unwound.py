"""Lines and functions of programs that throw, against gcov."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler.exports.coverage import coverage
from simprof.simulator.binary.demangling import demangle
from tests.conftest import ROOT
from tests.support.coverage import exported
from tests.support.turns import turns

PROGRAMS = ROOT / "tests" / "programs"

CLEANUP = """#include <cstdio>
struct G { int *p; ~G() { ++*p; } };
static int work(int i, int *c) {
  G g{c};
  if (i & 1)
    throw i;
  return i;
}
int main() {
  int s = 0, c = 0;
  for (int i = 0; i < 10; i++) {
    try {
      s += work(i, &c);
    } catch (int k) {
      s -= k;
    }
  }
  std::printf("%d %d\\n", s, c);
  return 0;
}
"""
ONE_LINE = """#include <cstdio>
#include <stdexcept>
int f(int i) { if (i % 3 == 0) throw std::runtime_error("x"); return i; }
int main() { int s = 0; for (int i = 0; i < 30; i++) \\
try { s += f(i); } catch (const std::exception &e) { s--; } std::printf("%d\\n", s); }
"""

SOURCES = {
    "cleanup": CLEANUP,
    "one-line": ONE_LINE,
    **{
        name: (PROGRAMS / f"{name}.cc").read_text()
        for name in ("exact/unwinding", "exact/exceptions", "exact/throwing", "landing")
    },
}
# gcov leaves out what compilers declare themselves: members of a class, on the line of its name.
# Of two routines of one line that a destructor ends, it counts a part as another execution.
OTHER = {
    "exact/exceptions": {16, 17, 18, 19, 20},
    "exact/throwing": {28, 40},
}


def gcov(directory: Path, text: str) -> tuple[Counter[int], dict[str, int]]:
    """Line -> executions, function -> calls, of a native build."""
    (directory / "source.cc").write_text(text)
    build = ["g++", "-O0", "-w", "--coverage", "source.cc", "-o", "native"]
    subprocess.run(build, cwd=directory, check=True)
    subprocess.run(["./native"], cwd=directory, stdout=subprocess.DEVNULL, check=False)
    (data,) = directory.glob("*.gcda")
    command = ["gcov", "--json-format", "--stdout", data.name]
    done = subprocess.run(command, cwd=directory, capture_output=True, check=True)
    lines, functions = Counter[int](), dict[str, int]()
    for file in json.loads(done.stdout)["files"]:
        if file["file"] == "source.cc":
            for line in file["lines"]:
                lines[line["line_number"]] += line["count"]
            for each in file["functions"]:
                functions[each["demangled_name"]] = each["execution_count"]
    return lines, functions


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.viewers
@pytest.mark.parametrize(("name", "width"), turns(SOURCES, ("v9", "v8plus"), few=2))
def test_programs_that_throw_count_as_for_gcov(
    compile_c: Callable[..., Path], tmp_path: Path, name: str, width: str
) -> None:
    """A landing pad is no call, its clean-up no second execution of a `}`."""
    lines, functions = gcov(tmp_path, SOURCES[name])
    program = compile_c(SOURCES[name], ("-O0", "-g", "-w"), width, "c++")
    source = exported(program, tmp_path)
    (own,) = [file for file in coverage(source) if file.file.endswith("source.cc")]
    common = own.lines.keys() & lines.keys() - OTHER.get(name, set())
    assert {n: own.lines[n].count for n in common} == {n: lines[n] for n in common}
    assert len(common) > 1
    found = {demangle(each.name): each.count for each in own.functions}
    # The symbols of a destructor have one name.
    both = {name for name in found.keys() & functions.keys() if "~" not in name}
    assert {n: found[n] for n in both} == {n: functions[n] for n in both}
    assert functions["main"] == found["main"] == 1
    kinds = Counter[str]()
    for routine in source.measurement.routines:
        for edge in routine.edge_counts:
            kinds[edge.kind] += edge.count
    assert kinds["re-entry"] > 0


@pytest.mark.long
@pytest.mark.toolchain
def test_the_report_counts_no_re_entry_as_a_call(
    compile_c: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from simprof.profiler import cli

    program = compile_c(CLEANUP, ("-O0", "-g", "-w"), "v9", "c++")
    profile = str(tmp_path / "p")
    assert cli.run(["run", "-q", "--user-only", "-o", profile, str(program)]) == 0
    capfd.readouterr()
    assert cli.run(["show", profile, "routines", "--csv"]) == 0
    shown = capfd.readouterr().out
    assert re.search(r"^main,main,,0x\w+,,1,", shown, re.MULTILINE), shown
    assert re.search(r"^\"work\(int, int\*\)\",_ZL4workiPi,,0x\w+,,10,", shown, re.MULTILINE), shown
