"""Linux system calls: number -> name -> the declared function that performs it."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from simprof.simulator.cpu.address_space import GuestFault, OutOfMemory
from simprof.simulator.isa.sparc import ERRNO, SYSTEM_CALLS_32, SYSTEM_CALLS_64, guest_errno
from simprof.simulator.linux import guest
from simprof.simulator.linux.descriptors import HostFile, WouldWait
from simprof.simulator.linux.file_data import BY_NAME, DESCRIPTORS, READING, Pages
from simprof.simulator.linux.sandbox import fail_if, failure
from simprof.simulator.linux.syscalls_files import DescriptorCalls
from simprof.simulator.linux.syscalls_paths import PathCalls
from simprof.simulator.linux.syscalls_process import CodeFile, MemoryCalls, ProcessCalls
from simprof.simulator.linux.syscalls_threads import SignalCalls, ThreadCalls, TimeCalls
from simprof.simulator.linux.task import (
    AT_FDCWD,
    Arguments,
    CallGroup,
    Handler,
    Perform,
    ServiceMissingError,
    Task,
    WaitingError,
    failing,
    missing,
)

# Refused calls that are counted one by one: Linux has fewer, but numbers are any program's to make
# up.
_MOST_REFUSED = 1000


# Groups of calls are tables of declarations (`task.CallGroup`); names and numbers are data
# (`isa.sparc`). What no group knows answers ENOSYS. Such calls, and those for services that are
# missing here, fail as on a Linux without the service (`MissingServices`); they are counted for the
# report, and with `strict` the first of them ends the run.
class SystemCalls:
    """The emulated kernel, with one process and its threads."""

    def __init__(
        self, task: Task, *, strict: bool = False, on_code_file: CodeFile = lambda *_: None
    ) -> None:
        self.task = task
        self._memory = MemoryCalls(task, on_code_file)
        self.threads = ThreadCalls(task)
        self._names = SYSTEM_CALLS_64 if task.is64 else SYSTEM_CALLS_32
        groups = (
            *(DescriptorCalls(task), PathCalls(task), self._memory, ProcessCalls(task)),
            TimeCalls(task),
            SignalCalls(task),
            MissingServices(task),
            self.threads,
        )
        self._handlers: dict[str, Handler] = {}
        for group in groups:
            self._handlers.update(group.handlers())
        self._strict = strict
        self.refused: Counter[guest.RefusedCall] = Counter()  # how often each call was refused
        self.read_only = 0  # how often a file could not be changed as it is read-only

    def name(self, number: int) -> str:
        """Return the name of system call `number`."""
        return self._names.get(number, f"number {number}")

    def call(self, number: int, arguments: Arguments) -> guest.Outcome:
        """Perform a system call: %g1, and %o0..%o5 masked to the program's width."""
        # Raises `UnsupportedError` where the call waits for ever, `RunInterrupted` where it waited
        # and the run was told to stop.
        name = self.task.call_name = self.name(number)
        handler = self._handlers.get(name)
        if handler is None:
            return self._refuse("ENOSYS")
        concerned = self._shared_pages(name, arguments)
        for pages in concerned:
            pages.write_back()
        outcome = self._perform(handler, arguments)
        for pages in concerned if name not in READING else ():
            pages.reload()
        if isinstance(outcome, guest.Exited):
            self.finish()
        return outcome

    def _shared_pages(self, name: str, arguments: Arguments) -> Sequence[Pages]:
        shared = self._memory.shared
        if shared.is_empty or (name not in DESCRIPTORS and name not in BY_NAME):
            return ()
        files = []
        for number in DESCRIPTORS.get(name, ()):
            with suppress(OSError):  # a descriptor that is not open
                files.append(self.task.file(arguments[number]))
        return shared.concerned(name, [file for file in files if isinstance(file, HostFile)])

    def finish(self) -> None:
        """Write back what shared file mappings hold; called however the run ends."""
        self.task.host.interrupted = lambda: False  # what the program has written is kept
        self._memory.shared.write_back()

    def _perform(self, handler: Handler, arguments: Arguments) -> guest.Outcome:
        try:
            result = handler(arguments)
        except WaitingError as waiting:
            return waiting.wait
        except WouldWait:
            if self.task.guest.threads.is_alone:
                raise self.task.deadlock() from None
            return guest.Waits(None, retry=True, restarts=True)
        except ServiceMissingError as missing:
            return self._refuse(missing.error)
        except GuestFault:
            return guest.Failed(ERRNO["EFAULT"])
        except OutOfMemory:
            return guest.Failed(ERRNO["ENOMEM"])
        except OSError as error:
            self.read_only += error.errno == errno.EROFS
            return guest.Failed(guest_errno(error.errno or errno.EIO))
        return guest.Returned(result) if isinstance(result, int) else result

    def _refuse(self, error: str) -> guest.Outcome:
        call = guest.RefusedCall(self.task.call_name, error)
        if call not in self.refused and len(self.refused) >= _MOST_REFUSED:
            call = guest.RefusedCall("others", error)
        self.refused[call] += 1
        return guest.Refused(call) if self._strict else guest.Failed(ERRNO[error])


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


class MissingServices(CallGroup):
    """Sockets, processes, programs and tracing."""

    def _declarations(self) -> Mapping[str, Perform]:
        return {
            # As in a kernel without the protocol family. There being no socket, every other socket
            # call finds EBADF or ENOTSOCK, which no kernel would answer otherwise.
            "socket socketpair:": missing("EAFNOSUPPORT"),
            f"{' '.join(_ON_SOCKETS)}: f": failing(errno.ENOTSOCK),
            "socketcall: i p": self._socketcall,
            # As where the limit of processes is reached (there is no clone3 here).
            "fork vfork:": missing("EAGAIN"),
            # EACCES for a program that is there, as from a file system that is mounted noexec.
            "execve execv: s": lambda path: self._execute(AT_FDCWD, path, 0),
            f"execveat: i s - - {_AT_SYMLINK_NOFOLLOW | _AT_EMPTY_PATH}": self._execute,
            "ptrace process_vm_readv process_vm_writev:": missing("ENOSYS"),
        }

    def _socketcall(self, subcall: int, address: int) -> NoReturn:
        fail_if(not 1 <= subcall <= _SUBCALL_LAST, errno.EINVAL)
        first = self._task.words(address, 1)[0]
        if subcall in _MAKING_SOCKETS:
            self._task.call_name = _MAKING_SOCKETS[subcall]
            raise ServiceMissingError("EAFNOSUPPORT")
        self._task.file(first)
        raise failure(errno.ENOTSOCK)

    def _execute(self, base: int, path: bytes, flags: int) -> NoReturn:
        # Fails as where the program cannot be started; searches of PATH see what is missing.
        if not path and flags & _AT_EMPTY_PATH:
            self._task.file(base)
        else:
            self._task.host.check_access(self._task.base(base), path, _EXECUTE)
        raise ServiceMissingError("EACCES")
