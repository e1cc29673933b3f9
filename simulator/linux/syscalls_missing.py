"""System calls for services that simprof does not have.

They answer as Linux does where the service is missing, and where the call would fail on any Linux
(a socket call on a file, a program that is not there) they fail just so:

- sockets: EAFNOSUPPORT, as in a kernel without the protocol family. There being no socket, every
  other socket call finds EBADF or ENOTSOCK, which no kernel would answer otherwise;
- new processes: EAGAIN, as where the limit of processes is reached (no clone3 here);
- starting a program that is there: EACCES, as from a file system that is mounted noexec;
- tracing: ENOSYS.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import NoReturn

from simprof.simulator.linux.sandbox import failure
from simprof.simulator.linux.task import AT_FDCWD, Arguments, Handler, ServiceMissingError, Task

_AT_SYMLINK_NOFOLLOW, _AT_EMPTY_PATH = 0x100, 0x1000
_EXECUTE = 1

_ON_SOCKETS = (
    "bind", "connect", "listen", "accept", "accept4", "getsockname", "getpeername", "getsockopt",
    "setsockopt", "send", "sendto", "sendmsg", "sendmmsg", "recv", "recvfrom", "recvmsg",
    "recvmmsg", "recvmmsg_time64", "shutdown",
)  # fmt: skip

# The subcalls of socketcall (linux/net.h): two make sockets, the others are on a descriptor.
_MAKING_SOCKETS = {1: "socket", 8: "socketpair"}
_SUBCALL_LAST = 20


class MissingServices:
    """Sockets, processes, programs and tracing.

    Parameters
    ----------
    task
        The process.
    """

    def __init__(self, task: Task) -> None:
        self._task = task

    def handlers(self) -> Mapping[str, Handler]:
        """Return the calls by name."""
        return {
            **dict.fromkeys(("socket", "socketpair"), _without("EAFNOSUPPORT")),
            **dict.fromkeys(_ON_SOCKETS, lambda a: self._on_socket(a[0])),
            "socketcall": self._socketcall,
            **dict.fromkeys(("fork", "vfork"), _without("EAGAIN")),
            **dict.fromkeys(("execve", "execv"), lambda a: self._execute(AT_FDCWD, a[0], 0)),
            "execveat": lambda a: self._execute(a[0], a[1], a[4]),
            **dict.fromkeys(
                ("ptrace", "process_vm_readv", "process_vm_writev"), _without("ENOSYS")
            ),
        }

    def _on_socket(self, descriptor: int) -> NoReturn:
        """Fail as on a descriptor that is no socket: there are none."""
        self._task.descriptors.get(self._task.signed32(descriptor))  # EBADF where it is not open
        raise failure(errno.ENOTSOCK)

    def _socketcall(self, arguments: Arguments) -> NoReturn:
        subcall = self._task.signed32(arguments[0])
        if not 1 <= subcall <= _SUBCALL_LAST:
            raise failure(errno.EINVAL)
        first = self._task.words(arguments[1], 1)[0]
        if subcall in _MAKING_SOCKETS:
            self._task.call_name = _MAKING_SOCKETS[subcall]
            raise ServiceMissingError("EAFNOSUPPORT")
        self._on_socket(first)

    def _execute(self, base: int, address: int, flags: int) -> NoReturn:
        """Fail as where the program cannot be started; searches of PATH see what is missing."""
        if flags & ~(_AT_SYMLINK_NOFOLLOW | _AT_EMPTY_PATH):
            raise failure(errno.EINVAL)
        path = self._task.guest.read_string(address)
        if not path and flags & _AT_EMPTY_PATH:
            self._task.descriptors.get(self._task.signed32(base))
            raise ServiceMissingError("EACCES")
        self._task.host.check_access(self._task.base(base), path, _EXECUTE)
        raise ServiceMissingError("EACCES")


def _without(error: str) -> Handler:
    """Return the handler of a call for which there is no service: it fails with `error`."""

    def refuse(arguments: Arguments) -> NoReturn:
        raise ServiceMissingError(error)

    return refuse
