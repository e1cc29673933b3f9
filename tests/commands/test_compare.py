"""`simprof compare`: many schemes in one emulation give what each gives alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

import simprof as simprof_api
from simprof.profiler import cli
from simprof.profiler.code import layout
from simprof.profiler.commands.modes import settings as made
from simprof.profiler.profiles.profile import RunMeasurement
from simprof.profiler.profiles.storage import save
from simprof.profiler.reports import comparison_report
from simprof.profiler.request.request import (
    GuestOptions,
    RunRequest,
    SchemeOptions,
    Setting,
    TableChoice,
)
from simprof.profiler.schemes.mode_options import read
from simprof.profiler.schemes.registry import definition, planned_modes
from simprof.profiler.session.observation import SchemeComparison
from simprof.profiler.session.session import compare_program, run_program
from tests.support.samples import measurement
from tests.support.turns import first

ROOT = Path(__file__).resolve().parents[2]
Find = Callable[..., Path]
TPP = ("tpp:cold=1:loop=1", "tpp:cold=50:loop=50")
SCHEME = SchemeOptions()


@pytest.fixture
def quiet() -> Iterator[int]:
    """A descriptor that swallows what programs print."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


def request_for(elf: Path, quiet: int, *arguments: str, **guest: object) -> RunRequest:
    options = GuestOptions(root=ROOT, stdout=quiet, stderr=quiet, **guest)  # type: ignore[arg-type]
    return RunRequest(elf, options, tuple(map(os.fsencode, arguments)))


def settings(
    modes: Sequence[str] = planned_modes(),
    tpp: Sequence[str] = TPP,
    scheme: SchemeOptions = SCHEME,
) -> list[Setting]:
    """Return modes with those of `tpp` behind `tpp`."""
    place = modes.index("tpp") + 1 if "tpp" in modes else len(modes)
    return list(made(map(read, (*modes[:place], *tpp, *modes[place:])), scheme))


def comparable(found: RunMeasurement) -> RunMeasurement:
    """Without what depends on how often the program was run, or that only comparisons ask for."""
    counts = {name: count for name, count in found.counts.items() if "runs" not in name}
    return replace(found, counts=counts, edge_quality=None)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "width", "arguments"),
    first(
        1,
        [
            ("loops", "v9", []),
            ("nonlocal", "v8plus", []),
            ("switches", "v8", []),
            ("signals", "v9", []),
            ("calls", "v8plus", ["8"]),
        ],
    ),
)
def test_each_mode_measures_what_it_measures_alone(
    fixture_elf: Find, quiet: int, name: str, width: str, arguments: list[str]
) -> None:
    """Every number: costs, counts, sizes, losses, edges and paths of every routine."""
    request = request_for(fixture_elf(name, width), quiet, *arguments)
    wanted = settings()
    together = compare_program(request, wanted)
    assert together.whole_emulations == (2 if name == "manypaths" else 1)
    for setting, found in zip(wanted, together.measurements, strict=True):
        alone = run_program(replace(request, mode=setting.mode, scheme=setting.options))
        assert comparable(found) == comparable(alone), setting.name


@pytest.mark.parametrize(
    ("modes", "tpp", "table", "emulations"),
    first(
        2,
        [
            (["pp", "kiter"], [], TableChoice.AUTO, 1),
            (["edges"], [], TableChoice.AUTO, 1),
            (["tpp"], [], TableChoice.AUTO, 1),
            (["edges"], ["tpp", "tpp:cold=9:loop=20"], TableChoice.AUTO, 1),
            (["pp", "tpp:loop=20"], ["tpp:cold=0", "tpp"], TableChoice.HASH, 2),
        ],
        at=3,
    ),
)
def test_at_most_two_emulations(
    fixture_elf: Find,
    quiet: int,
    modes: list[str],
    tpp: list[str],
    table: TableChoice,
    emulations: int,
) -> None:
    request = request_for(fixture_elf("tailcalls"), quiet)
    found = compare_program(request, settings(modes, tpp, SchemeOptions(table=table)))
    assert found.whole_emulations == emulations
    assert len(found.measurements) == len(modes) + len(tpp)


@pytest.mark.long
def test_a_saved_edge_profile_spares_the_first_run(
    fixture_elf: Find, quiet: int, tmp_path: Path
) -> None:
    request = request_for(fixture_elf("loops"), quiet)
    guided = compare_program(request, settings(["tpp"], TPP))
    for mode in ("edges", "qpt2", "pp"):
        saved = tmp_path / mode
        save(run_program(replace(request, mode=mode)), saved)
        scheme = SchemeOptions(edge_profile=saved)
        found = compare_program(request, settings(["tpp"], TPP, scheme))
        assert found.whole_emulations == 1
        for one, other in zip(guided.measurements, found.measurements, strict=True):
            assert (one.added, one.lost) == (other.added, other.lost)
            assert one.routines == other.routines


