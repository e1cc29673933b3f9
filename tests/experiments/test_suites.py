"""Suites: what their files may say, what building makes of them, and `simprof suite`.

Nothing here fetches anything but the tests marked `long`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler import cli
from simprof.profiler.experiments.suites import sources, toolchain
from simprof.profiler.experiments.suites.builder import (
    build_suite,
    check_program,
    executed_by,
    inside,
    source_hash,
)
from simprof.profiler.experiments.suites.sources import fetched_archive
from simprof.profiler.experiments.suites.suite import (
    BUILDS,
    DEFAULT_BUILD,
    INPUT_NAMES,
    Package,
    Suite,
)
from simprof.profiler.experiments.suites.suite_file import load_suite, suite_names
from simprof.profiler.experiments.suites.toolchain import BuildError
from simprof.profiler.experiments.tables.spec import SuiteMember
from simprof.profiler.experiments.tables.table import program_key, published
from simprof.profiler.profiles.fingerprint import file_sha256
from simprof.profiler.request.request import Progress
from simprof.simulator.errors import UsageError
from tests.conftest import FIXTURES
from tools.benchmarks import programs

SPEC95_INT = "099.go 124.m88ksim 126.gcc 129.compress 130.li 132.ijpeg 134.perl 147.vortex".split()

PROGRAM = """\
title = "one"
[[benchmark]]
name = "one"
group = "INT"
stands_for = "none"
why = "a test"
sources = ["one.c"]
flags = ["-DANSWER=6"]
[benchmark.inputs.train]
arguments = ["1"]
[benchmark.inputs.ref]
stdin = "words.txt"
files = [{ name = "words.txt", make = "text", size = 100, seed = 1 }]
"""
COMMANDS = """\
copy = ["one.cpp"]
commands = ["sh -c '{cxx} {flags} -static -o one one.cpp'"]
product = "one"
"""
SOURCE = '#include <stdio.h>\nint main(void) { printf("%d\\n", ANSWER); return 0; }\n'


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "simprof" / "suites"


@pytest.fixture
def suite_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a suite file, with changes; returns its path."""

    def write(old: str = "", new: str = "", text: str = PROGRAM) -> Path:
        assert old in text
        (tmp_path / "one.c").write_text(SOURCE)
        path = tmp_path / "own.toml"
        path.write_text(text.replace(old, new, 1) if old else text)
        return path

    return write


def run_cli(*words: str) -> int:
    return cli.run(list(words))


def test_the_suites_that_come_with_simprof() -> None:
    assert suite_names()[:3] == ("micro", "wcet", "spec-like")
    sizes = {name: len(load_suite(name).benchmarks) for name in suite_names()}
    assert sizes["micro"] == len(list((FIXTURES / "bin/v9").glob("*.elf")))
    assert sizes["wcet"] == 9
    for name in suite_names():
        for each in load_suite(name).benchmarks:
            assert tuple(each.inputs) == INPUT_NAMES


def test_spec_like_stands_for_all_integer_programs_and_seven_others() -> None:
    suite = load_suite("spec-like")
    replaced = " ".join(each.stands_for for each in suite.benchmarks)
    assert [name for name in SPEC95_INT if name not in replaced] == []
    assert sum(each.group == "FP" for each in suite.benchmarks) >= 7
    packages = {b.recipe.package for b in suite.benchmarks if b.recipe.package is not None}
    assert len(packages) >= 10
    assert all(len(package.sha256) == 64 for package in packages)


def test_spec_like_stands_for_the_programs_of_tpps_table_3() -> None:
    programs = load_suite("spec-like").benchmarks
    members = [SuiteMember(each.name, each.group, each.stands_for) for each in programs]
    table = published("tpp3")
    assert table is not None
    groups = {
        program_key(name): member.group
        for member in members
        if "SPEC2000" in member.releases
        for name in member.partners("SPEC")
    }
    originals = {
        program_key(str(row.values[0])): row.group for row in table.rows if row.kind == "program"
    }
    assert {name for name in originals if name not in groups} == {"gap"}
    assert {name: groups[name] for name in originals if name in groups} == {
        name: group for name, group in originals.items() if name != "gap"
    }


