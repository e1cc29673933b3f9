"""The command line by itself: options, outputs, errors and exit statuses; the session is faked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.commands.group import SUBCOMMANDS
from simprof.profiler.profiles.profile import Ending, RunMeasurement
from simprof.profiler.profiles.storage import load
from simprof.profiler.request.request import (
    RegisterUse,
    RunRequest,
    SchemeOptions,
    TableChoice,
)
from simprof.profiler.request.weights import Weights
from simprof.profiler.schemes import registry
from simprof.profiler.schemes.kiter import KiterOptions
from simprof.profiler.schemes.mode_options import own_options
from simprof.profiler.schemes.qpt.options import VertexPlacement
from simprof.profiler.schemes.registry import planned_modes
from simprof.profiler.schemes.tpp import TppOptions
from simprof.simulator.errors import ProgramFileError, SimulatorError
from simprof.simulator.stopping import Stopped
from tests.support.cli import FakeSession, simprof
from tests.support.samples import FAULT, measurement

ROOT = Path(__file__).resolve().parents[2]


# --- what a request holds


def test_defaults(session: FakeSession) -> None:
    assert simprof("run", "a.elf") == 3
    (request,) = session.requests
    assert request.program == Path("a.elf")
    assert request.arguments == ()
    assert request.mode == "pp"
    assert request.scheme.weights == Weights.HEURISTIC
    assert request.scheme.table is TableChoice.AUTO
    assert request.scheme.path_limit == 100_000_000
    assert request.guest.root == Path()
    assert request.guest.environment == ()
    assert (request.guest.stdin, request.guest.writable) == (None, None)
    assert (request.guest.argv0, request.guest.exe, request.guest.cwd) == (None, b"/a.elf", None)
    assert (request.guest.stdout, request.guest.stderr) == (1, 2)
    assert (request.guest.max_instructions, request.guest.timeout) == (None, None)
    assert request.guest.memory_limit == 2 << 30
    assert request.guest.stack_size == 64 << 20
    assert request.progress is None


def test_every_option_reaches_the_request(session: FakeSession, tmp_path: Path) -> None:
    given = tmp_path / "input"
    given.write_text("x")
    options_given = [
        "--mode=bittrace", "--path-limit=1000", "--weights=uniform", "--table=hash",
        "--routine=ma*", "--routine", "f", "--stdin", str(given), "--root", str(tmp_path),
        "--writable", str(tmp_path), "--env", "A=1", "--env=B=x=y", "--argv0=me",
        "--max-instructions=12345", "--timeout=1.5", "--memory-limit=64M", "--stack-size=8M",
        "--self-check", "--no-cache",
    ]  # fmt: skip
    simprof("run", *options_given, "a.elf", "--", "-x", "--mode=pp", "b c")
    (request,) = session.requests
    assert request.arguments == (b"-x", b"--mode=pp", b"b c")
    assert request.mode == "bittrace"
    assert request.scheme.path_limit == 1000
    assert request.scheme.weights == Weights.UNIFORM
    assert request.scheme.table is TableChoice.HASH
    assert request.selection.routines == ("ma*", "f")
    assert request.guest.stdin == given
    assert request.guest.root == request.guest.writable == tmp_path
    assert request.guest.environment == ((b"A", b"1"), (b"B", b"x=y"))
    assert request.guest.argv0 == b"me"
    assert request.guest.max_instructions == 12345
    assert request.guest.timeout == 1.5
    assert request.guest.memory_limit == 64 << 20
    assert request.guest.stack_size == 8 << 20
    assert request.self_check and not request.remember


def test_options_of_schemes_reach_the_request(session: FakeSession, tmp_path: Path) -> None:
    profile = tmp_path / "p"
    options_given = [
        "--mode=tpp:cold=2.5:loop=100:cold-always", "--edge-profile", str(profile),
    ]  # fmt: skip
    simprof("run", *options_given, "a.elf")
    (request,) = session.requests
    assert request.scheme == SchemeOptions.of(
        cold=2.5,
        loop=100.0,
        cold_always=True,
        edge_profile=profile,
    )
    simprof("run", "--mode=bits", "--trace", str(tmp_path / "t"), "a.elf")
    assert session.requests[-1].trace == tmp_path / "t"
    simprof("run", "--mode", "qpt:placement=edge-heuristic", "--registers=saved", "a.elf")
    placement, registers = VertexPlacement.EDGE_HEURISTIC, RegisterUse.SAVED
    given = SchemeOptions.of(placement=placement, registers=registers)
    assert session.requests[-1].scheme == given


@pytest.mark.parametrize("mode", [str(mode) for mode in registry.modes()])
def test_every_mode_can_be_run(session: FakeSession, mode: str) -> None:
    simprof("run", "--mode", mode, "a.elf")
    assert session.requests[0].mode == mode


# --- comparing


def test_compare_takes_all_modes_that_instrument(session: FakeSession) -> None:
    assert simprof("compare", "a.elf", "--", "7") == 3
    assert [setting.name for setting in session.settings] == [
        "pp", "qpt2", "qpt", "witness", "bits", "bytes", "block-trace", "bittrace", "fifo", "tpp",
        "ppp", "pref", "kiter", "kblpp", "wpp", "pap", "sampled", "pep", "naive", "calls",
        "calls-optimal",
    ]  # fmt: skip
    assert all(setting.options == SchemeOptions() for setting in session.settings)
    assert tuple(setting.mode for setting in session.settings) == planned_modes()
    assert session.requests[0].arguments == (b"7",)


def test_compare_by_context_leaves_out_what_has_no_contexts(
    session: FakeSession, capfd: pytest.CaptureFixture[str]
) -> None:
    assert simprof("compare", "--call-tree", "a.elf") == 3
    assert {*planned_modes()} - {setting.mode for setting in session.settings} == {"kblpp"}
    assert capfd.readouterr().err.startswith("simprof: left out: mode kblpp: ")


def test_compare_takes_a_mode_with_several_sets_of_options(session: FakeSession) -> None:
    given = "tpp, tpp:cold=1.0:loop=1, tpp:loop=15.5:cold=5"
    simprof("compare", "a.elf", "--mode", given, "--mode", "kiter:k=3")
    names = [setting.name for setting in session.settings]
    assert names == ["tpp", "tpp:cold=1:loop=1", "tpp:loop=15.5", "kiter:k=3"]
    options = TppOptions.cold, TppOptions.loop, KiterOptions.iterations
    chosen = [tuple(option.of(s.options) for option in options) for s in session.settings]
    assert chosen == [(5, 15, 2), (1, 1, 2), (5, 15.5, 2), (5, 15, 3)]


def test_compare_outputs(
    session: FakeSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simprof("compare", "a.elf", "--json", "-", "--report", tmp_path / "r") == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["format"] == "simprof/compare"
    assert err == ""
    assert "emulated  twice" in (tmp_path / "r").read_text()
    assert session.requests[0].guest.stdout == 2


def test_options_after_the_program_are_simprofs(session: FakeSession) -> None:
    simprof("run", "a.elf", "--mode=qpt2", "--", "7")
    assert session.requests[0].mode == "qpt2"
    assert session.requests[0].arguments == (b"7",)


def test_arguments_need_not_be_text(session: FakeSession) -> None:
    simprof("run", "a.elf", "--", os.fsdecode(b"\xff\xfe"))
    assert session.requests[0].arguments == (b"\xff\xfe",)


def test_the_program_sees_one_name_however_it_was_typed(
    session: FakeSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "b.elf").touch()
    (tmp_path / "link").symlink_to("bin/b.elf")
    monkeypatch.chdir(tmp_path)
    for words in (
        ["bin/b.elf"],
        ["./bin/../bin/b.elf"],
        [str(tmp_path / "bin" / "b.elf")],
        ["link"],
        ["--root", "bin", "link"],
        ["--root", "/usr", "link"],
        ["--root", str(tmp_path), "link"],
        ["--argv0", "", "link"],
        ["--exe", "/opt/x", "link"],
    ):
        simprof("run", *words)
    seen = [
        (guest.argv0_of(request.program), guest.exe_of(request.program))
        for request in session.requests
        for guest in (request.guest,)
    ]
    assert seen[:6] == [(b"b.elf", b"/b.elf")] * 6
    assert seen[6:] == [(b"b.elf", b"/bin/b.elf"), (b"", b"/b.elf"), (b"x", b"/opt/x")]


def test_paths_that_a_program_cannot_have(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simprof("run", "--exe", "bin/x", "a.elf") == 125
    assert "--exe bin/x: give an absolute path, as /bin/x" in capsys.readouterr().err


def test_the_run_before_instrumenting_has_the_same_paths(
    capsys: pytest.CaptureFixture[str], fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    words = "instrument --mode pp --exe bin/x -o".split()
    assert simprof(*words, tmp_path / "out", fixture_elf("loops", "v9")) == 125
    assert "--exe bin/x: give an absolute path, as /bin/x" in capsys.readouterr().err


def test_a_saved_profile_gives_weights(session: FakeSession, tmp_path: Path) -> None:
    profile = tmp_path / "p"
    simprof("run", "a.elf", "-o", profile)
    simprof("run", "a.elf", "--weights", profile)
    assert session.requests[1].scheme.weights == profile


# --- what comes out


def test_report_goes_to_stderr(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert simprof("run", "a.elf", "--top", "1") == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "overhead    67.80 %" in err
    assert "\x1b" not in err


def test_json_to_stdout_moves_the_programs_output(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    simprof("run", "a.elf", "--json", "-")
    out, err = capsys.readouterr()
    assert json.loads(out)["format"] == "simprof/run"
    assert "overhead" in err
    assert session.requests[0].guest.stdout == 2


@pytest.mark.parametrize("command", ["run", "compare"])
def test_report_to_stdout_moves_the_programs_output(
    session: FakeSession, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    simprof(command, "a.elf", "--report", "-")
    out, err = capsys.readouterr()
    assert out.startswith("program ")
    assert "overhead" in out
    assert err == ""
    assert session.requests[0].guest.stdout == 2


def test_details_are_in_the_report_on_demand(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    simprof("run", "a.elf", "--details", "--top", "1")
    assert "Totals" in capsys.readouterr().err
    simprof("run", "a.elf")
    assert "Totals" not in capsys.readouterr().err


def test_output_files(
    session: FakeSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simprof(
        "run", "--json", tmp_path / "j", "-o", tmp_path / "p", "--report", tmp_path / "r", "a.elf"
    )
    assert capsys.readouterr() == ("", "")
    assert json.loads((tmp_path / "j").read_text())["mode"] == "pp"
    assert load(tmp_path / "p") == measurement()
    assert "overhead" in (tmp_path / "r").read_text()
    assert session.requests[0].guest.stdout == 1


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (Ending(0, "exit"), 0),
        (Ending(255, "exit"), 255),
        (Ending(0, "budget"), 124),
        (Ending(0, "signal", 6), 134),
        (Ending(0, "fault", 11, FAULT), 139),
        (Ending(0, "interrupted"), 130),
        (Ending(0, "interrupted", 15), 143),
    ],
)
def test_exit_status_is_the_programs(session: FakeSession, ending: Ending, status: int) -> None:
    session.answer = lambda request: measurement(ending=ending, partial=True)
    assert simprof("run", "a.elf") == status


# --- what goes wrong


def fails(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run the command; check that it exits 125 with one line on stderr; return the line."""
    assert simprof(*arguments) == 125
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"simprof: [^\n]+\n", err), err
    return err


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (["frobnicate"], "frobnicate"),
        (["run"], "Missing argument 'ELF'"),
        (["run", "x", "--mode", "fast"], "unknown mode 'fast'"),
        (["run", "x", "--top", "-1"], "--top"),
        (["run", "x", "--top", "many"], "'many'"),
        (["run", "x", "--timeout", "0"], "not a positive number of seconds"),
        (["run", "x", "--max-instructions", "0"], "--max-instructions"),
        (["run", "x", "--max-instructions", str(1 << 63)], "--max-instructions"),
        (["run", "x", "--memory-limit", "5Q"], "not a size"),
        (["run", "x", "--stack-size", "1K"], "between 64K and 256M"),
        (
            ["run", "x", "--weights", "guess"],
            "wall, forman nor a profile file",
        ),
        (["run", "x", "--env", "NAME"], "NAME=VALUE"),
        (["run", "x", "--env", "=1"], "NAME=VALUE"),
        (["run", "x", "--root", "/no/such/place"], "--root /no/such/place is not a directory"),
        (["run", "x", "--writable", "/no/such/place"], "--writable"),
        (["run", "x", "--stdin", "/no/such/place"], "--stdin /no/such/place cannot be read"),
        (["run", "x", "--json", "/no/such/place/file"], "no directory"),
        (["run", "-o", "/", "x"], "is a directory"),
        (["run", "-o", "-", "x"], "only --json"),
        (["run", "--frob", "x"], "--frob"),
        (["run", ""], "empty"),
        (["run", "x" * 5000], "too long"),
        (["run", "x", "--writable", ""], "empty"),
        (["run", "x", "--root", "x" * 5000], "too long"),
        (["run", "x", "--weights", "x" * 5000], "too long"),
        (["run", "x", "--json", "x" * 5000], "too long"),
        (["run", "x", "--mode=tpp:cold=101"], "tpp: cold=101: give a percentage"),
        (["run", "x", "--mode=tpp:cold=-0.1"], "give a percentage"),
        (["run", "x", "--mode=tpp:loop=nan"], "give a percentage"),
        (["run", "x", "--mode=tpp:loop=half"], "loop=half: give a percentage"),
        (["run", "--mode=kiter:k=0", "x"], "k=0: give a whole number from 1 to 1000"),
        (["run", "x", "--mode=kiter:k=many"], "k=many"),
        (["run", "x", "--mode=kiter:k"], "kiter: k needs a value: give a whole number"),
        (["run", "x", "--mode=tpp:cold-always=1"], "cold-always takes no value"),
        (["run", "x", "--mode=tpp:cold=1:cold=2"], "cold is given twice"),
        (["run", "x", "--mode=tpp:cld=1"], "tpp has no option 'cld': did you mean 'cold'? Its"),
        (["run", "x", "--mode=tpp:"], "empty option"),
        (
            ["run", "x", "--mode=pp:cold=3"],
            "pp has no option 'cold', which is one of tpp and ppp: its options are",
        ),
        (["run", "x", "--mode=tp:cold=3"], "unknown mode 'tp': did you mean 'tpp'"),
        (["run", "x", "--mode=qpt:placement=best"], "placement=best: give one of"),
        (["run", "x", "--trace", "t"], "pp writes no trace: use --mode witness or bits"),
        (["run", "x", "--mode=wpp", "--trace", "t"], "`simprof run` keeps no trace of wpp: instr"),
        (["run", "x", "--mode=pap", "--trace", "t"], "`simprof run` keeps no trace of pap: instr"),
        (["read", __file__, "--longest", "9"], "--longest has no effect without --subpaths"),
        (["read", __file__, "--threshold", "9"], "--threshold has no effect without --subpaths"),
        (
            ["read", __file__, "--subpaths", "3", "--longest", "1000000"],
            "1000000 is too large: it must be at most 100",
        ),
        (["run", "x", "--mode=bits", "--trace", "-"], "only --json"),
        (["run", "x", "--mode=bits", "--trace", "/"], "is a directory"),
        (["compare"], "Missing argument 'ELF'"),
        (["compare", "x", "--mode", "pp,fast"], "unknown mode 'fast'"),
        (["compare", "x", "--mode", ""], "unknown mode ''"),
        (["compare", "x", "--mode", "pp,qpt2,pp"], "pp is named twice"),
        (["compare", "x", "--mode", "tpp:cold=1,tpp:cold=1.0"], "tpp:cold=1 is named twice"),
        (["compare", "x", "--json", "-", "--report", "-"], "two outputs"),
        (["run", "-o", "-", "x"], "only --json and --report"),
        (["compare", "--mode=kiter:k=0", "x"], "k=0: give a whole number"),
        (["compare", "x", "--stdin", "/no/such/place"], "cannot be read"),
        (["cfg", "x", "--format", "png"], "'png'"),
        (["explain", "x", "--mode", "tpp2"], "'tpp2'"),
    ],
)
def test_bad_options(
    session: FakeSession,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    phrase: str,
) -> None:
    assert phrase in fails(capsys, *arguments)
    assert session.requests == []