def test_an_edge_profile_of_other_input_loses_paths_and_says_so(
    fixture_elf: Find, quiet: int, tmp_path: Path
) -> None:
    """What a profile of less work calls cold is executed later."""
    elf, saved = fixture_elf("bench"), tmp_path / "p"
    cut = request_for(elf, quiet, "1", max_instructions=20_000)
    save(run_program(replace(cut, mode="edges")), saved)
    scheme = SchemeOptions.of(edge_profile=saved, cold_always=True)
    request = request_for(elf, quiet, "1", max_instructions=1_000_000)
    exact, stale = compare_program(request, settings(["pp", "tpp"], [], scheme)).measurements
    paths = exact.counts["path_increments"]
    assert stale.counts["path_increments"] < paths
    assert stale.lost["cold_paths"] > 0
    assert stale.lost["undercounted_blocks"] > 0
    assert stale.edge_profile() == replace(exact, routines=stale.routines).edge_profile()
    both = ("pp", exact), ("tpp", stale)
    assert "cold paths" in comparison_report.render_text(both, 1, 1)
    assert "overlap with pp" in comparison_report.render_text(both, 1, 1, details=True)


@pytest.mark.parametrize("limit", [10_000, 100_001])
def test_budgets_cut_both_runs_alike(fixture_elf: Find, quiet: int, limit: int) -> None:
    request = request_for(fixture_elf("sieve"), quiet, "1", max_instructions=limit)
    found = compare_program(request, settings())
    assert {m.base for m in found.measurements} == {found.measurements[0].base}
    assert abs(found.measurements[0].base - limit) < 600
    assert {m.ending.code for m in found.measurements} == {124}
    assert all(m.partial for m in found.measurements)


# --- JSON

MODE_FIELDS = {
    "format", "version", "simprof", "measured_by", "input_sha256", "edge_profile_sha256",
    "program", "mode",
    "options", "exit", "partial", "warnings", "instructions",
    "overhead", "counts", "sizes", "lost", "refused_calls", "routines",
}  # fmt: skip


@pytest.fixture(scope="module")
def loops(fixture_elf: Find) -> SchemeComparison:
    """All modes on one program."""
    with Path(os.devnull).open("wb") as output:
        return compare_program(request_for(fixture_elf("loops"), output.fileno()), settings())


def rows(found: SchemeComparison) -> list[tuple[str, RunMeasurement]]:
    return list(zip((s.name for s in settings()), found.measurements, strict=True))


