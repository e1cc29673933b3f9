"""`simprof sweep`: grids, the results file, workers, a Dask cluster, kills, damage."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from simprof.profiler.cli import run
from simprof.profiler.experiments.cells import store as store_module
from simprof.profiler.experiments.cells import workers
from simprof.profiler.experiments.cells.cells import Cell, CellDocument, Job, failure
from simprof.profiler.experiments.cells.run import JobGroup, groups
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.cells.store import Store
from simprof.profiler.experiments.cells.sweep import (
    Grid,
    GridProgram,
    JobOrder,
    Runner,
    carry_out,
    local_runner,
    make_order,
    obtain,
    read_grid,
    sweep,
)
from simprof.profiler.experiments.cells.workers import (
    pack,
    run_here,
    run_on_cluster,
    run_parcel,
    run_processes,
)
from simprof.profiler.experiments.suites.suite import BuildReport, Input
from simprof.profiler.experiments.suites.suite_file import load_suite
from simprof.simulator.errors import SimulatorError, UsageError
from tests.conftest import ROOT
from tests.support.report_tables import document_of

Find = Callable[..., Path]
PROGRAMS = ("faults", "control", "switches", "records")
MODES = ("pp", "qpt2")


@pytest.fixture(scope="module")
def order(fixture_elf: Find) -> JobOrder:
    """Eight cells in four groups."""
    programs = tuple(GridProgram(fixture_elf(name), name) for name in PROGRAMS)
    return make_order(Grid(programs=programs, modes=MODES))


@pytest.fixture(scope="module")
def serial_file(order: JobOrder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a sweep in one process."""
    path = tmp_path_factory.mktemp("serial") / "sweep.db"
    outcome = sweep(order, path, run_here)
    assert outcome.reused == 0 and outcome.failures == ()
    return path


@pytest.fixture(scope="module")
def serial(serial_file: Path) -> tuple[object, ...]:
    """Its rows."""
    return rows_of(serial_file)


def rows_of(path: Path) -> tuple[tuple[object, ...], ...]:
    with Store(path, create=False) as store:
        return store.rows()


def times_of(path: Path) -> dict[str, float]:
    """When each row was written, by key."""
    with sqlite3.connect(path) as connection:
        found = dict(connection.execute("SELECT key, written FROM cells").fetchall())
    connection.close()
    return found


def never(groups: Sequence[JobGroup]) -> Iterator[workers.Finished]:
    """A runner that must find nothing to do."""
    assert not groups
    yield from ()


# --- grids


