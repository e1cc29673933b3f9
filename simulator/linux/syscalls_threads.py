"""System calls on threads, the futexes on which they wait, and signals.

A thread waits by `Waits` and is woken by `GuestThreads.wake`; the scheduler is the machine's. A
program with one thread is served as ever: what it waits for by itself comes with virtual time or
never.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from simprof.simulator.cpu.guest import (
    AlternateStack,
    Exited,
    Failed,
    GuestFault,
    Outcome,
    Replaced,
    Returned,
    SignalAction,
    ThreadExited,
    Waits,
    Yields,
)
from simprof.simulator.isa.sparc import ERRNO
from simprof.simulator.linux import structures
from simprof.simulator.linux.sandbox import PROCESS_ID, failure
from simprof.simulator.linux.task import Arguments, Handler, ServiceMissingError, Task

MOST_THREADS = 1024
"""Threads that may be alive at once; `clone` answers EAGAIN beyond."""

_THREAD = 1 << 10
"""Bytes that are kept of a thread, those that have ended too: they are in the report."""

_CLONE_VM, _CLONE_FS, _CLONE_FILES, _CLONE_SIGHAND = 0x100, 0x200, 0x400, 0x800
_CLONE_THREAD, _CLONE_SETTLS = 0x10000, 0x80000
_CLONE_PARENT_SETTID, _CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x100000, 0x200000, 0x1000000
_SHARED = _CLONE_VM | _CLONE_FS | _CLONE_FILES | _CLONE_SIGHAND | _CLONE_THREAD

_WAIT, _WAKE, _REQUEUE, _CMP_REQUEUE, _WAKE_OP, _WAIT_BITSET, _WAKE_BITSET = 0, 1, 3, 4, 5, 9, 10
_COMMAND, _CLOCK_REALTIME = 0x7F, 256
_ANY_BIT = 0xFFFFFFFF


@dataclass(frozen=True)
class _Waiter:
    """A thread that waits on a futex, for wakers that share a bit with `bits`."""

    thread: int
    bits: int


class ThreadCalls:
    """Threads and futexes.

    `task`: The process.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._guest = task.guest
        self._queues: dict[int, list[_Waiter]] = {}
        self._clear_at: dict[int, int] = {}  # thread -> word to clear when it ends
        self._status = 0  # of the first thread, where it ended before others

    def handlers(self) -> Mapping[str, Handler]:
        """Return the calls by name."""
        return {
            "clone": self._clone,
            "gettid": lambda _: self._guest.threads.current,
            "set_tid_address": self._set_tid_address,
            "exit": self._exit,
            "exit_group": lambda a: Exited(a[0] & 0xFF),
            "sched_yield": lambda _: 0 if self._guest.threads.is_alone else Yields(),
            "futex": self._futex,
            "futex_time64": self._futex,
            # As under qemu-user, which has neither.
            "set_robust_list": lambda _: _fail_with(errno.ENOSYS),
            "rseq": lambda _: _fail_with(errno.ENOSYS),
        }

    def give_up(self, thread: int) -> None:
        """Forget that a thread waits: a signal has ended its call."""
        left = {
            address: [waiter for waiter in queue if waiter.thread != thread]
            for address, queue in self._queues.items()
        }
        self._queues = {address: queue for address, queue in left.items() if queue}

    # Beginning and ending

    def _clone(self, arguments: Arguments) -> Outcome:
        flags, stack, parent_word, thread_pointer, child_word = arguments[:5]
        if flags & _SHARED != _SHARED:
            if flags & _CLONE_THREAD and not flags & _CLONE_SIGHAND:
                raise failure(errno.EINVAL)
            raise ServiceMissingError("EAGAIN")
        threads = self._guest.threads
        if len(threads.alive) >= MOST_THREADS:
            raise failure(errno.EAGAIN)
        self._guest.memory.hold(_THREAD)
        number = threads.start(stack or None, thread_pointer if flags & _CLONE_SETTLS else None)
        if flags & _CLONE_PARENT_SETTID:
            self._put(parent_word, number)
        if flags & _CLONE_CHILD_SETTID:
            self._put(child_word, number)
        if flags & _CLONE_CHILD_CLEARTID:
            self._clear_at[number] = child_word
        return Returned(number, 0)  # 1 in the new thread

    def _set_tid_address(self, arguments: Arguments) -> int:
        current = self._guest.threads.current
        self._clear_at[current] = arguments[0]
        return current

    def _exit(self, arguments: Arguments) -> Outcome:
        """End the calling thread; the last one ends the process, with the first one's status."""
        threads, status = self._guest.threads, arguments[0] & 0xFF
        current = threads.current
        if current == PROCESS_ID:
            self._status = status
        word = self._clear_at.pop(current, 0)
        if len(threads.alive) == 1:
            return Exited(self._status)
        if word:
            self._put(word, 0)
            self._wake(word, 1)
        return ThreadExited(status)

    def _put(self, address: int, value: int) -> None:
        """Set a word, if it can be written; as on Linux, nobody is told where it cannot."""
        with suppress(GuestFault):
            self._guest.write(address, value.to_bytes(4, "big"))

    # Futexes

    def _futex(self, arguments: Arguments) -> int | Outcome:
        address, operation, value = arguments[0], arguments[1], arguments[2] & 0xFFFFFFFF
        command = operation & _COMMAND
        if address & 3:
            raise failure(errno.EINVAL)
        if command in (_WAIT, _WAIT_BITSET):
            return self._wait(arguments, command)
        self._guest.read(address, 4)
        count = self._task.signed32(value)
        if command == _WAKE:
            return self._wake(address, count)
        if command == _WAKE_BITSET:
            return self._wake(address, count, arguments[5])
        if command in (_REQUEUE, _CMP_REQUEUE):
            return self._requeue(arguments, command)
        if command == _WAKE_OP:
            return self._wake_op(arguments)
        return _fail_with(errno.ENOSYS)

    def _wait(self, arguments: Arguments, command: int) -> Outcome:
        address, value = arguments[0], arguments[2] & 0xFFFFFFFF
        bits = arguments[5] & _ANY_BIT if command == _WAIT_BITSET else _ANY_BIT
        if not bits:
            raise failure(errno.EINVAL)
        threads = self._guest.threads
        if threads.is_expired:
            self.give_up(threads.current)
            raise failure(errno.ETIMEDOUT)
        if int.from_bytes(self._guest.read(address, 4), "big") != value:
            raise failure(errno.EAGAIN)
        span = self._span(arguments, command)
        if threads.is_alone:
            self._task.sleep(span)
            raise failure(errno.ETIMEDOUT)
        self._queues.setdefault(address, []).append(_Waiter(threads.current, bits))
        return Waits(span, restarts=span is None)

    def _span(self, arguments: Arguments, command: int) -> int | None:
        """Return for how many nanoseconds to wait; None: for ever."""
        if not arguments[3]:
            return None
        wide = self._task.is64 or self._task.call_name.endswith("time64")
        data = self._guest.read(arguments[3], structures.timespec_size(wide))
        seconds, nanoseconds = structures.parse_timespec(data, wide)
        span = seconds * structures.SECOND + nanoseconds
        if command == _WAIT_BITSET:
            span -= self._task.now if arguments[1] & _CLOCK_REALTIME else self._task.uptime
        return max(0, span)

    def _wake(self, address: int, count: int, bits: int = _ANY_BIT) -> int:
        """Wake the first `count` threads that wait there; return how many there were."""
        queue = self._queues.get(address, [])
        woken = [waiter for waiter in queue if waiter.bits & bits][: max(count, 0)]
        for waiter in woken:
            queue.remove(waiter)
            self._guest.threads.wake(waiter.thread, 0)
        if not queue:
            self._queues.pop(address, None)
        return len(woken)

    def _requeue(self, arguments: Arguments, command: int) -> int:
        """Wake some threads, and let others wait elsewhere."""
        address, target = arguments[0], arguments[4]
        if command == _CMP_REQUEUE:
            current = int.from_bytes(self._guest.read(address, 4), "big")
            if current != arguments[5] & 0xFFFFFFFF:
                raise failure(errno.EAGAIN)
        self._guest.read(target, 4)
        woken = self._wake(address, self._task.signed32(arguments[2]))
        queue = self._queues.get(address, [])
        moved = queue[: max(self._task.signed32(arguments[3]), 0)]
        del queue[: len(moved)]
        if not queue:
            self._queues.pop(address, None)
        if moved:
            self._queues.setdefault(target, []).extend(moved)
        return woken + (len(moved) if command == _CMP_REQUEUE else 0)

    def _wake_op(self, arguments: Arguments) -> int:
        """Change the second word, wake at the first, and at the second if it was as told."""
        address, second, encoded = arguments[0], arguments[4], arguments[5] & 0xFFFFFFFF
        old = self._task.signed32(int.from_bytes(self._guest.read(second, 4), "big"))
        operand, compared = _signed12(encoded >> 12), _signed12(encoded)
        if encoded >> 31:
            operand = 1 << (operand & 31)
        operation, comparison = encoded >> 28 & 7, encoded >> 24 & 15
        if operation not in _OPERATIONS or comparison not in _COMPARISONS:
            raise failure(errno.ENOSYS)
        new = _OPERATIONS[operation](old, operand) & 0xFFFFFFFF
        self._guest.write(second, new.to_bytes(4, "big"))
        woken = self._wake(address, self._task.signed32(arguments[2]))
        if _COMPARISONS[comparison](old, compared):
            woken += self._wake(second, self._task.signed32(arguments[3]))
        return woken