def test_an_unknown_suite_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="unknown suite 'spec': choose from micro, wcet, spec"):
        load_suite("spec")
    with pytest.raises(UsageError, match="no benchmark sieves"):
        load_suite("micro").benchmark("sieves")


def test_suites_are_missed_only_where_neither_checkout_nor_wheel_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packaged = tmp_path / "data"
    monkeypatch.setattr(sources, "CHECKOUT", tmp_path)
    monkeypatch.setattr(sources, "_packaged", lambda: packaged)
    assert run_cli("suite", "list") == 125
    assert capsys.readouterr().err == (
        f"simprof: {packaged}/suites is missing: suites come with simprof, install it again "
        "(pip install --force-reinstall simprof)\n"
    )
    # Another distribution's package of that name is not mistaken for the checkout's folder.
    (tmp_path / "fixtures").mkdir()
    (packaged / "suites").mkdir(parents=True)
    assert sources.suites_directory() == packaged / "suites"
    (tmp_path / "fixtures" / "suites").mkdir()
    assert sources.suites_directory() == tmp_path / "fixtures" / "suites"


@pytest.mark.parametrize("name", ["micro", "wcet"])
def test_committed_suites_need_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    monkeypatch.setenv("PATH", "")
    suite = load_suite(name)
    seen: list[Progress] = []
    report = build_suite(suite, progress=seen.append)
    assert report.failures == {}
    assert [*report.programs] == [(b.name, w) for b in suite.benchmarks for w in BUILDS.values()]
    assert [step.done for step in seen] == list(range(1, len(report.programs) + 1))
    assert all(step.total == len(seen) and step.text.startswith("cached ") for step in seen)
    for (_, build_name), program in report.programs.items():
        check_program(program.path, toolchain.width_of(build_name))
        assert program.compiler.startswith("sparc64-linux-gnu-gcc-12")
        assert program.sha256 == file_sha256(program.path)
    for benchmark in suite.benchmarks:
        for given in benchmark.inputs.values():
            assert given.stdin is None or given.stdin.is_file()
            assert given.root is None or all(
                (given.root / file.name).is_file() for file in given.files
            )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "one"', "title = ", "is not TOML"),
        ('title = "one"\n', "", "title is missing"),
        ('group = "INT"', 'group = "int"', "group is 'int', which it cannot be"),
        ('why = "a test"', "why = 3", "why must be a text"),
        ('why = "a test"', 'why = "x"\nbecause = "y"', "unknown key 'because'"),
        ('name = "one"', 'name = "../one"', "name: "),
        ('sources = ["one.c"]\n', "", "write one of committed, sources, commands"),
        ('["one.c"]', '["two.c"]', r"two\.c is missing"),
        ('["one.c"]', '"one.c"', "sources must be a list"),
        ('sources = ["one.c"]', 'package = "p"\nsources = ["one.c"]', "has no"),
        ('sources = ["one.c"]', 'commands = ["make"]', "commands need product"),
        ('stdin = "words.txt"', 'stdin = "other.txt"', "'other.txt' is none of its files"),
        ('make = "text"', 'make = "texts"', "'texts': write one of text"),
        ("size = 100", "size = -1", "size: it must be a whole number, 0 or more"),
        ('name = "words.txt"', 'name = "../words.txt"', "is not below"),
        (", seed = 1", "", "'words.txt' needs the numbers size, seed"),
        (
            "[benchmark.inputs.train]",
            "[benchmark.inputs.tests]",
            "unknown key 'tests'",
        ),
    ],
)
def test_a_wrong_suite_file_is_one_line(
    suite_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    message: str,
) -> None:
    path = suite_file(old, new)
    with pytest.raises(UsageError, match=message):
        load_suite(str(path))
    assert run_cli("suite", "list", str(path)) == 125
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(f"simprof: {path}")