def test_a_grid_file_is_the_product_of_its_lists(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text("""
suite = "micro"
benchmarks = ["s*es", "sieve"]
builds = ["v9-O2", "v8plus-O2"]
inputs = ["train", "ref"]
kinds = ["run", "plan"]
modes = ["pp", "tpp"]
weights = ["heuristic", "uniform"]
max_instructions = 1000000000
[[settings]]
[[settings]]
cold = 1
[[program]]
file = "a.elf"
arguments = ["1"]
stdin = "a.txt"
""")
    found = read_grid(file)
    assert len(found.settings()) == 2 + 4
    order = make_order(found)
    assert not order.failures
    names = {job.cell.benchmark for job in order.jobs}
    assert names == {"sieve", "switches", "a"}
    # two benchmarks x two builds x (two inputs + plan), and the program: run + plan; 6 settings
    assert len(order.jobs) == len(set(order.jobs)) == (2 * 2 * 3 + 2) * 6
    assert {job.max_instructions for job in order.jobs} == {1000000000}
    own = [job for job in order.jobs if job.cell.benchmark == "a"]
    assert {job.program for job in own} == {tmp_path / "a.elf"}
    assert {job.given.stdin for job in own} == {tmp_path / "a.txt", None}
    assert {job.group for job in order.jobs} == {"INT", ""}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("modes = [", "is not TOML"),
        ("mods = ['pp']\nsuite = 'micro'", "unknown key 'mods': choose from suite, program"),
        ("suite = 'micro'\nmodes = ['pppp']", "unknown mode 'pppp'"),
        ("suite = 'micro'\nmodes = []", "modes must not be empty"),
        ("suite = 'micro'\nweights = [1]", "weights[0] must be a text"),
        ("suite = 'micro'\n[[settings]]\ncold = 200", "percentage from 0 to 100"),
        ("suite = 'micro'\n[[settings]]\nwarm = 2", "'warm' is no option"),
        ("suite = 'micro'\n[[settings]]\niterations = 2", "'iterations' is no option"),
        (
            "suite = 'micro'\nmodes = ['naive']\nweights = ['uniform']",
            "weights has no effect on naive: leave it out, it is for pp, ",
        ),
        (
            "suite = 'micro'\nmodes = ['qpt', 'tpp']\n[[settings]]\n[[settings]]\nk = 3",
            "k has no effect on qpt and tpp: leave it out, it is for fifo, kiter",
        ),
        ("suite = 'micro'\nkinds = ['walk']", "'walk' is no kind"),
        ("suite = 'micro'\nbuilds = ['v7']", "unknown build 'v7'"),
        ("suite = 'micro'\ninputs = ['big']", "no input 'big'"),
        ("suite = 'micro'\nbenchmarks = ['zz*']", "no benchmark 'zz*'"),
        ("suite = 'nosuch'", "unknown suite 'nosuch'"),
        ("suite = 1", "suite must be "),
        (
            "suite = 'micro'\nmax_instructions = 0",
            "max_instructions must be a whole number, 1 or more",
        ),
        ("[[program]]\nname = 'a'", "file is missing in program[0]"),
        ("[[program]]\nfile = 'a.elf'\n[[program]]\nfile = 'b/a.elf'", "two programs are called a"),
        ("modes = ['pp']", "the grid has no programs"),
    ],
)
def test_wrong_grids_are_one_line_and_leave_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(text)
    results = tmp_path / "sweep.db"
    assert run(["sweep", str(file), "-o", str(results)]) == 125
    shown = capsys.readouterr().err
    assert says in shown and shown.count("\n") == 1
    assert not results.exists()


# --- the same rows, wherever they are made


def test_a_second_sweep_has_nothing_to_do(
    order: JobOrder, serial: tuple[object, ...], serial_file: Path
) -> None:
    written = times_of(serial_file)
    second = sweep(order, serial_file, never)
    assert second.reused == len(order.jobs) == len(serial)
    assert list(second.results) == list(order.jobs)
    assert times_of(serial_file) == written
    assert rows_of(serial_file) == serial


@pytest.mark.long
def test_processes_give_the_rows_of_the_serial_sweep(
    order: JobOrder, serial: tuple[object, ...], tmp_path: Path
) -> None:
    path = tmp_path / "sweep.db"
    sweep(order, path, local_runner(2))
    assert rows_of(path) == serial


