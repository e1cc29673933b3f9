"""A process that is begun afresh, for work that may crash, and the pipe to it.

It shares nothing with the process that starts it, so that this may have threads, and what crashes
there ends there alone. Unlike a process of `multiprocessing` it does not execute the caller's main
script. It dies with the process that started it, however that ends, and leaves signals to it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from simprof.profiler.profiles.scratch import die_with

_BEGIN = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from simprof.profiler.session.spawned import begin
begin(*map(int, sys.argv[2:]))
"""
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)


class Spawned:
    """A process that does one thing.

    Parameters
    ----------
    serve
        What it does, importable by its name: called with its end of the pipe and `arguments`, which
        can be pickled.
    files
        Descriptors of this process that it has, too, besides the standard streams.

    Attributes
    ----------
    pipe
        Our end of the pipe.
    """

    def __init__(
        self, serve: Callable[..., None], *arguments: object, files: Sequence[int] = ()
    ) -> None:
        self.pipe, other = Pipe()
        with other:
            words = json.dumps(sys.path), str(other.fileno()), str(os.getpid())
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BEGIN, *words], pass_fds=(other.fileno(), *files)
            )
        with suppress(OSError):  # it has died: who reads from the pipe finds out
            self.pipe.send((serve, arguments))

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self.dismiss()

    def dismiss(self) -> None:
        """Close the pipe, and wait until it has ended."""
        self.pipe.close()
        self._process.wait()

    def obituary(self) -> str:
        """Dismiss it, and return how it ended: "was ended by SIGSEGV: ..."."""
        self.dismiss()
        code = self._process.returncode
        if code >= 0:
            return f"ended with status {code}"
        cause = ": the emulator crashed; please report this program" if -code in _CRASHES else ""
        return f"was ended by {signal.Signals(-code).name}{cause}"


def begin(descriptor: int, parent: int) -> None:
    """Do what this process is for.

    Parameters
    ----------
    descriptor
        Of its end of the pipe.
    parent
        Number of the process that started it.
    """
    die_with(parent)
    from simprof.profiler.engine import kernel_cache
    from simprof.simulator import stopping

    stopping.leave_to_parent()
    kernel_cache.ensure()
    from simprof.simulator.cpu import crash  # has native code

    crash.leave_to_parent()
    pipe = Connection(descriptor)
    serve, arguments = pipe.recv()
    serve(pipe, *arguments)