MAKE = 'commands = ["make"]\nproduct = "one"\n'
SECRET = '\nfiles = [{ name = "s", copy = "%s" }]\n'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('["one.c"]', '["../secret"]', "'../secret' leads out of"),
        ('["one.c"]', '["/etc/passwd"]', "'/etc/passwd' leads out of"),
        ('["one.c"]', '["link"]', "'link' leads out of"),
        ('["one.c"]', '["linked/secret"]', "'linked/secret' leads out of"),
        ('["one.c"]', '["one.c"]\ncopy = ["../secret"]', "'../secret' leads out of"),
        ('["one.c"]', '["one.c"]\ncopy = ["one.c", "link"]', "'link' leads out of"),
        ('["one.c"]', '["one.c"]\nexclude = ["../*"]', "exclude '../\\*' leads out of the program"),
        ('["one.c"]', '["one.c"]\ndirectory = "/tmp"', "directory '/tmp' leads out of the program"),
        ('["one.c"]', '["one.c"]\ndirectory = "a/../../b"', "directory 'a/../../b' leads out"),
        ('sources = ["one.c"]', MAKE.replace("one", "../one"), "product '../one' leads out"),
        ('sources = ["one.c"]', MAKE.replace("one", "/bin/one"), "product '/bin/one' leads out"),
        ('arguments = ["1"]', SECRET % "../secret", "'../secret' leads out of"),
        ('arguments = ["1"]', SECRET % "link", "'link' leads out of"),
        ('arguments = ["1"]', SECRET.replace("copy", "unpacked") % "/a", "unpacked '/a' leads out"),
    ],
)
def test_no_path_of_a_suite_leads_out_of_it(
    suite_file: Callable[..., Path], tmp_path: Path, old: str, new: str, message: str
) -> None:
    (tmp_path / "secret").write_text("secret")
    inside = tmp_path / "suite"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path / "secret")
    (inside / "linked").symlink_to(tmp_path)
    (inside / "one.c").write_text(SOURCE)
    path = suite_file(old, new).replace(inside / "own.toml")
    with pytest.raises(UsageError, match=message):
        load_suite(str(path), allow_commands=True)


@pytest.mark.toolchain
def test_no_link_in_a_programs_sources_leads_out_of_them(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "one").write_text("kept")
    how = f'prepare = ["ln -s {tmp_path}/kept out"]\ncommands = ["true"]\nproduct = "out/one"\n'
    path = tmp_path / "own.toml"
    path.write_text(PROGRAM.replace('sources = ["one.c"]', how))
    report = build_suite(load_suite(str(path), allow_commands=True), widths=(64,))
    assert list(report.failures.values()) == ["'out/one' leads out of the program's sources"]
    assert (tmp_path / "kept" / "one").read_text() == "kept"
    (tmp_path / "out").symlink_to("/tmp")
    with pytest.raises(BuildError, match="'out' leads out"):
        inside(tmp_path, "out")


@pytest.mark.parametrize(
    "how",
    [
        MAKE,
        'sources = ["one.c"]\nprepare = ["touch x"]',
        *(
            f'sources = ["one.c"]\nmore = ["{flag}"]'
            for flag in ("-fplugin=./x.so", "-wrapper", "@x", "-B.", "-Wl,-T,x", "-specs=x", "x.c")
        ),
    ],
)
def test_suite_files_execute_commands_only_where_that_is_said(
    suite_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    started: list[object] = []
    monkeypatch.setattr(toolchain, "run", lambda command, *rest: started.append(command))
    text = PROGRAM.replace('flags = ["-DANSWER=6"]\n', "").replace('sources = ["one.c"]', how)
    path = suite_file(text=text.replace("more =", "flags ="))
    grid = path.with_name("grid.toml")
    grid.write_text('suite = "own.toml"\nmodes = ["pp"]\n')
    output = path.with_name("output")
    for words in (
        ("suite", "build", path),
        ("suite", "run", path),
        ("table", "epp1", "--suite", path),
        ("sweep", grid, "-o", output),
        ("regress", "record", "--suite", path, "-o", output),
    ):
        assert run_cli(*map(str, words)) == 125
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"simprof: {path}: benchmark one has this executed on your computer")
        assert line.endswith("give --allow-commands")
    assert started == []
    assert run_cli("suite", "list", str(path)) == 0


@pytest.mark.toolchain
def test_names_of_sources_are_no_options_of_the_compiler(suite_file: Callable[..., Path]) -> None:
    names = ["one.c", "-wrapper", "sh,evil.sh", "evil.sh"]
    path = suite_file(text=PROGRAM.replace('["one.c"]', json.dumps(names)))
    said = path.with_name("executed")
    for name in names[1:]:
        path.with_name(name).write_text("")
    for name in names[2:]:
        path.with_name(name).write_text(f"touch {said}\n")
    build_suite(load_suite(str(path)), widths=(64,))
    assert not said.exists()


