"""Start one command, wait for its end, and write what it took. `processes` starts this as a script.

It is a small process of its own because Linux counts what a process held before it executed another
program into that program's peak: a large process that measures would measure itself.

Linux knows the peak of each process, not of several together. While the command has forked, what
all of them hold is looked at ten times a second; memory that they share counts once.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType

INTERVAL = 0.1


def held_together(process: int) -> int:
    """Return the bytes that a process and its children hold; 0 if it has none."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        total = 0
        for each in [str(process), *children] if children else []:
            for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
                total += int(line.split()[1]) if line.startswith("Pss:") else 0
        return total * 1024
    except OSError:  # one of them has ended
        return 0


class Watch(threading.Thread):
    """Looks at the memory of a process with children until the launcher ends."""

    def __init__(self, process: int) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._process = process

    def run(self) -> None:
        """Look now and then."""
        while True:
            self.peak = max(self.peak, held_together(self._process))
            time.sleep(INTERVAL)


def main() -> None:
    """Execute what the argument describes; write times and memory as JSON to standard output."""
    given = json.loads(sys.argv[1])
    os.chdir(given["directory"])
    files = [
        (os.POSIX_SPAWN_OPEN, 0, given["stdin"], os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, given["stderr"], os.O_WRONLY | os.O_CREAT, 0o600),
    ]
    command = given["command"]
    started = time.perf_counter()
    process = os.posix_spawn(
        command[0], command, given["environment"], file_actions=files, setpgroup=0
    )
    ended = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ended
        ended = True
        os.killpg(process, signal.SIGKILL)

    signal.signal(signal.SIGALRM, end)
    signal.signal(signal.SIGTERM, end)
    signal.setitimer(signal.ITIMER_REAL, given["timeout"])
    watch = Watch(process)
    watch.start()
    _, status, usage = os.wait4(process, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    answer = {
        "wall": time.perf_counter() - started,
        "cpu": usage.ru_utime + usage.ru_stime,
        "peak": max(usage.ru_maxrss * 1024, watch.peak),
        "status": os.waitstatus_to_exitcode(status),
        "ended": ended,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
