"""Linux system calls: number -> name -> the method that performs it.

Each group of calls is a class with a table of handlers by name; names and numbers are data
(`sparc`). What no group knows answers ENOSYS. Such calls, and those for services that are missing
here (sockets, new processes), fail as on a Linux without the service; they are counted
for the report, and with `strict` the first of them ends the run.

Calls for missing services answer as Linux does where the service is missing, and where the call
would fail on any Linux (a socket call on a file, a program that is not there) they fail just so:

- sockets: EAFNOSUPPORT, as in a kernel without the protocol family. There being no socket, every
  other socket call finds EBADF or ENOTSOCK, which no kernel would answer otherwise;
- new processes: EAGAIN, as where the limit of processes is reached (no clone3 here);
- starting a program that is there: EACCES, as from a file system that is mounted noexec;
- tracing: ENOSYS.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from simprof.simulator.cpu.guest import (
    Exited,
    Failed,
    Guest,
    GuestFault,
    Outcome,
    OutOfMemory,
    Refused,
    RefusedCall,
    Returned,
    Waits,
)
from simprof.simulator.isa.sparc import ERRNO, SYSTEM_CALLS_32, SYSTEM_CALLS_64, guest_errno
from simprof.simulator.linux.descriptors import HostFile, WouldWait
from simprof.simulator.linux.file_data import BY_NAME, DESCRIPTORS, READING, Pages
from simprof.simulator.linux.outside import USER, HostCalls
from simprof.simulator.linux.sandbox import PROCESS_ID, failure
from simprof.simulator.linux.syscalls_files import DescriptorCalls
from simprof.simulator.linux.syscalls_memory import CodeFile, MemoryCalls
from simprof.simulator.linux.syscalls_paths import PathCalls
from simprof.simulator.linux.syscalls_process import ProcessCalls, TimeCalls
from simprof.simulator.linux.syscalls_threads import SignalCalls, ThreadCalls
from simprof.simulator.linux.task import (
    AT_FDCWD,
    Arguments,
    Handler,
    ServiceMissingError,
    Task,
    WaitingError,
)

_MOST_REFUSED = 1000
"""Refused calls that are counted one by one: Linux has fewer, but numbers are any program's to make
up."""


class SystemCalls:
    """The emulated kernel, with one process and its threads.

    - `guest`: The machine.
    - `host`: The outside world.
    - `name`: The program's file as it sees it.
    - `arguments`: argv, for /proc/self/cmdline; `name` where empty.
    - `stack_size`, `memory_limit`: What getrlimit and sysinfo answer, in bytes.
    - `stack_top`: Where the stack ends.
    - `seed`: Of everything random.
    - `strict`: Whether a refused call ends the run; it fails otherwise.

    Attributes
    ----------
    refused
        How often each call was refused.
    """

    def __init__(
        self,
        guest: Guest,
        host: HostCalls,
        name: bytes,
        *,
        arguments: Sequence[bytes] = (),
        stack_size: int = 8 << 20,
        stack_top: int = 0,
        memory_limit: int = 4 << 30,
        seed: int = 0,
        strict: bool = False,
        on_code_file: CodeFile = lambda *_: None,
    ) -> None:
        task = Task(
            guest,
            host,
            name=name,
            arguments=arguments or (name,),
            stack_size=stack_size,
            stack_top=stack_top,
            memory_limit=memory_limit,
            seed=seed,
        )
        self._task = task
        self._memory = MemoryCalls(task, on_code_file)
        self._threads = ThreadCalls(task)
        self._names = SYSTEM_CALLS_64 if task.is64 else SYSTEM_CALLS_32
        self._handlers: dict[str, Handler] = {
            **DescriptorCalls(task).handlers(),
            **PathCalls(task).handlers(),
            **self._memory.handlers(),
            **ProcessCalls(task).handlers(),
            **TimeCalls(task).handlers(),
            **SignalCalls(task).handlers(),
            **MissingServices(task).handlers(),
            **self._threads.handlers(),
        }
        self._strict = strict
        self.refused: Counter[RefusedCall] = Counter()

    @property
    def process_id(self) -> int:
        """Return the process's number."""
        return PROCESS_ID

    @property
    def user_id(self) -> int:
        """Return the user's number."""
        return USER

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all calls that are emulated."""
        return frozenset(self._handlers)

    @property
    def elapsed(self) -> int:
        """Virtual nanoseconds since the program started."""
        return self._task.elapsed

    def sleep_until(self, elapsed: int) -> None:
        """Let virtual time pass: all threads wait."""
        self._task.pass_time(elapsed - self._task.elapsed)

    def give_up(self, number: int) -> None:
        """Forget that a thread waits: a signal has ended its call."""
        self._threads.give_up(number)

    def name(self, number: int) -> str:
        """Return the name of system call `number`."""
        return self._names.get(number, f"number {number}")

    def call(self, number: int, arguments: Arguments) -> Outcome:
        """Perform system call `number`.

        `number`: From %g1. `arguments`: %o0..%o5, masked to the program's width.

        Raises
        ------
        UnsupportedError
            The call waits for ever.
        RunInterrupted
            It waited, and the run was told to stop.
        """
        name = self._task.call_name = self.name(number)
        handler = self._handlers.get(name)
        if handler is None:
            return self._refuse("ENOSYS")
        concerned = self._shared_pages(name, arguments)
        for pages in concerned:
            pages.write_back()
        outcome = self._perform(handler, arguments)
        for pages in concerned if name not in READING else ():
            pages.reload()
        if isinstance(outcome, Exited):
            self.finish()
        return outcome

    def _shared_pages(self, name: str, arguments: Arguments) -> Sequence[Pages]:
        """Return the pages in memory of files that the call at hand may read or write."""
        shared = self._memory.shared
        if shared.is_empty or (name not in DESCRIPTORS and name not in BY_NAME):
            return ()
        files = []
        for number in DESCRIPTORS.get(name, ()):
            with suppress(OSError):  # a descriptor that is not open
                files.append(self._task.descriptors.get(self._task.signed32(arguments[number])))
        return shared.concerned(name, [file for file in files if isinstance(file, HostFile)])

    def finish(self) -> None:
        """Write back what shared file mappings hold; called however the run ends."""
        self._task.host.interrupted = lambda: False  # what the program has written is kept
        self._memory.shared.write_back()

    def _perform(self, handler: Handler, arguments: Arguments) -> Outcome:
        try:
            result = handler(arguments)
        except WaitingError as waiting:
            return waiting.wait
        except WouldWait:
            if self._task.guest.threads.is_alone:
                raise self._task.deadlock() from None
            return Waits(None, retry=True, restarts=True)
        except ServiceMissingError as missing:
            return self._refuse(missing.error)
        except GuestFault:
            return Failed(ERRNO["EFAULT"])
        except OutOfMemory:
            return Failed(ERRNO["ENOMEM"])
        except OSError as error:
            return Failed(guest_errno(error.errno or errno.EIO))
        return Returned(result) if isinstance(result, int) else result

    def _refuse(self, error: str) -> Outcome:
        """Count the call at hand as refused and let it fail, or end the run there."""
        call = RefusedCall(self._task.call_name, error)
        if call not in self.refused and len(self.refused) >= _MOST_REFUSED:
            call = RefusedCall("others", error)
        self.refused[call] += 1
        return Refused(call) if self._strict else Failed(ERRNO[error])


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

    `task`: The process.
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