@pytest.mark.parametrize(
    "flag",
    '-DA=1 -DCC65_INC="" -UA -O3 -g -w -Wall -Wno-unused -std=c99 -std=gnu++17 -m32 -lm'.split()
    + "-mcpu=v9 -fno-inline -funroll-loops -ftree-vectorize -fno-stack-protector".split(),
)
def test_ordinary_flags_are_no_commands(suite_file: Callable[..., Path], flag: str) -> None:
    recipe = load_suite(str(suite_file())).benchmarks[0].recipe
    assert executed_by(replace(recipe, flags=(flag,))) is None


def test_suites_that_come_with_simprof_need_no_leave() -> None:
    suite = load_suite("spec-like")
    assert suite.may_execute
    assert any(executed_by(each.recipe) for each in suite.benchmarks)
    assert load_suite(str(suite.path)).may_execute


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (MAKE.replace("make", "echo {nope}"), "'echo {nope}' cannot be understood"),
        (MAKE.replace("make", "echo '"), "cannot be understood (No closing quotation)"),
        ('sources = ["one.c"]\ncopy = ["one.c"]\nexclude = ["**c"]', "'\\*\\*c' is no pattern"),
        ('sources = ["one.c"]\ncopy = ["one.c"]\ndirectory = "nowhere"', "no directory 'nowhere'"),
    ],
)
def test_recipes_that_cannot_be_followed_are_failures_of_their_programs(
    suite_file: Callable[..., Path], how: str, reason: str
) -> None:
    text = PROGRAM.replace('sources = ["one.c"]', how)
    report = build_suite(load_suite(str(suite_file(text=text)), allow_commands=True), widths=(64,))
    ((_, said),) = report.failures.items()
    assert reason.replace("\\", "") in said


def test_names_are_unique(suite_file: Callable[..., Path]) -> None:
    again = PROGRAM[PROGRAM.index("[[benchmark]]") :]
    with pytest.raises(UsageError, match="two benchmarks are called one"):
        load_suite(str(suite_file(text=PROGRAM + again)))


def test_the_source_hash_is_of_content_not_of_places(
    suite_file: Callable[..., Path], tmp_path: Path
) -> None:
    recipe = load_suite(str(suite_file())).benchmarks[0].recipe
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("own.toml", "one.c"):
        shutil.copy(tmp_path / name, elsewhere)
    moved = load_suite(str(elsewhere / "own.toml")).benchmarks[0].recipe
    assert moved.files != recipe.files
    assert source_hash(moved) == source_hash(recipe)
    (elsewhere / "one.c").write_text(SOURCE + "\n")
    assert source_hash(moved) != source_hash(recipe)


