"""Workers and their parent: they end with it, however it ends, and keep its temporary folder."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from simprof.profiler.experiments.cells import workers
from simprof.profiler.experiments.cells.cells import Cell, CellDocument, Job
from simprof.profiler.experiments.cells.run import JobGroup
from simprof.profiler.experiments.cells.settings import setting
from simprof.profiler.experiments.cells.workers import run_processes
from tests.conftest import ROOT
from tests.support.report_tables import document_of

PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())],
                         stdout=subprocess.PIPE, text=True)
print(child.pid, child.stdout.readline().strip(), flush=True)
time.sleep(600)
"""
CHILD = """
import sys, time
from simprof.profiler.profiles import scratch
scratch.die_with(int(sys.argv[1]))
print("works", flush=True)
time.sleep(600)
"""


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_a_worker_in_the_middle_of_its_work_ends_with_a_killed_parent() -> None:
    """It neither reads nor writes meanwhile: only the system can tell it."""
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child, state = parent.stdout.readline().split()
        try:
            assert state == "works" and is_running(int(child))
            parent.send_signal(signal.SIGKILL)
            parent.wait()
            deadline = time.monotonic() + 5
            while is_running(int(child)) and time.monotonic() < deadline:
                time.sleep(0.02)
            assert not is_running(int(child)), "the worker outlives its parent"
        finally:
            if is_running(int(child)):
                os.kill(int(child), signal.SIGKILL)
            parent.kill()


def test_a_worker_whose_parent_is_gone_already_does_not_begin() -> None:
    """The parent died before the worker asked to be told."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    command = [sys.executable, "-c", CHILD, str(gone.pid)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")


# In a team


def job(number: int) -> JobGroup:
    return (Job(Cell(f"b{number}", setting("pp")), Path("program")),)


def where_it_works(group: JobGroup) -> tuple[CellDocument, ...]:
    """Which process does a group, and where its temporary files are."""
    return tuple(document_of(base=os.getpid(), error=tempfile.gettempdir()) for _ in group)


@pytest.fixture(scope="module")
def results() -> list[CellDocument]:
    """What one worker at a time makes of five groups, two for each worker."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(workers, "GROUPS", 2)
        made = dict(run_processes([job(k) for k in range(5)], 1, where_it_works))
    return [made[k][0] for k in range(5)]


@pytest.mark.long
def test_a_worker_is_replaced_after_so_many_groups(results: list[CellDocument]) -> None:
    processes = [result.base for result in results]
    assert processes[0] == processes[1] and processes[2] == processes[3]
    assert len(set(processes)) == 3
    assert os.getpid() not in processes


@pytest.mark.long
def test_workers_have_a_temporary_folder_that_goes_with_them(results: list[CellDocument]) -> None:
    (folder,) = {Path(result.error or "") for result in results}
    assert folder.name.startswith("simprof-workers-")
    assert not folder.exists()
    assert multiprocessing.active_children() == []