_OPERATIONS: Mapping[int, Callable[[int, int], int]] = {
    0: lambda old, operand: operand,
    1: lambda old, operand: old + operand,
    2: lambda old, operand: old | operand,
    3: lambda old, operand: old & ~operand,
    4: lambda old, operand: old ^ operand,
}
"""FUTEX_OP_* -> what becomes of the second word."""
_COMPARISONS: Mapping[int, Callable[[int, int], bool]] = {
    0: lambda old, value: old == value,
    1: lambda old, value: old != value,
    2: lambda old, value: old < value,
    3: lambda old, value: old <= value,
    4: lambda old, value: old > value,
    5: lambda old, value: old >= value,
}
"""FUTEX_OP_CMP_* -> whether to wake at the second word, too."""


def _signed12(value: int) -> int:
    value &= 0xFFF
    return value - (1 << 12) if value >> 11 else value


def _fail_with(number: int) -> int:
    raise failure(number)


_SIGKILL, _SIGSTOP, _HIGHEST = 9, 17, 64
_NEVER_BLOCKED = 1 << (_SIGKILL - 1) | 1 << (_SIGSTOP - 1)
_BLOCK, _UNBLOCK, _SETMASK = 1, 2, 4
_SS_ONSTACK, _SS_DISABLE = 1, 2
_MIN_STACK_64, _MIN_STACK_32 = 4096, 2048
_WORD_32 = 0xFFFFFFFF