def test_two_outputs_may_not_be_one_file(
    session: FakeSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both: list[str | Path] = ["--json", tmp_path / "f", "--report", tmp_path / "x" / ".." / "f"]
    (tmp_path / "x").mkdir()
    assert "two outputs" in fails(capsys, "run", "a.elf", *both)
    assert simprof("run", "a.elf", "--json", "/dev/null", "--report", "/dev/null") == 3


def test_an_output_may_not_be_an_input(
    session: FakeSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, link = tmp_path / "a.elf", tmp_path / "link"
    program.write_bytes(b"program")
    link.symlink_to(program)
    for option in ("--output", "--json", "--report"):
        for name in (program, link, tmp_path / "." / "a.elf"):
            assert "is read as well" in fails(capsys, "run", program, option, name)
    assert "is read as well" in fails(capsys, "cfg", program, "-o", link)
    assert "is read as well" in fails(capsys, "explain", program, "--json", link)
    assert "is read as well" in fails(capsys, "run", "--stdin", program, "-o", link, "x")
    assert "is read as well" in fails(
        capsys, "run", "--mode=tpp", "--edge-profile", program, "-o", link, "x"
    )
    assert "is read as well" in fails(capsys, "run", "--weights", program, "-o", link, "x")
    assert "is read as well" in fails(capsys, "compare", program, "--json", link)
    assert program.read_bytes() == b"program"
    assert session.requests == []


def test_deliberate_errors_are_one_line_and_leave_no_files(
    session: FakeSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(request: RunRequest) -> RunMeasurement:
        raise ProgramFileError(f"{request.program} is not an ELF file:\nname a SPARC program")

    session.answer = refuse
    files: list[str | Path] = [
        "--output",
        tmp_path / "p",
        "--json",
        tmp_path / "j",
        "--report",
        tmp_path / "r",
    ]
    assert "a.elf is not an ELF file: name a SPARC program" in fails(capsys, "run", "a.elf", *files)
    assert list(tmp_path.iterdir()) == []


def test_errors_carry_their_exit_status(
    session: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    class OddError(SimulatorError):
        exit_status = 99

    def refuse(request: RunRequest) -> RunMeasurement:
        raise OddError("odd")

    session.answer = refuse
    assert simprof("run", "a.elf") == 99
    assert capsys.readouterr().err == "simprof: odd\n"


@pytest.mark.parametrize(
    ("error", "status", "phrase"),
    [
        (KeyboardInterrupt(), 130, "simprof: interrupted"),
        (Stopped(2), 130, "simprof: interrupted"),
        (Stopped(15), 143, "simprof: interrupted (SIGTERM)"),
        (Stopped(1), 129, "simprof: interrupted (SIGHUP)"),
        (MemoryError(), 125, "simprof: out of memory"),
        (ZeroDivisionError("oops"), 125, "simprof: internal error"),
        (EOFError("marshal data too short"), 125, "simprof: internal error"),
    ],
)
def test_other_ends(
    session: FakeSession,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    phrase: str,
) -> None:
    def fail(request: RunRequest) -> RunMeasurement:
        raise error

    session.answer = fail
    assert simprof("run", "a.elf") == status
    assert phrase in capsys.readouterr().err.splitlines()[-1]


# --- progress


# --- the command as installed


def test_version_and_help_are_fast_and_import_little() -> None:
    script = (
        "import sys\n"
        "from profiler import cli\n"
        "status = cli.run(['--version'])\n"
        "heavy = {'numpy', 'numba', 'simprof.simulator.cpu', 'networkx', 'rich', 'elftools'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else status)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"simprof \d+\.\d+\.\d+\S*\n", done.stdout)


def test_numpy_starts_no_threads_of_its_own() -> None:
    script = (
        "import os, sys\n"
        "from simprof.profiler import cli\n"
        "def run(arguments):\n"
        "    import numpy\n"
        "    print(len(os.listdir('/proc/self/task')), 'OPENBLAS_NUM_THREADS' in os.environ)\n"
        "    return 0\n"
        "cli.run = run\n"
        "cli.main([])\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1 False\n"  # what simprof starts is not told of it


def test_calls_cost_the_same_at_any_depth() -> None:
    script = (
        "import resource\n"
        "from profiler import cli\n"
        "def faults():\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "def leaf():\n"
        "    pass\n"
        "def most(depth):\n"
        "    before = faults()\n"
        "    for _ in range(200):\n"
        "        leaf()\n"
        "    here = faults() - before\n"
        "    return max(here, most(depth - 1)) if depth else here\n"
        "def run(arguments):\n"
        "    print(most(800) < 200)\n"
        "    return 0\n"
        "cli.run = run\n"
        "cli.main([])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    # Without `LARGE_FRAME` memory is asked for at each call where a chunk ends.
    assert done.stdout == "True\n"


@pytest.mark.parametrize("command", ["run", "compare", "instrument", "verify"])
def test_short_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It has at most 50 lines of 80 columns, and each of its options is shown by --help-all."""
    assert simprof(command, "--help") == 0
    short = capsys.readouterr().out
    assert simprof(command, "--help-all") == 0
    whole = capsys.readouterr().out
    assert len(short.splitlines()) <= 50
    assert max(map(len, short.splitlines())) <= 80
    for heading in ("What to run:", "What to count:", "What to write:", "Limits:"):
        assert f"\n{heading}\n" in short
    named = re.findall(r"^  (?:-\w, )?(--[\w-]+)", short, re.MULTILINE)
    assert {"--mode", "--stdin", "--routine", "--json", "--timeout"} <= set(named)
    assert all(re.search(rf"^  (?:-\w, )?{name}\b", whole, re.MULTILINE) for name in named)
    assert "<=x" not in whole


def test_explain_without_a_graph_lists_the_options_of_modes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each mode has all of its options there, with the defaults that it uses."""
    modes = [scheme.mode for scheme in registry.definitions() if scheme.instruments]
    assert simprof("explain", "--mode", ",".join(modes)) == 0
    parts = capsys.readouterr().out.split("\n\n")
    for mode, part in zip(modes, parts, strict=True):
        options = own_options(registry.definition(mode))
        first, *lines = part.strip().splitlines()
        assert mode in first
        assert len(lines) == len(options)
        for option, line in zip(options, lines, strict=True):
            assert re.match(rf"  {option.spelling}\b", line) and option.help in line
            default = option.default_text or str(option.default).removesuffix(".0")
            assert line.endswith(f"  [default: {default}]") is (option.kind is not bool)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing argument 'FILE...'"),
        (("--mode=pp", "--html", "page.html"), "--html has no effect without FILE..."),
        (("--mode=tpp", "--json", "-"), "--json has no effect without FILE..."),
        (("--mode=tpp:cold=20",), "tpp:cold=20 without FILE...: `--mode tpp` lists the options"),
    ],
)
def test_explain_needs_a_graph_for_more(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simprof("explain", *words) == 125
    assert said in capsys.readouterr().err


def test_help_lists_each_command_in_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert simprof("--help") == 0
    text = capsys.readouterr().out
    heads = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    assert heads == ["Options", "Measure", "Look", "Learn", "Evaluate", "Set up"]
    assert re.findall(r"^  ([a-z]+)  ", text, re.MULTILINE) == list(SUBCOMMANDS)


def test_errors_show_nothing_that_terminals_obey(capsys: pytest.CaptureFixture[str]) -> None:
    """Names in damaged files end up in messages."""
    assert cli.fail("a file\nof \x1b[2Jnames\u202e", cli.FAILURE) == cli.FAILURE
    assert capsys.readouterr().err == "simprof: a file of \\x1b[2Jnames\\u202e\n"


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("-n 6", "too many open files: allow more than 6 (ulimit -n)"),
        ("-v 200000", "out of memory: allow more than 195 MiB (ulimit -v)"),
    ],
)
def test_what_the_system_lacks_is_one_line(
    limit: str, message: str, fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    command = (
        f'ulimit {limit} && exec "$0" -c "from simprof.profiler.cli import main; main()" run "$1"'
    )
    # With a cache, as users have one: without, five files are enough.
    environment = {k: v for k, v in os.environ.items() if k != "SIMPROF_NO_CACHE"}
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, fixture_elf("faults")],
        stdin=subprocess.DEVNULL,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (125, f"simprof: {message}\n")


@pytest.mark.parametrize("value", ["1e9999", "1e-99999999", "1_0e1_000_000"])
def test_exponents_that_take_forever_are_no_percentages(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simprof("regress", "check", "--tolerance", value, "a") == 125
    assert "is not a percentage" in capsys.readouterr().err


def test_long_messages_are_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    assert simprof("run", "--max-instructions", "9" * 120_000, "a") == 125
    (line,) = capsys.readouterr().err.splitlines()
    assert len(line) < 2100 and "9 ... 9" in line


def test_quiet_leaves_what_was_asked_for(
    session: FakeSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("run", "compare"):
        assert simprof(command, "-q", "a.elf") == 3
        assert capsys.readouterr() == ("", "")
        assert session.requests[-1].progress is None
        assert simprof(command, "--quiet", "--report", tmp_path / "r", "--json", "-", "a.elf") == 3
        written, told = capsys.readouterr()
        assert (json.loads(written)["program"]["file"], told) == (measurement().program.file, "")
        assert "a" in (tmp_path / "r").read_text()
    assert simprof("run", "-q", "-o", tmp_path / "p", "a.elf") == 3
    assert load(tmp_path / "p") == measurement()
    assert "is a directory" in fails(capsys, "run", "-q", "-o", "/", "a.elf")


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["run", "--mode=naive", "--registers", "saved"], "--registers has no effect on naive: "),
        (["run", "--edge-profile", "a"], "--edge-profile has no effect on pp: "),
        (["run", "--mode=edges", "--weights", "uniform"], "--weights has no effect on edges: "),
        (["compare", "--mode", "qpt,qpt2", "--table", "hash"], "--table has no effect on qpt and"),
        (["run", "--mode=tpp", "--edge-profile", "a"], ""),
        (["compare", "--mode", "pp,qpt", "--registers", "saved"], ""),
    ],
)
def test_options_without_an_effect_are_refused(
    session: FakeSession, words: list[str], note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    simprof(words[0], "-q", *words[1:], "a.elf")
    told = capsys.readouterr().err
    assert told.startswith(f"simprof: {note}") if note else told == ""