@contextmanager
def local_cluster() -> Iterator[str]:
    """A Dask cluster of two worker processes; its address."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from distributed import LocalCluster

        with LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=2, threads_per_worker=1, dashboard_address=":0", processes=True
        ) as cluster:
            yield cluster.scheduler_address


@pytest.mark.long
def test_a_dask_cluster_gives_the_rows_of_the_serial_sweep(
    order: JobOrder, serial: tuple[object, ...], tmp_path: Path
) -> None:
    path = tmp_path / "sweep.db"
    with local_cluster() as address, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grid = tmp_path / "grid.toml"
        grid.write_text(
            f"modes = {list(MODES)}\n"
            + "".join(f"[[program]]\nfile = '{job.program}'\n" for job in order.jobs[::2])
        )
        assert run(["sweep", str(grid), "-o", str(path), "--scheduler", address]) == 0
        assert rows_of(path) == serial
        again = sweep(order, path, lambda work: run_on_cluster(work, address))
        assert again.reused == len(order.jobs)


def test_no_cluster_is_one_line(
    tmp_path: Path, fixture_elf: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simprof.profiler.experiments.cells.workers.CONNECT_TIMEOUT", 0.2)
    job = Job(Cell("faults", setting("pp")), fixture_elf("faults"))
    with (
        warnings.catch_warnings(),
        pytest.raises(SimulatorError, match="no Dask scheduler can be reached at tcp://"),
    ):
        warnings.simplefilter("ignore")
        list(run_on_cluster(groups([job]), "tcp://127.0.0.1:9"))


def test_a_parcel_needs_none_of_the_senders_files(fixture_elf: Find, tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "root" / "deep").mkdir(parents=True)
    (here / "root" / "deep" / "data").write_text("data")
    program, given = here / "words.elf", here / "words.txt"
    program.write_bytes(fixture_elf("words").read_bytes())
    given.write_text("one two one\n")
    job = Job(Cell("words", setting("pp")), program, Input("ref", stdin=given, root=here / "root"))
    (direct,) = (results for _, results in run_here([(job,)]))
    parcel = pack((job,))
    here.rename(tmp_path / "gone")
    assert parcel.files[here / "root" / "deep" / "data"] == b"data"
    from simprof.profiler.experiments.cells.cells import engine_digest

    assert run_parcel(parcel, engine_digest()) == direct
    assert direct[0].error is None
    assert run_parcel(parcel, "another version") is None


# --- kills


def noted(run: Runner, executed: list[str]) -> Runner:
    """Return what runs groups and notes of which programs they are."""

    def run_and_note(work: Sequence[JobGroup]) -> Iterator[workers.Finished]:
        for number, results in run(work):
            executed.append(work[number][0].cell.benchmark)
            yield number, results

    return run_and_note


def programs_in(path: Path) -> set[str]:
    """Programs of which a results file has something."""
    with Store(path, create=False) as store:
        return {cell.benchmark for cell in store.cells()}


def start_sweep(order: JobOrder, path: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start the command; its temporary files go into a folder beside the file."""
    temporary = path.parent / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-c", "from simprof.profiler.cli import main; main()", "sweep"]
    for job in order.jobs[:: len(MODES)]:
        command += [str(job.program)]
    command += ["--mode", ",".join(MODES), "-o", str(path), *more]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.Popen(command, start_new_session=True, env=environment)


def rows_when(path: Path, wanted: int) -> int:
    """Wait until so many rows are there; return how many are."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        if path.exists():
            try:
                found = len(times_of(path))
            except sqlite3.Error:
                found = 0
            if found >= wanted:
                return found
        time.sleep(0.01)
    raise AssertionError(f"no {wanted} rows in time")


def children_of(parent: int) -> list[int]:
    """Processes whose parent is `parent`."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.long