@pytest.mark.long
def test_json_has_the_fields_of_the_schema(loops: SchemeComparison) -> None:
    data = json.loads(
        comparison_report.render_json(rows(loops), loops.emulations, loops.whole_emulations)
    )
    assert data.keys() == {
        "format", "version", "simprof", "measured_by", "program", "input_sha256", "exit", "partial",
        "instructions", "emulations",
        "whole_emulations", "reasons",
        "refused_calls", "modes"
    }  # fmt: skip
    assert data["format"] == "simprof/compare"
    assert data["emulations"] == 1
    assert data["instructions"] == {"base": loops.measurements[0].base}
    assert list(data["modes"]) == [
        "pp", "qpt2", "qpt", "witness", "bits", "bytes", "block-trace", "bittrace", "fifo",
        "tpp", *TPP, "ppp", "pref", "kiter", "kblpp", "wpp", "pap", "sampled", "pep", "naive",
        "calls", "calls-optimal",
    ]  # fmt: skip
    for name, mode in data["modes"].items():
        scheme = definition(name.partition(":")[0])
        more = {"edge_quality"} if name == "pp" else set()
        more |= {"quality"} if scheme.judge else set()
        more |= {"attribution"} if scheme.judge and not scheme.estimates else set()
        more |= {"estimate"} if scheme.estimates else set()
        more |= {"guide"} if scheme.guided else set()
        assert mode.keys() == MODE_FIELDS | more, name
        assert mode["format"] == "simprof/run"
        assert mode["sizes"]["snippets"] > 0
        assert mode["sizes"]["snippet_instructions"] == mode["sizes"]["code_bytes"] // 4
    assert data["modes"][TPP[1]]["options"]["cold"] == 50
    assert data["modes"]["tpp"]["attribution"] == {
        "definite": 1.0, "overcount": 0.0, "undercount": 0.0, "attributed": 1.0, "overlap": 1.0
    }  # fmt: skip
    sizes: Mapping[str, int] = data["modes"]["witness"]["sizes"]
    assert sizes["trace_bytes"] == -(-sizes["trace_bits"] // 8)
    assert sizes["minimal_trace_bytes"] < sizes["trace_bytes"]
    assert data["modes"]["witness"]["counts"]["trace_tokens"] > 0
    assert data["modes"]["qpt"]["lost"]["unknown_edges"] > 0


def test_addresses_of_data_have_a_size_beside_the_trace(
    fixture_elf: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    modes = ["--mode", "witness,witness:addresses"]
    assert cli.run(["compare", *modes, "--json", "-", str(fixture_elf("loops"))]) == 0
    plain, more = json.loads(capfd.readouterr().out)["modes"].values()
    assert "address_bytes" not in plain["sizes"]
    assert more["sizes"]["address_bytes"] == more["sizes"]["address_bits"] // 8 > 0
    assert more["sizes"]["trace_bits"] == plain["sizes"]["trace_bits"]
    assert more["instructions"]["added"] > plain["instructions"]["added"]
    assert cli.run(["compare", *modes, "--details", str(fixture_elf("loops"))]) == 0
    assert "addresses" in capfd.readouterr().err.partition("Traces")[2]


# --- text


def test_table_shows_every_number(loops: SchemeComparison) -> None:
    emulations = (loops.emulations, loops.whole_emulations)
    report = comparison_report.render_text(rows(loops), *emulations, details=True)
    costs = report.split("\nCosts (added instructions, increments, sizes in bytes)\n")[1].split(
        "\n\n"
    )[0]
    lines = {cells[0]: cells for cells in map(str.split, costs.splitlines()[1:])}
    by_overhead = sorted(rows(loops), key=lambda row: row[1].added)
    assert list(lines) == [name for name, _ in by_overhead]
    for name, found in rows(loops):
        cells = lines[name]
        assert cells[1] in ("paths", "k-paths", "windows", "edges", "blocks", "trace")
        assert cells[2] == f"{found.added:,}"
        assert cells[3] == f"{100 * found.overhead:.2f}"
        assert cells[-1] == f"{found.sizes['code_bytes']:,}"
        assert cells[-2] == f"{found.sizes['snippets']:,}"
    witness = next(found for name, found in rows(loops) if name == "witness")
    traces = report.split("\nTraces\n")[1].splitlines()[1:3]
    assert traces[0].split()[:2] == ["witness", f"{witness.counts['trace_tokens']:,}"]
    assert "\x1b" not in report


def test_rows_are_never_cut_off() -> None:
    huge = measurement(base=10**14, added=3 * 10**14, counts={"path_increments": 10**14})
    for width, added in (
        (40, "300,000,000,000,000"),
        (100, "3.00e14"),
        (120, "300,000,000,000,000"),
    ):
        report = comparison_report.render_text(
            (("calls-optimal", huge),), 1, 1, width, details=True
        )
        assert f" {added} " in report
        assert "100,000,000,000,000" in report
        assert max(map(len, report.splitlines())) <= width


def test_warnings_are_shown_once_with_whom_they_are_about() -> None:
    both, one = measurement(warnings=("mind", "gap")), measurement(warnings=("mind",))
    report = comparison_report.render_text((("pp", both), ("qpt2", one)), 1, 1)
    assert report.count("mind") == 1
    assert "warning: pp: gap" in report
    assert "emulated  once" in report


# --- modes whose counters do not fit


@pytest.mark.long
def test_a_mode_whose_counters_do_not_fit_says_so_and_others_are_shown(
    fixture_elf: Find,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(layout, "LIMIT", layout.TABLES_BASE + 4096)
    why = "the counters of all routines do not fit their memory"
    page = tmp_path / "page.html"
    words = ["--mode", "fifo,qpt2,tpp", "--json", "-", "--html", str(page)]
    assert cli.run(["compare", *words, str(fixture_elf("loops"))]) == 0
    found = capfd.readouterr()
    data = json.loads(found.out)
    assert list(data["modes"]) == ["qpt2", "tpp"]
    assert data["not_measured"].keys() == {"fifo"} and why in data["not_measured"]["fifo"]
    added = found.err.split("Instructions added by each mode")[1].partition("\n\n")[0]
    assert [line.split()[0] for line in added.splitlines()[2:]] == ["tpp", "qpt2", "fifo"]
    assert "fifo  not measured" in added
    assert f"warning: fifo: {why}" in " ".join(found.err.split())
    assert f"fifo: {why}" in page.read_text()
    # alone, it is an error
    assert cli.run(["run", "--mode", "fifo", str(fixture_elf("loops"))]) == 125
    assert f"simprof: {why}: select fewer routines with --routine" in capfd.readouterr().err
    assert cli.run(["compare", "--mode", "fifo", str(fixture_elf("loops"))]) == 125
    with pytest.warns(UserWarning, match=f"left out: fifo: {why}"):
        compared = simprof_api.compare(fixture_elf("loops"), modes=["qpt2", "fifo"])
    assert list(compared.measurements) == ["qpt2"]


ROUTINES = 2200


def many_routines() -> str:
    """C of thousands of routines that run, all with loops and decisions."""
    bodies = (
        f"int f{n}(int x) {{ for (int i = 0; i < 3; i++) if (x & {1 << n % 5}) x += {n};"
        f" else x ^= i; return x; }}"
        for n in range(ROUTINES)
    )
    calls = (f"x = f{n}(x);" for n in range(ROUTINES))
    main = ["int end;", "int main(void) { int x = 1;", *calls, "end = x; return 0; }"]
    return "\n".join([*bodies, *main])


@pytest.mark.long
@pytest.mark.toolchain
def test_all_modes_fit_a_program_of_thousands_of_routines(compile_c: Callable[..., Path]) -> None:
    program = compile_c(many_routines(), ("-O1", "-fno-inline"))
    watch = [sys.executable, "-c", WATCHED, "compare", "--json", "-", str(program)]
    done = subprocess.run(watch, capture_output=True, text=True, check=False, timeout=3000)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert "not_measured" not in data and "fifo" in data["modes"]
    assert all(len(mode["routines"]) >= ROUTINES for mode in data["modes"].values())
    # of all processes together: each holds at most as much as the largest
    most = int(done.stderr.rpartition("peak ")[2])
    assert most < 1.5 * (1 << 20)


# Prints the kilobytes that the process, and the largest that it started, had at most. Not what
# getrusage says of a process itself: that begins with the memory of whoever started it.
WATCHED = """
import re, resource, sys
from pathlib import Path
from simprof.profiler import cli
status = cli.run(sys.argv[1:])
own = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print("peak", own + started, file=sys.stderr)
sys.exit(status)
"""


# --- the command


def simprof(*arguments: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Start the command in a process of its own."""
    command = [sys.executable, "-c", "from simprof.profiler.cli import main; main()", "compare"]
    return subprocess.run(
        [*command, *map(str, arguments)], input=given, capture_output=True, check=False, timeout=120
    )


@pytest.mark.long
def test_the_program_runs_once_as_far_as_it_shows(fixture_elf: Find) -> None:
    """Two emulations, but input is read and output written once; its exit status is passed on."""
    words = (ROOT / "fixtures/input/words.txt").read_bytes()
    done = simprof(fixture_elf("words"), "--mode=tpp,bits", "--table=hash", given=words)
    assert done.stdout == (ROOT / "fixtures/expected/words.txt").read_bytes()
    assert done.returncode == 0, done.stderr.decode()
    assert b"emulated  twice" in done.stderr
    assert simprof(fixture_elf("nonlocal"), "--mode", "tpp").returncode == 4


@pytest.mark.parametrize("option", ["--edge-profile", "--weights"])
def test_a_profile_of_another_program(fixture_elf: Find, tmp_path: Path, option: str) -> None:
    saved = tmp_path / "p"
    save(measurement(), saved)
    done = simprof(fixture_elf("loops"), option, saved)
    assert done.returncode == 125
    assert done.stdout == b""
    assert done.stderr.decode() == (
        f"simprof: {saved} is a profile of another program (loop.elf): "
        "make one of this program with `simprof run -o`\n"
    )
    done = simprof(fixture_elf("loops"), option, tmp_path / "missing")
    assert (done.returncode, done.stderr.count(b"\n")) == (125, 1)


def test_registers_that_a_mode_cannot_take_are_refused_before_the_run(
    fixture_elf: Find, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--mode", "qpt2,pp", "--registers", "stolen", str(fixture_elf("switches"))]
    assert cli.run(["compare", "--no-progress", *arguments]) == 125
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.startswith("simprof: --registers stolen: only qpt and qpt2 steal registers")
    assert said.err.count("\n") == 1
