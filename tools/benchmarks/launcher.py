"""Start one command, wait for its end, and write what it took. `processes` starts this as a script.

It is a small process of its own because Linux counts what a process held before it executed another
program into that program's peak: a large process that measures would measure itself.
"""

import json
import os
import signal
import sys
import time
from types import FrameType


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
    _, status, usage = os.wait4(process, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    answer = {
        "wall": time.perf_counter() - started,
        "cpu": usage.ru_utime + usage.ru_stime,
        "peak": usage.ru_maxrss * 1024,
        "status": os.waitstatus_to_exitcode(status),
        "ended": ended,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