class SignalCalls:
    """Handlers, masks, sending to oneself, waiting.

    `task`: The process.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._guest = task.guest
        self._signals = task.guest.signals

    def handlers(self) -> Mapping[str, Handler]:
        """Return the calls by name."""
        return {
            "rt_sigaction": self._rt_sigaction,
            "sigaction": self._old_sigaction,
            "rt_sigprocmask": self._rt_sigprocmask,
            "sigprocmask": self._old_sigprocmask,
            "rt_sigpending": self._rt_sigpending,
            "sigpending": self._old_sigpending,
            "rt_sigsuspend": self._rt_sigsuspend,
            "sigsuspend": self._old_sigsuspend,
            "rt_sigtimedwait": self._rt_sigtimedwait,
            "rt_sigtimedwait_time64": self._rt_sigtimedwait,
            "pause": self._pause,
            "sigaltstack": self._sigaltstack,
            "rt_sigreturn": self._sigreturn,
            "sigreturn": self._sigreturn,
            "kill": self._kill,
            "tkill": self._tkill,
            "tgkill": self._tgkill,
            "rt_sigqueueinfo": self._kill,
        }

    # Handlers

    def _rt_sigaction(self, arguments: Arguments) -> int:
        number, new, old, restorer, size = arguments[:5]
        if size != 8:
            raise failure(errno.EINVAL)
        number = self._handled_number(number, bool(new))
        length = 32 if self._task.is64 else 20
        data = self._guest.read(new, length) if new else b""
        before = self._signals.action(number)
        if old:
            encoded = structures.sigaction(
                before.handler, before.flags, before.restorer, before.mask, self._task.is64
            )
            self._guest.write(old, encoded)
        if new:
            given = structures.parse_sigaction(data, self._task.is64)
            mask = given.mask & ~_NEVER_BLOCKED
            action = SignalAction(given.handler, given.flags, mask, restorer)
            self._signals.set_action(number, action)
        return 0

    def _old_sigaction(self, arguments: Arguments) -> int:
        """32-bit programs: one mask word, and the new-style frames marked by a negative number."""
        number, new, old = self._task.signed32(arguments[0]), arguments[1], arguments[2]
        number = self._handled_number(abs(number), bool(new))
        layout = struct.Struct(">IIII")
        data = self._guest.read(new, layout.size) if new else b""
        before = self._signals.action(number)
        if old:
            mask = before.mask & _WORD_32
            packed = layout.pack(before.handler, mask, before.flags, before.restorer)
            self._guest.write(old, packed)
        if new:
            handler, mask, flags, restorer = layout.unpack(data)
            action = SignalAction(handler, flags, mask & ~_NEVER_BLOCKED, restorer)
            self._signals.set_action(number, action)
        return 0

    def _handled_number(self, number: int, changing: bool) -> int:
        number = self._task.signed32(number)
        if not 1 <= number <= _HIGHEST or (changing and number in (_SIGKILL, _SIGSTOP)):
            raise failure(errno.EINVAL)
        return number

    # Masks

    def _read_set(self, address: int, size: int = 8) -> int:
        if size != 8:
            raise failure(errno.EINVAL)
        return structures.parse_sigset(self._guest.read(address, 8), self._task.is64)

    def _write_set(self, address: int, mask: int) -> None:
        self._guest.write(address, structures.sigset(mask, self._task.is64))

    def _rt_sigprocmask(self, arguments: Arguments) -> int:
        how, new, old, size = arguments[:4]
        if size != 8:
            raise failure(errno.EINVAL)
        before = self._signals.blocked
        if new:
            self._signals.blocked = self._combine(how, before, self._read_set(new), before)
        if old:
            self._write_set(old, before)
        return 0

    def _old_sigprocmask(self, arguments: Arguments) -> int:
        how, new, old = arguments[:3]
        before = self._signals.blocked
        if new:
            given = int.from_bytes(self._guest.read(new, 4), "big")
            low = self._combine(how, before, given, before & _WORD_32)
            self._signals.blocked = before & ~_WORD_32 | low & _WORD_32
        if old:
            self._guest.write(old, struct.pack(">I", before & _WORD_32))
        return 0

    def _combine(self, how: int, before: int, given: int, replaced: int) -> int:
        if how == _BLOCK:
            mask = before | given
        elif how == _UNBLOCK:
            mask = before & ~given
        elif how == _SETMASK:
            mask = before & ~replaced | given
        else:
            raise failure(errno.EINVAL)
        return mask & ~_NEVER_BLOCKED

    def _rt_sigpending(self, arguments: Arguments) -> int:
        self._write_set(arguments[0], self._signals.pending & self._signals.blocked)
        return 0

    def _old_sigpending(self, arguments: Arguments) -> int:
        mask = self._signals.pending & self._signals.blocked & _WORD_32
        self._guest.write(arguments[0], struct.pack(">I", mask))
        return 0

    # Waiting

    def _rt_sigsuspend(self, arguments: Arguments) -> Outcome:
        return self._suspend(self._read_set(arguments[0], arguments[1]))

    def _old_sigsuspend(self, arguments: Arguments) -> Outcome:
        return self._suspend(self._signals.blocked & ~_WORD_32 | arguments[0] & _WORD_32)

    def _pause(self, arguments: Arguments) -> Outcome:
        return self._suspend(self._signals.blocked)

    def _suspend(self, mask: int) -> Outcome:
        mask &= ~_NEVER_BLOCKED
        if not self._signals.pending & ~mask:
            self._task.sleep(None, retry=True)
        self._guest.suspend(mask)
        return Failed(ERRNO["EINTR"])

    def _rt_sigtimedwait(self, arguments: Arguments) -> int:
        """Take a pending signal of the set; without one, the time-out passes at once."""
        wanted = self._read_set(arguments[0], arguments[3])
        acceptable = wanted & self._signals.pending
        if acceptable:
            number = (acceptable & -acceptable).bit_length()
            self._signals.pending &= ~(1 << (number - 1))
            if arguments[1]:
                self._guest.write(arguments[1], struct.pack(">iii", number, 0, 0).ljust(128, b"\0"))
            return number
        span = None
        if arguments[2]:
            wide = self._task.is64 or self._task.call_name.endswith("time64")
            data = self._guest.read(arguments[2], structures.timespec_size(wide))
            seconds, nanoseconds = structures.parse_timespec(data, wide)
            span = seconds * structures.SECOND + nanoseconds
        self._task.sleep(span, retry=True)
        raise failure(errno.EAGAIN)

    # The alternate stack

    def _sigaltstack(self, arguments: Arguments) -> int:
        layout = struct.Struct(">Qi4xQ" if self._task.is64 else ">IiI")
        current = self._signals.alternate
        inside = self._signals.on_alternate_stack(self._guest.stack_pointer())
        data = self._guest.read(arguments[0], layout.size) if arguments[0] else b""
        if arguments[1]:
            flags = _SS_ONSTACK if inside else current.flags & _SS_DISABLE
            self._guest.write(arguments[1], layout.pack(current.address, flags, current.size))
        if not data:
            return 0
        if inside:
            raise failure(errno.EPERM)
        address, flags, size = layout.unpack(data)
        if flags & ~(_SS_ONSTACK | _SS_DISABLE):
            raise failure(errno.EINVAL)
        if flags & _SS_DISABLE:
            self._signals.alternate = AlternateStack()
            return 0
        if size < (_MIN_STACK_64 if self._task.is64 else _MIN_STACK_32):
            raise failure(errno.ENOMEM)
        self._signals.alternate = AlternateStack(address, 0, size)
        return 0

    def _sigreturn(self, arguments: Arguments) -> Outcome:
        self._guest.return_from_signal()
        return Replaced()

    # Sending

    def _kill(self, arguments: Arguments) -> int:
        """Process numbers 0, -1 and the negative own group all mean this process."""
        if self._task.signed32(arguments[0]) not in (PROCESS_ID, 0, -1, -PROCESS_ID):
            raise failure(errno.ESRCH)
        return self._send(arguments[1])

    def _tkill(self, arguments: Arguments) -> int:
        return self._send_to(arguments[0], arguments[1])

    def _tgkill(self, arguments: Arguments) -> int:
        if self._task.signed32(arguments[0]) != PROCESS_ID:
            raise failure(errno.ESRCH)
        return self._send_to(arguments[1], arguments[2])

    def _send_to(self, thread: int, number: int) -> int:
        """Send a signal to one thread."""
        thread, threads = self._task.signed32(thread), self._guest.threads
        if thread not in threads.alive:
            raise failure(errno.ESRCH)
        if threads.is_alone:
            return self._send(number)
        if self._checked(number):
            threads.send(thread, self._checked(number))
        return 0

    def _send(self, number: int) -> int:
        if self._checked(number):
            self._guest.raise_signal(self._checked(number))
        return 0

    def _checked(self, number: int) -> int:
        number = self._task.signed32(number)
        if not 0 <= number <= _HIGHEST:
            raise failure(errno.EINVAL)
        return number
