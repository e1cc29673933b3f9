"""A cache that many processes use, some of which are killed: nothing damaged, nothing left over."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simprof.profiler.profiles.cache_files import CacheFiles
from tests.conftest import ROOT
from tests.support.killing import Scenario, kill_everywhere

LIMIT = 40_000
SEED = 1996

USER = """
import random, sys
from pathlib import Path
from simprof.profiler.profiles.cache_files import CacheFiles
directory, limit, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
random.seed(seed)
files = CacheFiles(directory, limit)
print("ready", flush=True)
while True:
    name = f"name{random.randrange(8)}"
    what = random.random()
    if what < 0.45:
        files.write(name, (name.encode() + bytes([random.randrange(256)])) * 1500)
    elif what < 0.97:
        found = files.read(name)
        assert found is None or found == found[: len(name) + 1] * 1500, name
        assert found is None or found.startswith(name.encode()), name
    else:
        for entry in files.entries():  # as somebody who removes the directory's files does
            (directory / entry.name).unlink(missing_ok=True)
"""


def user(directory: Path, seed: int) -> subprocess.Popen[str]:
    """Start a process that writes, reads and clears until it is killed."""
    words = [sys.executable, "-c", USER, str(directory), str(LIMIT), str(seed)]
    pipe = subprocess.PIPE
    started = subprocess.Popen(words, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


@pytest.mark.long
def test_processes_that_are_killed_damage_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    draw = random.Random(SEED)
    users = [user(directory, seed) for seed in range(3)]
    for seed in range(3, 12):
        time.sleep(draw.uniform(0.0, 0.2))
        victim = users.pop(draw.randrange(len(users)))
        assert victim.poll() is None, victim.communicate()[1]
        victim.kill()
        victim.communicate()
        users.append(user(directory, seed))
    for each in users:
        assert each.poll() is None, each.communicate()[1]
        each.kill()
        each.communicate()
    files = CacheFiles(directory, LIMIT)
    named = [entry for entry in files.entries() if not entry.name.startswith(".")]
    assert all(files.read(entry.name) is not None for entry in named)
    left = [entry.name for entry in files.entries() if entry.name.startswith(".")]
    assert len(left) <= 8  # one for a name at most
    for name in left:
        os.utime(directory / name, (0, 0))
    files.write("last", b"content")
    assert sum(entry.size for entry in files.entries()) <= LIMIT
    assert not [entry.name for entry in files.entries() if entry.name.startswith(".")]


class Write(Scenario):
    """Keeps something where something is kept already."""

    def prepare(self, directory: Path) -> None:
        """Keep the first content."""
        CacheFiles(directory).write("one", b"first")

    def act(self, directory: Path) -> None:
        """Keep another content, and something more than there is room for."""
        files = CacheFiles(directory, 30)
        files.write("one", b"second")
        files.write("two", b"third")

    def check(self, directory: Path) -> None:
        """Find one or the other, and nothing else after the next time."""
        files = CacheFiles(directory, 30)
        assert files.read("one") in (b"first", b"second", None)
        assert files.read("two") in (b"third", None)
        self.act(directory)
        assert {entry.name for entry in files.entries()} == {"two"}


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux")
def test_a_kill_before_each_change_damages_nothing(tmp_path: Path) -> None:
    assert kill_everywhere(Write, tmp_path) >= 4


def test_nothing_fails_where_no_file_may_grow(tmp_path: Path) -> None:
    code = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from simprof.profiler.profiles.cache_files import CacheFiles\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (100, {resource.RLIM_INFINITY}))\n"
        "files = CacheFiles(Path(sys.argv[1]))\nfiles.write('one', bytes(10_000))\n"
        "assert files.read('one') is None and files.entries() == []\n"
        "files.write('two', b'small')\nassert files.read('two') == b'small'\n"
    )
    # -B: Python would leave its own compiled modules damaged.
    subprocess.run([sys.executable, "-B", "-c", code, str(tmp_path)], cwd=ROOT, check=True)
