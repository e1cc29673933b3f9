"""`--call-tree`, `--follow`, `--entry`, `--calls`: what is said, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.profiler import cli
from simprof.profiler.profiles.calls import STARTED, TOP, CalledRoutine, TreeBuilder
from simprof.profiler.reports.call_tree import followed, render_csv, tree_rows
from tests.support.turns import first


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--calls", "2"], "--calls without --entry: name the routine whose calls these are"),
        (
            ["--entry", "nothing"],
            "--entry nothing: the program has no such routine: `simprof cfg` lists them all",
        ),
        (
            ["--follow", "nothing"],
            "--follow nothing: the program has no such routine: `simprof cfg` lists them all",
        ),
        (["--entry", "fibonaci"], "no such routine: did you mean 'fibonacci'? `simprof cfg`"),
        (["--follow", "Hano"], "no such routine: did you mean 'hanoi'? `simprof cfg`"),
        (["--routine", "nothing"], "no routine matches 'nothing': `simprof cfg` lists them all"),
        (["--routine", "Fib*"], "no routine matches 'Fib*': did you mean 'fibonacci'?"),
        (["--calls", "0", "--entry", "main"], "Invalid value for '--calls'"),
        (["--entry", "main", "--mode", "bits", "--trace", "t"], "--trace with --entry"),
    ],
)
def test_wrong_words_are_one_line(
    words: list[str],
    said: str,
    fixture_elf: Callable[..., Path],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The program is not run for them."""
    assert cli.run(["run", "--no-cache", str(fixture_elf("calls", "v9")), *words]) == 125
    out, err = capfd.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("words", "said"),
    first(
        2,
        [
            (["--routine", "fibb"], "no routine matches 'fibb': did you mean 'fib'?"),
            (["--follow", "fibb"], "--follow fibb: the program has no such routine: did you mean"),
            (["--entry", "fibb"], "--entry fibb: the program has no such routine: did you mean"),
            (["--exclude", "nosuch"], "no routine matches 'nosuch': `simprof cfg` lists them all"),
            (["--exclude", "*"], "is left: `simprof cfg` lists them all"),
            (["--user-only"], "has no debug information to know its own routines by"),
        ],
    ),
)
def test_programs_that_write_code_as_they_start_are_not_run_for_wrong_words(
    words: list[str],
    said: str,
    compile_c: Callable[..., Path],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """As those of the C library do: what they write is found by a run of their start-up."""
    source = (
        "#include <stdio.h>\n"
        "__attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n"
        'int main(void) { printf("%d\\n", fib(9)); return 0; }\n'
    )
    program = compile_c(source, ("-O1",))
    assert cli.run(["run", "--no-cache", str(program), *words]) == 125
    out, err = capfd.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_follow_shows_calls_as_a_tree(
    fixture_elf: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    program = str(fixture_elf("calls", "v9"))
    assert cli.run(["run", program, "--follow", "main", "--top", "0"]) == 0
    report = capfd.readouterr().err
    tree = report.split("Calls of main, with all that they execute\n")[1].split("\n\n")[0]
    assert tree.splitlines() == [
        "   share  instructions   added  calls  routine",
        "100.00 %       127,925  51,910      1  main",
        " 71.89 %        91,967  37,625      1    fibonacci",
        " 71.88 %        91,952  37,621  8,360      fibonacci",
        " 20.00 %        25,580   9,212      1    hanoi",
        " 19.98 %        25,560   9,208  2,046      hanoi",
        "  6.40 %         8,185   3,495      1    ackermann",
        "  6.39 %         8,170   3,490    778      ackermann",
        "  1.69 %         2,159   1,574      3    print",
        "  0.95 %         1,217     344     52      (less than 1 % each)",
    ]


def test_saved_reports_show_calls_as_the_run_did(
    fixture_elf: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where the profile has a call tree; a line says how."""
    program, profile = str(fixture_elf("calls", "v9")), str(tmp_path / "profile")
    assert cli.run(["run", "--follow", "main", "-o", profile, program]) == 0
    report = capfd.readouterr().err
    assert cli.run(["show", profile, "tree", "main"]) == 0
    tree = capfd.readouterr().out
    assert f"\nCalls of main, with all that they execute\n{tree}\n" in report
    assert cli.run(["show", profile, "tree"]) == 0
    whole = capfd.readouterr().out.splitlines()
    assert [line.split()[-1] for line in whole[1:4]] == ["_start", "runtime_main", "main"]
    assert whole[4].endswith("      1        fibonacci")
    assert cli.run(["show", profile]) == 0
    assert "\nrun --follow ROUTINE, or show PROFILE tree ROUTINE, " in capfd.readouterr().out
    assert cli.run(["show", profile, "tree", "nothing"]) == 125
    assert "the run never called nothing: `simprof show PROFILE tree`" in capfd.readouterr().err
    without = str(tmp_path / "without")
    assert cli.run(["run", program, "-o", without]) == 0
    capfd.readouterr()
    assert cli.run(["show", without, "tree", "main"]) == 125
    assert f"{without} has no call tree: record it" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    first(
        4,
        [
            (["--entry", "print", "--calls", "1"], "the first call of print, and nothing outside"),
            (
                ["--entry", "print", "--calls", "2"],
                "the first 2 calls of print, and nothing outside",
            ),
            (["--entry", "main", "--calls", "2"], "1 call of main, and nothing outside"),
            (["--routine", "hanoi"], "only routines that match hanoi"),
            (["--routine", "hanoi", "--routine", "f*"], "only routines that match hanoi or f*"),
            (["--exclude", "f*"], "no routine that matches f*"),
            (["--user-only"], "the program's own routines only"),
            (
                ["--user-only", "--entry", "main"],
                "1 call of main, and nothing outside; the program's own routines only",
            ),
            ([], None),
        ],
    ),
)
def test_reports_say_what_a_run_was_restricted_to(
    words: list[str],
    said: str | None,
    fixture_elf: Callable[..., Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Of a run, of its saved profile, and of a comparison."""
    program, profile = str(fixture_elf("calls", "v9")), str(tmp_path / "profile")
    reports = []
    for command in (
        ["run", "--mode", "edges", "-o", profile, *words, program],
        ["compare", "--mode", "edges", *words, program],
    ):
        assert cli.run(command) == 0
        reports.append(capfd.readouterr().err)
    assert cli.run(["show", profile]) == 0
    reports.append(capfd.readouterr().out)
    for report in reports:
        lines = [line for line in report.splitlines() if line.startswith("counted ")]
        assert [line.split(maxsplit=1)[1] for line in lines] == ([] if said is None else [said])


def test_one_call_is_counted_in_the_singular(
    fixture_elf: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    program = str(fixture_elf("calls", "v9"))
    for words, said in (
        (["--calls", "1"], " 1  call counted, and nothing outside it\n"),
        (["--calls", "2"], " 2  calls counted, and nothing outside them\n"),
    ):
        assert cli.run(["run", program, "--details", "--entry", "print", *words]) == 0
        assert said in capfd.readouterr().err


def test_what_adds_much_is_no_small_part() -> None:
    """A callee of few instructions that most of the added ones are executed in has its own row."""
    builder = TreeBuilder(
        tuple(CalledRoutine(name, at) for at, name in enumerate(["main", "costly", "tiny"])), 9
    )
    main = builder.place(TOP, STARTED, 0, TOP)
    builder.add(main, 1, 0, 99_000, 10)
    builder.add(builder.place(main, 4, 1, 0), 5, 0, 100, 8_000)
    builder.add(builder.place(main, 8, 2, 0), 7, 0, 100, 80)
    tree = builder.tree()
    assert [tuple(row) for row in tree_rows(tree)] == [
        (0, "main", 99_200, 8_090, 1),
        (1, "costly", 100, 8_000, 5),
        (1, "(less than 1 % each)", 100, 80, 7),
    ]
    # Machines get all of it.
    assert render_csv(followed(tree, "main")).splitlines()[1:] == [
        "0,main,main,0x0,1,99200,8090,99000,10",
        "1,costly,costly,0x1,5,100,8000,100,8000",
        "1,tiny,tiny,0x2,7,100,80,100,80",
    ]


def test_follow_of_what_was_not_called_says_so(
    fixture_elf: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """What the program has, and what only a run can find."""
    for name in ("ackermann", "sub_4"):
        words = ["--follow", name, "--max-instructions", "9"]
        assert cli.run(["run", str(fixture_elf("calls", "v9")), *words]) == 124
        assert f"The run never called {name}.\n" in capfd.readouterr().err


def test_json_has_contexts_calls_and_routines(
    fixture_elf: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    program = str(fixture_elf("calls", "v9"))
    assert cli.run(["run", program, "--call-tree", "--json", "-", "--report", "/dev/null"]) == 0
    answer = json.loads(capfd.readouterr().out)
    tree = answer["call_tree"]
    names = [routine["symbol"] for routine in tree["routines"]]
    first, *others = tree["contexts"]
    assert (first["parent"], first["site"], names[first["routine"]]) == (None, "start", "_start")
    assert tuple(first["inclusive"].values()) == tuple(answer["instructions"].values())
    assert all(context["site"].startswith("0x") for context in others)
    assert tree["beyond"] == 0
    (call,) = [
        each
        for each in tree["calls"]
        if (names[each["caller"] or 0], names[each["callee"]]) == ("main", "fibonacci")
    ]
    assert call["calls"] == 1
    assert call["inclusive"] == tree["routines"][call["callee"]]["inclusive"]


def test_window_is_told(
    fixture_elf: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    program = str(fixture_elf("calls", "v9"))
    words = ["--entry", "print", "--calls", "2", "--json", "-", "--report", "/dev/null"]
    assert cli.run(["run", program, *words]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert (answer["options"]["entry"], answer["options"]["calls"]) == ("print", 2)
    assert answer["counts"]["window_calls"] == 2
    (routine,) = [each for each in answer["routines"] if each["symbol"] == "print"]
    assert routine["entered"] == 2
