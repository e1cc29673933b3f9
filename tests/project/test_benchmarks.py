"""The benchmark: what it reads, keeps, concludes and prints. Nothing here depends on a time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simprof.profiler.experiments.suites.suite import Width
from simprof.simulator.errors import UsageError
from tests.conftest import ROOT
from tests.support.turns import first
from tools import bench, performance_page
from tools.benchmarks import commands, engine, growth, limits, programs, rows
from tools.benchmarks.commands import Measuring, plugin_facts, run_facts
from tools.benchmarks.processes import measure
from tools.benchmarks.programs import Program
from tools.benchmarks.rows import Machine, Results, Row, dump, find, from_json, load
from tools.benchmarks.tables import cell, number

MACHINE = Machine("A processor", 2, "3.11.7")
NAMES = ("hello", "dash", "cppcheck")

Find = Callable[..., Path]


def command(program: str, configuration: str, state: rows.State = "", **values: object) -> Row:
    """A row of whole commands."""
    row = Row("command", program, configuration, state, ())
    return replace(row, commit="c0ffee", date="2026-01-02", **values)  # type: ignore[arg-type]


def event(count: int, cpu: float, instructions: int) -> Row:
    """A row of longjmps."""
    row = Row("event", "jumps", "run-edges", "warm", (str(count),), cpu=cpu)
    return replace(row, instructions=instructions)


FEW, MANY = growth.NUMBERS["jumps"]
ROWS = (
    command("python", "import-numba", wall=0.2),
    command("hello", "qemu-plugin", wall=0.05, instructions=4_700_000),
    command("hello", "run-edges", "cold", wall=1.25, peak=200_000_000, runs=2, whole_runs=1),
    command("hello", "run-edges", "warm", wall=0.5, runs=1, whole_runs=1),
    command("dash", "qemu-plugin", wall=0.5, cpu=0.45, instructions=159_000_000, beside=0.25),
    command("dash", "run-edges", "cold", wall=4.0, cpu=3.5),
    command("dash", "run-pp", "cold", wall=100.3, outcome="timeout"),
    command("cppcheck", "run-edges", "cold", wall=14.0, cpu=4.0, peak=900_000_000),
    command("cppcheck", "compare", "cold", outcome="failed", detail="out of memory"),
    Row("engine", "sieve", "bare", "", ("340",), cpu=2.0, instructions=600_000_000),
    Row("engine", "sieve", "edges", "", ("340",), cpu=2.5, instructions=600_000_000),
    event(FEW, 0.4, 1_000_000),
    event(MANY, 0.4 + 2e-6 * (MANY - FEW), 1_000_000 + 150 * (MANY - FEW)),
    Row("recovery", "cppcheck", "recovery", "", (), cpu=2.0, text=5_000_000),
    Row("text", "dash", "run-edges", "cold", ("work.sh", "10"), cpu=1.5, text=700_000),
    Row("text", "hello", "run-edges", "cold", ("1",), cpu=0.9, text=500_000),
    Row("length", "dash", "run-edges", "warm", ("work.sh", "3"), cpu=1.1, instructions=2_000_000),
    command("hello", "run-pp", "warm", cpu=3.0),
    command("hello", "qemu-blocks", wall=0.02, cpu=0.01),
)


def verdict(what: str) -> limits.Verdict:
    (found,) = (each for each in limits.verdicts(ROWS) if each.what == what)
    return found


def test_limits_are_compared_with_what_was_measured() -> None:
    assert verdict("engine, edges, sieve").measured == 1.25
    assert verdict("engine, edges, sieve").met is True
    assert verdict("engine, edges, calls").met is None
    warm = verdict("`run --mode=pp`, warm, hello")
    assert (warm.measured, warm.limit, warm.met) == (3.0, 0.25, False)
    cold = verdict("`run --mode=edges`, cold, cppcheck")
    assert (cold.measured, cold.limit, cold.met) == (4.0, 4.3, True)
    assert verdict("`run --mode=edges`, warm, cppcheck").met is None
    assert verdict("`compare`, cold, cppcheck").measured is None  # it failed
    assert verdict("`compare`, cold, cppcheck, memory").met is None
    assert verdict("`compare`, warm, cppcheck").limit == 40.0
    longjmp = verdict("a longjmp, all included")
    assert longjmp.measured == pytest.approx(2.0)
    assert longjmp.met is True
    assert verdict("an exception, all included").met is None
    recovery = verdict("recovery of text, cppcheck")
    assert (recovery.measured, recovery.met) == (2.5, False)  # 4 MB/s at least


def test_one_longjmp_is_the_difference_of_two_runs() -> None:
    found = growth.per_event(ROWS, "jumps", "run-edges")
    assert found is not None
    assert found.seconds == pytest.approx(2e-6)
    assert found.instructions == 150
    assert growth.per_event(ROWS[:11], "jumps", "run-edges") is None


def test_results_are_kept_extended_and_resumed(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    first, second = (Row("command", "hello", each, "", ()) for each in ("run-pp", "run-tpp"))
    results = Results(path, resume=True)
    assert not results.has(first)
    results.add(replace(first, wall=1.0))
    assert results.has(first)
    resumed = Results(path, resume=True)
    assert resumed.has(first)
    assert not resumed.has(second)
    again = Results(path)
    assert not again.has(first)  # measured again, and put in its place
    again.add(replace(first, wall=2.0))
    again.add(second)
    _, kept = load(path)
    assert [(row.configuration, row.wall) for row in kept] == [("run-pp", 2.0), ("run-tpp", 0.0)]
    assert kept == again.rows
    assert kept[0].commit == rows.commit()


def test_rows_of_another_commit_are_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(dump([command("hello", "run-pp")]))
    assert not Results(path, resume=True).has(command("hello", "run-pp"))


@pytest.mark.parametrize("text", ["{", '{"schema": "simprof/bench/1", "rows": []}', "[]"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"other\.json is no file of benchmark results"):
        Results(path)
    assert performance_page.main([str(path), "-o", str(tmp_path / "page.md")]) == 125
    assert not (tmp_path / "page.md").exists()


def test_rows_survive_json() -> None:
    assert from_json(dump(ROWS)) == ROWS
    assert find(ROWS, "command", "cppcheck", "compare", "cold") is None


def test_what_reports_say_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    wanted = {"instructions": 9, "runs": 3, "whole_runs": 2}
    run = {"format": "simprof/run", "counts": {"runs": 3, "whole_runs": 2}}
    compare = {"format": "simprof/compare", "emulations": 3, "whole_emulations": 2}
    for report in (run, compare):
        path.write_text(json.dumps(report | {"instructions": {"base": 9, "added": 1}}))
        assert run_facts(path) == wanted
    counted = plugin_facts("edges 3 crossings 8 instructions 20 lost 0\n")
    assert counted == {"instructions": 20}
    assert plugin_facts("blocks 2 executions 8 instructions 20\n") == counted
    assert plugin_facts("") == plugin_facts("edges 3 instructions") == {}


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("name", "directory", "width"),
    first(
        2,
        [
            ("calls", "v9", 64),
            ("switches", "v8plus", 32),
            ("sieve", "v9", 64),
            ("nonlocal", "v9", 64),
        ],
    ),
)
def test_the_plugin_counts_the_same_blocks_inline_and_by_calls(
    fixture_elf: Find, tmp_path: Path, name: str, directory: str, width: Width
) -> None:
    log = tmp_path / "log"

    def counted(source: Path, option: str = "") -> dict[str, int]:
        plugin = programs.built_plugin(tmp_path, source)
        command = [programs.EMULATORS[width], "-plugin", f"{plugin}{option}", "-d", "plugin"]
        command += ["-D", str(log), str(fixture_elf(name, directory))]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False, timeout=60)
        words = log.read_text().split()
        return dict(zip(words[::2], map(int, words[1::2]), strict=True))

    found = {
        what: counted(programs.EDGE_PLUGIN, option)
        for what, option in programs.PLUGIN_OPTIONS.items()
    }
    blocks, edges = found["blocks"], found["edges"]
    assert blocks["executions"] == edges["crossings"] > 1000
    assert blocks["instructions"] == edges["instructions"]
    assert 0 < blocks["blocks"] < edges["edges"]
    assert edges["lost"] == 0
    alone = counted(programs.COUNT_PLUGIN)  # each instruction by itself
    if alone["repeats"] == 0:  # else traps for register windows leave blocks early
        assert blocks["instructions"] == alone["instructions"]
    else:
        assert blocks["instructions"] > alone["instructions"]


@pytest.mark.parametrize(
    ("program", "status", "outcome", "detail"),
    [
        ("pass", 0, "ok", ""),
        ("raise SystemExit(3)", 3, "ok", ""),
        ("import sys; sys.exit('one\\nthe reason')", 0, "failed", "the reason"),
        ("while True: pass", 0, "timeout", ""),
    ],
)
def test_a_process_and_what_became_of_it(
    tmp_path: Path, program: str, status: int, outcome: str, detail: str
) -> None:
    cost = measure(
        [sys.executable, "-c", program],
        timeout=0.4 if outcome == "timeout" else 60,
        directory=tmp_path,
        environment={},
        status=status,
    )
    assert (cost.outcome, cost.detail) == (outcome, detail)
    assert cost.wall > 0
    assert cost.peak > 1_000_000


def test_memory_and_processor_time_are_those_of_children_too(tmp_path: Path) -> None:
    child = "data = bytearray(150_000_000); sum(range(3_000_000))"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    plain, nested = (
        measure([sys.executable, "-c", text], timeout=60, directory=tmp_path, environment={})
        for text in ("pass", parent)
    )
    assert nested.peak > 150_000_000 > plain.peak
    assert nested.cpu > plain.cpu


@pytest.mark.long
def test_what_two_processes_hold_is_added_up_and_what_they_share_counts_once(
    tmp_path: Path,
) -> None:
    text = (
        "import os, time; shared = bytearray(b'x') * 100_000_000; child = os.fork();"
        "own = bytearray(b'x') * 60_000_000; time.sleep(1.0); child and os.wait()"
    )
    taken = measure([sys.executable, "-c", text], timeout=60, directory=tmp_path, environment={})
    assert 220_000_000 < taken.peak < 290_000_000


@pytest.mark.long
def test_a_command_is_measured_cold_and_warm(fixture_elf: Find) -> None:
    told: list[Row] = []
    measuring = Measuring(Results(), repeat=1, timeout=300.0, tell=told.append)
    elf = fixture_elf("switches")
    program = Program("switches", elf, 64, (), elf.parent)
    commands.measure_command(measuring, "command", program, "run-edges")
    assert [(row.state, row.outcome, row.detail) for row in told] == [
        ("cold", "ok", ""), ("warm", "ok", ""),
    ]  # fmt: skip
    cold, warm = told
    assert cold.instructions == warm.instructions > 0
    assert cold.runs >= warm.runs == 1
    assert cold.whole_runs == 1
    assert cold.text == warm.text == programs.text_size(elf) > 1000
    assert cold.peak > 10_000_000


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    told: list[Row] = []
    (tmp_path / "text.elf").write_bytes(b"\x7fELF")
    program = Program("text", tmp_path / "text.elf", 64, (), tmp_path)
    measuring = Measuring(Results(), repeat=1, timeout=300.0, tell=told.append)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "text_size", lambda path: 0)
        commands.measure_command(measuring, "command", program, "compare")
    assert [row.outcome for row in told] == ["failed", "failed"]
    assert told[0].detail.startswith("simprof: ")


def test_a_simprof_that_does_not_work_is_not_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.elf").write_bytes(b"\x7fELF")
    monkeypatch.setattr(commands, "WARMING", tmp_path / "broken.elf")
    with pytest.raises(UsageError, match=r"run-edges fails on .*broken\.elf: simprof: "):
        commands.warm_up(300.0)


def test_cells() -> None:
    assert [number(each) for each in (0.01234, 0.1234, 1.234, 12.34, 123.4, 12345.6)] == [
        "0.012", "0.12", "1.23", "12.3", "123", "12,346",
    ]  # fmt: skip
    shown = [cell(row, lambda each: "good") for row in (None, *ROWS[5:9])]
    assert shown == ["-", "good", "> 100 s", "good", "failed"]


def test_the_page_of_a_benchmark() -> None:
    page = performance_page.page(MACHINE, ROWS, NAMES)
    assert "Measured on A processor, 2 cores, Python 3.11.7" in page
    assert "commit , c0ffee" not in performance_page.conditions(MACHINE, ROWS[:9])
    conditions = performance_page.conditions(MACHINE, ROWS[:9])
    assert "2026-01-02, commit c0ffee" in conditions
    assert "0.2 cores on average" in conditions  # 0.25
    assert "longer than on a quiet machine" in conditions
    assert "Importing numba alone takes 0.20 (0.000) s" in page
    assert "| hello | 5 | 0.020 (0.010) | 0.050 (0.000) | 1.25 (0.000) | - | - | - |" in page
    assert "| dash | 159 | - | 0.50 (0.45) | 4.00 (3.50) | > 100 s | - | - |" in page
    assert "| cppcheck | - | - | - | 14.0 (4.00) | - | - | failed |" in page
    assert "| hello, run-edges, cold | 1.25 | 0.000 | 200 | 1 of 2 | - |" in page
    assert "| sieve, edges | 600 | 2.50 | 0.000 | 240 | 1.25 |" in page
    assert "| cppcheck | 5.00 | 2.00 | 2.50 |" in page
    assert "| longjmp | 150 | - | - | 2.00 |" in page
    sizes = (
        page.index("| hello | 0.50 | - | - | 0.90 |"),
        page.index("| dash | 0.70 | - | - | 1.50 |"),
    )
    assert sizes[0] < sizes[1]  # by size
    assert "| work.sh 3 | 2.00 |" in page
    assert "- command: cppcheck, compare, cold: out of memory\n" in page
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings[:2] == ["## Limits", "## Whole commands, cold"]
    few = performance_page.page(MACHINE, ROWS[9:11], NAMES)
    assert "Whole commands" not in few
    assert "is not known" in few
    assert "What failed" not in few


def test_the_committed_page_is_that_of_the_committed_results(tmp_path: Path) -> None:
    made = tmp_path / "performance.md"
    assert performance_page.main(["-o", str(made)]) == 0
    committed = (ROOT / "docs" / "performance.md").read_text()
    assert made.read_text() == committed, "run tools/performance_page.py"


def test_what_is_measured_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    given = bench.parse(["--program", "hello", "--configuration", "run-pp", "--part", "command"])
    assert (given.program, given.repeat, given.timeout) == (["hello"], 1, bench.TIMEOUT)
    with pytest.raises(SystemExit):
        bench.parse(["--program", "absent"])
    assert "choose from" in capsys.readouterr().err
    known = {each.name for each in engine.WORKLOADS}
    assert known == {name for limit in limits.ENGINE.values() for name in limit}
    assert {"hello", programs.LARGEST, growth.LENGTH_PROGRAM} <= set(programs.names())
    assert not {*programs.EVENTS} & {*programs.names()}
    assert {*programs.EVENTS} == {*growth.NUMBERS}


@pytest.mark.long
def test_the_engine_beside_the_bare_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--part=engine", "--program=calls", "--configuration=edges", "--quick"]
    path = tmp_path / "results.json"
    assert bench.main([*words, "--json", str(path)]) == 0
    _, kept = load(path)
    assert [row.configuration for row in kept] == ["bare", "edges"]
    assert all(row.cpu > 0 and row.instructions > 0 for row in kept)
    shown = capsys.readouterr()
    assert "calls, edges" in shown.out
    assert "engine, edges, calls" in shown.out
    assert bench.main([*words, "--json", str(path), "--resume"]) == 0
    assert "calls, edges" not in capsys.readouterr().err  # nothing was measured again