def test_a_sweep_killed_half_way_goes_on_where_it_was(
    order: JobOrder, serial: tuple[object, ...], tmp_path: Path
) -> None:
    path = tmp_path / "sweep.db"
    process = start_sweep(order, path, "--jobs", "1")
    try:
        rows_when(path, len(MODES))
        left = children_of(process.pid)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    before = times_of(path)
    assert 0 < len(before) < len(order.jobs), "the kill came too late to be half way"
    deadline = time.monotonic() + 30
    while any(map(is_running, left)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left and not any(map(is_running, left)), "workers outlive their sweep"
    while list((tmp_path / "temporary").iterdir()):
        assert time.monotonic() < deadline, "temporary files outlive their sweep"
        time.sleep(0.02)
    stored, executed = programs_in(path), list[str]()
    outcome = sweep(order, path, noted(run_here, executed))
    assert outcome.reused == len(before)
    assert sorted([*executed, *stored]) == sorted(PROGRAMS), "nothing is run twice"
    after = times_of(path)
    assert {key: after[key] for key in before} == before
    assert rows_of(path) == serial


def test_a_kill_before_the_first_row_leaves_nothing_in_the_way(
    order: JobOrder, serial: tuple[object, ...], tmp_path: Path
) -> None:
    path = tmp_path / "sweep.db"
    path.touch()  # SQLite opens a new file before it writes anything
    sweep(JobOrder(order.jobs[:1]), path, run_here)
    assert set(rows_of(path)) < set(serial)


def test_what_is_written_in_part_is_not_there(
    order: JobOrder, serial: tuple[object, ...], tmp_path: Path
) -> None:
    """Each group is one transaction: an error between two of its rows undoes the first."""
    path = tmp_path / "sweep.db"

    def torn(work: Sequence[JobGroup]) -> Iterator[workers.Finished]:
        number, results = next(iter(run_here(work)))
        yield number, (results[0], replace(results[1], lists=1 << 70))

    with pytest.raises(OverflowError):
        sweep(JobOrder(order.jobs[:2]), path, torn)
    assert rows_of(path) == ()
    sweep(JobOrder(order.jobs[:2]), path, run_here)
    assert len(rows_of(path)) == 2
    assert set(rows_of(path)) < set(serial)


# --- failures


def dies(group: JobGroup) -> tuple[CellDocument, ...]:
    """What a worker does in the tests: `control` kills it, the others have made-up results."""
    if group[0].cell.benchmark == "control":
        os.kill(os.getpid(), signal.SIGKILL)
    return tuple(document_of(base=os.getpid()) for _ in group)


@pytest.mark.long
def test_a_dying_worker_takes_only_its_group_with_it(order: JobOrder) -> None:
    work = groups(order.jobs)
    results = dict(run_processes(work, 1, dies))
    assert sorted(results) == [0, 1, 2, 3]
    errors = [[result.error for result in results[number]] for number in range(4)]
    assert errors == [[None] * 2, ["the worker process was ended by SIGKILL"] * 2, [None] * 2,
                      [None] * 2]  # fmt: skip


def pid_result(group: JobGroup) -> tuple[CellDocument, ...]:
    return (document_of(base=os.getpid()),) * len(group)


@pytest.mark.long
def test_workers_are_replaced_before_they_grow_large(
    order: JobOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = groups(order.jobs)
    kept = {results[0].base for _, results in run_processes(work, 1, pid_result)}
    assert len(kept) == 1 and kept != {os.getpid()}
    monkeypatch.setattr(workers, "MEMORY", 1)
    fresh = {results[0].base for _, results in run_processes(work[:2], 1, pid_result)}
    assert len(fresh) == 2


@pytest.mark.long
def test_a_failed_cell_is_a_row_and_the_sweep_goes_on(
    tmp_path: Path, fixture_elf: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.elf"
    bad.write_bytes(b"\x7fELF and nothing more")
    path = tmp_path / "sweep.db"
    command = ["sweep", str(bad), str(fixture_elf("faults")),
               str(fixture_elf("nonlocal")), "--mode", "qpt2", "-o", str(path),
               "--jobs", "1"]  # fmt: skip
    assert run(command) == 1
    shown = capsys.readouterr()
    assert "3 cells: 3 run now, 0 from before, 2 failed" in shown.out
    alone = ["sweep", str(fixture_elf("faults")), "--mode", "qpt2", "-o", str(tmp_path / "one.db")]
    assert run(alone) == 0
    assert ": 1 cell: 1 run now, 0 from before, 0 failed" in capsys.readouterr().out
    lines = shown.err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("simprof: bad ref qpt2 (file): ")
    assert lines[1].startswith("simprof: nonlocal ref qpt2 (file): ")
    assert lines[1].endswith("ended with status 4, not 0")
    with Store(path) as store:
        errors = {cell.benchmark: result.error for cell, result in store.cells().items()}
    assert errors["faults"] is None
    assert None not in (errors["bad"], errors["nonlocal"])
    written = times_of(path)
    assert run(command) == 1  # the failures are still told, and not run again
    assert times_of(path) == written
    assert run([*command, "--retry-failed"]) == 1
    again = times_of(path)
    changed = [key for key in written if written[key] != again[key]]
    assert len(changed) == 2 and written.keys() == again.keys()


def test_a_program_that_cannot_be_built_is_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from simprof.profiler.experiments.cells import sweep as module
    from simprof.profiler.experiments.suites.builder import build_suite

    suite = load_suite("micro")

    def half(suite: object, **more: object) -> BuildReport:
        report = build_suite(suite, **more)  # type: ignore[arg-type]
        programs = {key: built for key, built in report.programs.items() if key[0] != "sieve"}
        return BuildReport(report.suite, programs, {("sieve", "v9-O2"): "no compiler"})

    monkeypatch.setattr(module, "build_suite", half)
    cells = [Cell(name, setting("qpt2"), "train") for name in ("sieve", "faults")]
    with Store(tmp_path / "store.db") as store:
        found = obtain(suite, cells, store=store, workers=0).cells
        assert set(found) == set(cells)
        assert found[cells[0]].error == "sieve (v9-O2) is not there: no compiler"
        assert found[cells[1]].error is None
        assert store.cells("micro") == found
        assert store.cells("other") == {}
        monkeypatch.setattr(module, "build_suite", build_suite)
        fixed = obtain(suite, cells, store=store, workers=0).cells
        assert fixed[cells[0]].error is None
        files = {(each.benchmark, each.input): each for each in store.files("micro")}
        assert files.keys() == {("sieve", "train"), ("faults", "train")}
        program = build_suite(suite).programs["sieve", "v9-O2"].path
        assert files["sieve", "train"].program == sha256(program.read_bytes()).hexdigest()
        assert store.files("other") == ()
        assert store.cells() == fixed, "of two results with one name the newer counts"
        names = [(name, suite) for suite, name, _ in store.benchmarks()]
        order = [each.name for each in suite.benchmarks]
        assert names == sorted(
            [("sieve", "micro"), ("faults", "micro")], key=lambda pair: order.index(pair[0])
        )


# --- the file


@pytest.mark.parametrize("what", ["text", "foreign", "newer", "damaged", "cut", "columns"])
def test_a_foreign_or_damaged_file_is_left_as_it_is(
    what: str, order: JobOrder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sweep.db"
    spoil(path, what)
    before = hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns
    command = ["sweep", str(order.jobs[0].program), "--mode", "qpt2"]
    assert run([*command, "-o", str(path)]) == 125
    shown = capsys.readouterr().err
    assert str(path) in shown and shown.count("\n") == 1
    assert (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) == before
    assert [file.name for file in tmp_path.iterdir()] == ["sweep.db"]


def spoil(path: Path, what: str) -> None:
    """Make a file that is no results file, or no longer one."""
    if what == "text":
        path.write_text("a letter\n" * 100)
        return
    if what == "foreign":
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE cells (key TEXT)")
        connection.close()
        return
    with Store(path) as store:
        job = Job(Cell("x", setting("pp")), Path(__file__))
        outcome = carry_out(JobOrder((job,)), lambda work: iter([(0, (failure("x" * 9000),))]),
                            store=store)  # fmt: skip
        assert outcome.reused == 0
    data = bytearray(path.read_bytes())
    if what == "newer":
        data[60:64] = (9).to_bytes(4, "big")
    elif what == "damaged":
        data[200:] = os.urandom(len(data) - 200)
    elif what == "cut":
        del data[len(data) // 2 :]
    path.write_bytes(data)
    if what == "columns":
        connection = sqlite3.connect(path)
        connection.execute("ALTER TABLE cells ADD COLUMN more TEXT")
        connection.commit()
        connection.close()


TEXT_FOR_A_NUMBER = zlib.compress(
    b'{"routines": [{"symbol": "main", "routine_address": "0x1", "potential_paths": 1, '
    b'"table": "none", "added": "many"}], "code": [], "paths": {}}'
)


@pytest.mark.parametrize(
    "damage",
    [
        "document = x'00'", "document = '{}'", "lists = x'00'", "timing = '[]'",
        """document = '{"error": null, "instructions": {"base": "many", "added": 1}}'""",
        f"lists = x'{TEXT_FOR_A_NUMBER.hex()}'",
    ],
)  # fmt: skip
def test_a_result_that_cannot_be_read_is_an_error(
    damage: str, serial_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "damaged.db"
    shutil.copy(serial_file, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"UPDATE cells SET {damage}")
    with pytest.raises(UsageError, match="damaged"), Store(path, create=False) as store:
        for result in store.cells().values():
            assert not result.routines


def test_two_sweeps_do_not_write_to_one_file(order: JobOrder, tmp_path: Path) -> None:
    path = tmp_path / "sweep.db"

    def meanwhile(work: Sequence[JobGroup]) -> Iterator[workers.Finished]:
        with pytest.raises(UsageError, match="another sweep"):
            sweep(order, path, never)
        yield from run_here(work)

    one = JobOrder(order.jobs[:1])
    sweep(one, path, meanwhile)
    assert sweep(one, path, never).reused == 1


def test_results_of_another_simprof_are_not_taken_for_ones_own(
    order: JobOrder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from simprof.profiler.experiments.cells import cells as cells_module

    one = JobOrder(order.jobs[:1])
    path = tmp_path / "sweep.db"
    sweep(one, path, run_here)
    made = cells_module.versions()
    newer = replace(made, cost_model="2-feedfeedfeed")
    monkeypatch.setattr(cells_module, "versions", lambda: newer)
    assert sweep(one, path, run_here).reused == 0
    with Store(path, create=False) as store:
        assert store.latest() == newer
        assert len(store.rows()) == 2
        assert len(store.cells()) == 1


def test_a_missing_file_is_made_only_where_that_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        Store(tmp_path / "none.db", create=False)
    assert list(tmp_path.iterdir()) == []
    with Store(tmp_path / "deep" / "er" / "new.db") as store:
        assert store.rows() == () and store.latest() is None and store.cells() == {}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--mode", "pp,"], "unknown mode ''"),
        (["--settings", "cold"], "a setting: cold needs a value"),
        (["--mode", "naive", "--weights", "uniform"], "weights has no effect on naive"),
        (["--mode", "naive", "--settings", "path-limit=9"], "path-limit has no effect on naive"),
        (["--suite", "micro", "--build", "v1"], "unknown build 'v1'"),
        (["grid.toml", "--mode", "pp"], "--mode with grid.toml"),
        ([], "the grid has no programs"),
        (["missing.elf"], "missing.elf cannot be read"),
        (
            [str(ROOT / "README.md"), "--", "3000"],
            "3000 cannot be read: there is no such file (a program's arg",
        ),
    ],
)
def test_wrong_options_are_one_line(
    more: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sweep.db"
    assert run(["sweep", "-o", str(path), *more]) == 125
    shown = capsys.readouterr().err
    assert says in shown and shown.count("\n") == 1


@pytest.mark.long
def test_a_sweep_on_a_cluster_killed_half_way_goes_on_where_it_was(
    order: JobOrder, serial: tuple[object, ...], tmp_path: Path
) -> None:
    path = tmp_path / "sweep.db"
    with local_cluster() as address, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        process = start_sweep(order, path, "--scheduler", address)
        try:
            rows_when(path, len(MODES))
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        before, stored = times_of(path), programs_in(path)
        executed = list[str]()
        outcome = sweep(order, path, noted(lambda work: run_on_cluster(work, address), executed))
    assert outcome.reused == len(before) >= len(MODES)
    assert sorted([*executed, *stored]) == sorted(PROGRAMS)
    after = times_of(path)
    assert {key: after[key] for key in before} == before
    assert rows_of(path) == serial


NUMBERS = "WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r)"


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (
            (
                "ALTER TABLE cells RENAME TO kept",
                f"CREATE VIEW cells AS {NUMBERS} SELECT kept.* FROM kept, r",
            ),
            "is prohibited",
        ),
        (("UPDATE cells SET document = zeroblob(33554433)",), "too big"),
    ],
)
def test_what_a_results_file_would_have_executed_is_not(
    statements: Sequence[str], reason: str, serial_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "hostile.db"
    shutil.copy(serial_file, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    with pytest.raises(UsageError, match=f"hostile.db is damaged .*{reason}"), Store(path) as store:
        store.cells()


def test_a_trigger_of_a_results_file_is_not_executed(
    serial_file: Path, order: JobOrder, tmp_path: Path
) -> None:
    path = tmp_path / "hostile.db"
    shutil.copy(serial_file, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE big (x)")
        connection.execute(
            "CREATE TRIGGER t AFTER INSERT ON cells BEGIN INSERT INTO big VALUES (1); END"
        )
        connection.execute("DELETE FROM cells")
    with pytest.raises(UsageError, match=r"hostile.db is damaged \(not authorized\)"):
        sweep(order, path, run_here)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM big").fetchone() == (0,)


def test_a_statement_that_takes_too_many_steps_ends(
    serial_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "STEPS", 1)
    monkeypatch.setattr(store_module, "LEAST_STEPS", 0)
    with pytest.raises(UsageError, match="cannot be used: interrupted"):
        Store(serial_file)