@pytest.mark.toolchain
def test_fortran_programs_are_the_same_wherever_they_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.f90").write_text("program one\nprint *, 42\nend program\n")
    path = tmp_path / "one.toml"
    path.write_text(PROGRAM.replace('["one.c"]', '["one.f90"]\nlanguage = "fortran"'))
    digests = set()
    for place in ("here", "there/below"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
        report = build_suite(load_suite(str(path)), widths=(64,))
        digests.add(report.programs["one", DEFAULT_BUILD].sha256)
    assert len(digests) == 1


@pytest.mark.toolchain
@pytest.mark.parametrize("how", ['sources = ["one.cpp"]', COMMANDS], ids=["sources", "commands"])
def test_cxx_programs_are_built_from_sources_and_by_commands(tmp_path: Path, how: str) -> None:
    (tmp_path / "one.cpp").write_text("#include <new>\nint main() { throw std::bad_alloc(); }\n")
    path = tmp_path / "one.toml"
    path.write_text(PROGRAM.replace('sources = ["one.c"]', f'{how}\nlanguage = "c++"'))
    report = build_suite(load_suite(str(path), allow_commands=how == COMMANDS))
    assert report.failures == {}
    for program in report.programs.values():
        assert program.compiler.startswith("sparc64-linux-gnu-g++-12")
        assert b"St9bad_alloc" in program.path.read_bytes()


@pytest.mark.toolchain
def test_programs_are_built_once_and_again_after_a_change(
    suite_file: Callable[..., Path], own_cache: Path, tmp_path: Path
) -> None:
    states: list[str] = []
    report = build_suite(load_suite("micro"), widths=())

    def built(path: Path) -> Suite:
        nonlocal report
        states.clear()
        suite = load_suite(str(path))
        report = build_suite(suite, progress=lambda step: states.append(step.text.split()[0]))
        assert report.failures == {}
        return suite

    suite = built(suite_file())
    first = dict(report.programs)
    assert states.count("built") == 2
    check_program(first["one", DEFAULT_BUILD].path, 64)
    check_program(first["one", "v8plus-O2"].path, 32)
    assert tmp_path.as_posix().encode() not in first["one", DEFAULT_BUILD].path.read_bytes()
    stdin = suite.benchmarks[0].inputs["ref"].stdin
    assert stdin is not None
    assert stdin.read_bytes() == sources.text(100, 1)
    built(suite_file())
    assert states == ["cached", "cached"]
    assert report.programs == first
    first["one", DEFAULT_BUILD].path.write_bytes(b"damaged")
    built(suite_file())
    assert sorted(states) == ["building", "built", "cached"]
    assert report.programs == first
    built(suite_file("ANSWER=6", "ANSWER=7"))
    assert states.count("built") == 2
    assert {p.sha256 for p in report.programs.values()}.isdisjoint(
        {p.sha256 for p in first.values()}
    )


@pytest.mark.long
@pytest.mark.toolchain
def test_what_fails_is_a_row_and_the_rest_is_built(
    suite_file: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = (
        PROGRAM[PROGRAM.index("[[benchmark]]") :].replace('"one"', '"bad"').replace("one.c", "b.c")
    )
    (tmp_path / "b.c").write_text("int main(void) { return undeclared; }\n")
    path = suite_file(text=PROGRAM + bad)
    assert run_cli("suite", "build", str(path), "--build", "v9-O2") == 1
    said = capsys.readouterr()
    rows = {line.split()[0]: line for line in said.out.splitlines()}
    assert "failed: " in rows["bad"]
    assert "undeclared" in said.out  # on the line behind, where the row was folded
    assert "failed" not in rows["one"]
    assert said.err.startswith("simprof: bad v9-O2: sparc64-linux-gnu-gcc-12 failed: ")
    assert run_cli("suite", "run", str(path), "--input", "train", "--jobs", "1") == 1
    said = capsys.readouterr()
    rows = {line.split()[0]: line for line in said.out.splitlines()}
    assert " % " in rows["one"] + " "
    assert "undeclared" in said.out  # on the line behind, where the row was folded


def test_a_missing_toolchain_names_the_command_that_installs_it(
    suite_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    toolchain.version.cache_clear()
    toolchain.check.cache_clear()
    try:
        report = build_suite(load_suite(str(suite_file())), widths=(64,))
    finally:
        toolchain.version.cache_clear()
        toolchain.check.cache_clear()
    assert report.failures == {
        ("one", DEFAULT_BUILD): "sparc64-linux-gnu-gcc-12 is not installed: "
        "run tools/install_toolchain.sh"
    }


def test_an_archive_with_another_checksum_is_refused(own_cache: Path) -> None:
    package = Package("p", "p.tar.gz", "0" * 64, "p-1")
    (own_cache / "archives").mkdir(parents=True)
    (own_cache / "archives" / "p.tar.gz").write_bytes(b"something else")
    with pytest.raises(BuildError, match=r"its sha256 is not 0{64}: remove it"):
        fetched_archive(package, own_cache)


class Mirrors:
    """Two copies of Debian that are directories, and a package."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        content = b"an archive"
        self.package = Package("libone", "libone_1+2.tar.gz", sha256(content).hexdigest(), "one-1")
        places = (directory / "first", directory / "second")
        self.first, self.second = (
            place / "pool" / "main" / "libo" / "libone" / self.package.archive for place in places
        )
        for path in (self.first, self.second):
            path.parent.mkdir(parents=True)
            path.write_bytes(content)
        monkeypatch.setattr(sources, "ARCHIVES", tuple(place.as_uri() for place in places))


@pytest.fixture
def mirrors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirrors:
    return Mirrors(tmp_path, monkeypatch)


def test_an_archive_is_fetched_once(mirrors: Mirrors, own_cache: Path) -> None:
    path = fetched_archive(mirrors.package, own_cache)
    assert path == own_cache / "archives" / mirrors.package.archive
    mirrors.first.unlink()
    mirrors.second.unlink()
    assert fetched_archive(mirrors.package, own_cache).read_bytes() == b"an archive"
    assert [each.name for each in own_cache.iterdir()] == ["archives"], "no scratch is left"


@pytest.mark.parametrize("content", [None, b"", b"another archive"])
def test_a_second_place_has_what_the_first_lacks(
    content: bytes | None, mirrors: Mirrors, own_cache: Path
) -> None:
    mirrors.first.unlink() if content is None else mirrors.first.write_bytes(content)
    assert fetched_archive(mirrors.package, own_cache).read_bytes() == b"an archive"


def test_what_no_place_has_is_refused_with_every_reason(mirrors: Mirrors, own_cache: Path) -> None:
    mirrors.first.unlink()
    mirrors.second.write_bytes(b"another archive")
    with pytest.raises(BuildError) as caught:
        fetched_archive(mirrors.package, own_cache)
    reasons = str(caught.value)
    assert "libone_1+2.tar.gz cannot be fetched (file:" in reasons and "No such file" in reasons
    assert f"second: its sha256 is {sha256(b'another archive').hexdigest()}, not" in reasons
    assert not list((own_cache / "archives").iterdir())


def test_generators_make_the_same_files_everywhere() -> None:
    assert sources.text(40, 20011) == sources.text(400, 20011)[:40]
    assert sources.text(400, 1) != sources.text(400, 2)
    header, _, rest = sources.picture(31, 17, 3).partition(b"255\n")
    assert header == b"P6\n31 17\n"
    assert len(rest) == 3 * 31 * 17
    lines = sources.records(50, 3).decode().splitlines()
    assert [line.split(",")[0] for line in lines] == [str(n) for n in range(1, 51)]
    assert all(line.count(",") == 3 for line in lines)
    first, *others = sources.network(60, 200, 3).decode().splitlines()
    assert first == "p min 60 200"
    supplies = [line.split() for line in others if line[0] == "n"]
    assert sum(int(amount) for _, _, amount in supplies) == 0 and len(supplies) > 30
    arcs = [[int(each) for each in line.split()[1:]] for line in others if line[0] == "a"]
    assert len(arcs) == 200 and all(tail != head for tail, head, *_ in arcs)
    assert {(tail, head) for tail, head, *_ in arcs} >= {(n, n + 1) for n in range(1, 60)}


@pytest.mark.long
def test_the_command_runs_a_suite(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--benchmark", "f*", "--input", "train", "--mode", "pp", "--jobs", "1"]
    assert run_cli("suite", "run", "wcet", *arguments) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows[1:]] == ["fdct", "fibcall", "fir"]
    assert all(row[-1] == "%" and float(row[-2]) > 0 for row in rows[1:])
    assert run_cli("suite", "run", "wcet", "--benchmark", "absent") == 125
    assert "matches none of compress, crc" in capsys.readouterr().err


def test_the_command_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli("suite", "list") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == [
        *suite_names()
    ]
    assert run_cli("suite", "list", "spec-like") == 0
    shown = capsys.readouterr().out
    assert "Debian source package cc65" in shown
    assert "126.gcc (SPEC95), 176.gcc" in shown


@pytest.mark.long
@pytest.mark.toolchain
def test_spec_like_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program in one width. Uses the user's cache: sources are fetched at most once."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    suite = load_suite("spec-like")
    for number, width in enumerate(BUILDS):
        benchmarks = suite.benchmarks[number::2]
        report = build_suite(replace(suite, benchmarks=benchmarks), widths=(width,))
        assert report.failures == {}
        assert len(report.programs) == len(benchmarks) > 5


@pytest.mark.long
@pytest.mark.toolchain
def test_real_programs_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses the user's cache, as spec-like does; in the widths that are timed."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    suite = load_suite("real")
    built, failures = programs.build([each.name for each in suite.benchmarks])
    assert failures == {}
    assert [each.name for each in built] == [each.name for each in suite.benchmarks]
    sizes = {each.name: programs.text_size(each.path) for each in built}
    assert sizes["cppcheck"] > 4_000_000 > sizes["hello"]
