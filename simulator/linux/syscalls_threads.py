"""System calls on threads, the futexes on which they wait, signals, and virtual time."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress

from simprof.simulator.cpu.address_space import GuestFault
from simprof.simulator.isa.sparc import ERRNO
from simprof.simulator.linux import guest, signals, structures
from simprof.simulator.linux.outside import USER
from simprof.simulator.linux.process import CLOCK_TICKS
from simprof.simulator.linux.sandbox import PROCESS_ID, fail_if, failure
from simprof.simulator.linux.task import (
    CallGroup,
    Perform,
    ServiceMissingError,
    Task,
    failing,
    missing,
)

MOST_THREADS = 1024  # that may be alive at once; `clone` answers EAGAIN beyond
# Bytes that are kept of a thread, those that have ended too: they are in the report.
_THREAD = 1 << 10

_CLONE_VM, _CLONE_FS, _CLONE_FILES, _CLONE_SIGHAND = 0x100, 0x200, 0x400, 0x800
_CLONE_THREAD, _CLONE_SETTLS = 0x10000, 0x80000
_CLONE_PARENT_SETTID, _CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x100000, 0x200000, 0x1000000
_SHARED = _CLONE_VM | _CLONE_FS | _CLONE_FILES | _CLONE_SIGHAND | _CLONE_THREAD

_WAIT, _WAKE, _REQUEUE, _CMP_REQUEUE, _WAKE_OP, _WAIT_BITSET, _WAKE_BITSET = 0, 1, 3, 4, 5, 9, 10
_COMMAND, _CLOCK_REALTIME = 0x7F, 256
_ANY_BIT = 0xFFFFFFFF


#
# A thread waits by `Waits` and is woken by `GuestThreads.wake`; the scheduler is the machine's.
# What a program with one thread waits for by itself comes with virtual time or never.
class ThreadCalls(CallGroup):
    """Threads and futexes."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        # Futex -> threads that wait on it, each for wakers that share one of its bits.
        self._queues: dict[int, list[tuple[int, int]]] = {}
        self._clear_at: dict[int, int] = {}  # thread -> word to clear when it ends
        self._status = 0  # of the first thread, where it ended before others

    def _declarations(self) -> Mapping[str, Perform]:
        return {
            "clone: p p p p p": self._clone,
            "gettid:": lambda: self._guest.threads.current,
            "set_tid_address: p": self._set_tid_address,
            "exit: p": self._exit,
            "exit_group: p": lambda status: guest.Exited(status & 0xFF),
            "sched_yield:": lambda: 0 if self._guest.threads.is_alone else guest.Yields(),
            "futex futex_time64: p p u p p u": self._futex,
            # As under qemu-user, which has neither.
            "set_robust_list rseq:": failing(errno.ENOSYS),
        }

    def give_up(self, thread: int) -> None:
        """Forget that a thread waits: a signal has ended its call."""
        queues, self._queues = self._queues, {}
        for address, queue in queues.items():
            if left := [waiter for waiter in queue if waiter[0] != thread]:
                self._queues[address] = left

    # Beginning and ending

    def _clone(
        self, flags: int, stack: int, parent_word: int, thread_pointer: int, child_word: int
    ) -> guest.Outcome:
        if flags & _SHARED != _SHARED:
            fail_if(flags & _CLONE_THREAD and not flags & _CLONE_SIGHAND, errno.EINVAL)
            raise ServiceMissingError("EAGAIN")
        threads = self._guest.threads
        fail_if(len(threads.alive) >= MOST_THREADS, errno.EAGAIN)
        self._guest.memory.hold(_THREAD)
        number = threads.start(stack or None, thread_pointer if flags & _CLONE_SETTLS else None)
        if flags & _CLONE_PARENT_SETTID:
            self._put(parent_word, number)
        if flags & _CLONE_CHILD_SETTID:
            self._put(child_word, number)
        if flags & _CLONE_CHILD_CLEARTID:
            self._clear_at[number] = child_word
        return guest.Returned(number, 0)  # 1 in the new thread

    def _set_tid_address(self, address: int) -> int:
        current = self._guest.threads.current
        self._clear_at[current] = address
        return current

    def _exit(self, status: int) -> guest.Outcome:
        # The last thread ends the process, with the first one's status.
        threads, status = self._guest.threads, status & 0xFF
        current = threads.current
        if current == PROCESS_ID:
            self._status = status
        word = self._clear_at.pop(current, 0)
        if len(threads.alive) == 1:
            return guest.Exited(self._status)
        if word:
            self._put(word, 0)
            self._wake(word, 1)
        return guest.ThreadExited(status)

    def _put(self, address: int, value: int) -> None:
        # As on Linux, nobody is told where a word cannot be written.
        with suppress(GuestFault):
            self._memory.write(address, value.to_bytes(4, "big"))

    def _word(self, address: int) -> int:
        return int.from_bytes(self._memory.read(address, 4), "big")

    # Futexes

    def _futex(
        self, address: int, operation: int, value: int, timeout: int, second: int, last: int
    ) -> int | guest.Outcome:
        command, count = operation & _COMMAND, self._task.signed32(value)
        more = self._task.signed32(timeout)  # of other commands: how many threads besides
        fail_if(address & 3, errno.EINVAL)
        if command == _WAIT:
            return self._wait(address, value, timeout, operation, _ANY_BIT)
        if command == _WAIT_BITSET:
            return self._wait(address, value, timeout, operation, last)
        self._memory.read(address, 4)
        if command == _WAKE:
            return self._wake(address, count)
        if command == _WAKE_BITSET:
            return self._wake(address, count, last)
        if command == _REQUEUE:
            return self._requeue(address, count, second, more)[0]
        if command == _CMP_REQUEUE:
            fail_if(self._word(address) != last, errno.EAGAIN)
            return sum(self._requeue(address, count, second, more))
        if command == _WAKE_OP:
            return self._wake_op(address, count, second, more, last)
        raise failure(errno.ENOSYS)

    def _wait(
        self, address: int, value: int, timeout: int, operation: int, bits: int
    ) -> guest.Outcome:
        fail_if(not bits, errno.EINVAL)
        threads = self._guest.threads
        if threads.is_expired:
            self.give_up(threads.current)
            raise failure(errno.ETIMEDOUT)
        fail_if(self._word(address) != value, errno.EAGAIN)
        span = self._span(timeout, operation) if timeout else None
        if threads.is_alone:
            self._task.sleep(span)
            raise failure(errno.ETIMEDOUT)
        self._queues.setdefault(address, []).append((threads.current, bits))
        return guest.Waits(span, restarts=span is None)

    def _span(self, timeout: int, operation: int) -> int:
        seconds, nanoseconds = self._task.timespec(timeout)
        span = seconds * structures.SECOND + nanoseconds
        if operation & _COMMAND == _WAIT_BITSET:
            span -= self._task.now if operation & _CLOCK_REALTIME else self._task.uptime
        return max(0, span)

    def _wake(self, address: int, count: int, bits: int = _ANY_BIT) -> int:
        # Wake the first `count` threads that wait there; return how many there were.
        woken = self._take(address, count, bits)
        for thread, _ in woken:
            self._guest.threads.wake(thread, 0)
        return len(woken)

    def _take(self, address: int, count: int, bits: int = _ANY_BIT) -> list[tuple[int, int]]:
        queue = self._queues.pop(address, [])
        taken = [waiter for waiter in queue if waiter[1] & bits][: max(count, 0)]
        if left := [waiter for waiter in queue if waiter not in taken]:
            self._queues[address] = left
        return taken

    def _requeue(self, address: int, count: int, target: int, most: int) -> tuple[int, int]:
        # Wake some threads, and let others wait elsewhere; return how many of each.
        self._memory.read(target, 4)
        woken = self._wake(address, count)
        if moved := self._take(address, most):
            self._queues.setdefault(target, []).extend(moved)
        return woken, len(moved)

    def _wake_op(self, address: int, count: int, second: int, more: int, encoded: int) -> int:
        # Change the second word, wake at the first, and at the second if it was as told.
        old = self._task.signed32(self._word(second))
        operand, compared = (structures.signed(each, 12) for each in (encoded >> 12, encoded))
        if encoded >> 31:
            operand = 1 << (operand & 31)
        operation, comparison = encoded >> 28 & 7, encoded >> 24 & 15
        fail_if(operation not in _OPERATIONS or comparison not in _COMPARISONS, errno.ENOSYS)
        new = _OPERATIONS[operation](old, operand) & 0xFFFFFFFF
        self._memory.write(second, new.to_bytes(4, "big"))
        woken = self._wake(address, count)
        if _COMPARISONS[comparison](old, compared):
            woken += self._wake(second, more)
        return woken


# FUTEX_OP_* -> what becomes of the second word.
_OPERATIONS: Mapping[int, Callable[[int, int], int]] = {
    0: lambda old, operand: operand,
    1: lambda old, operand: old + operand,
    2: lambda old, operand: old | operand,
    3: lambda old, operand: old & ~operand,
    4: lambda old, operand: old ^ operand,
}
# FUTEX_OP_CMP_* -> whether to wake at the second word, too.
_COMPARISONS: Mapping[int, Callable[[int, int], bool]] = {
    0: lambda old, value: old == value,
    1: lambda old, value: old != value,
    2: lambda old, value: old < value,
    3: lambda old, value: old <= value,
    4: lambda old, value: old > value,
    5: lambda old, value: old >= value,
}


_HIGHEST = 64
_BLOCK, _UNBLOCK, _SETMASK = 1, 2, 4
_MIN_STACK_64, _MIN_STACK_32 = 4096, 2048
_WORD_32 = 0xFFFFFFFF


class SignalCalls(CallGroup):
    """Handlers, masks, sending to oneself, waiting."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._signals = task.guest.signals

    def _declarations(self) -> Mapping[str, Perform]:
        return {
            "rt_sigaction: i p p p =8": self._rt_sigaction,
            "sigaction: i p p": self._old_sigaction,
            "rt_sigprocmask: p p >? =8": self._rt_sigprocmask,
            "sigprocmask: p p >?": self._old_sigprocmask,
            "rt_sigpending: >": lambda: signals.sigset(self._held(), self._task.is64),
            "sigpending: >": lambda: struct.pack(">I", self._held() & _WORD_32),
            "rt_sigsuspend: p =8": lambda at: self._suspend(self._read_set(at)),
            "sigsuspend: u": lambda mask: self._suspend(self._signals.blocked & ~_WORD_32 | mask),
            "rt_sigtimedwait rt_sigtimedwait_time64: p p p =8": self._rt_sigtimedwait,
            "pause:": lambda: self._suspend(self._signals.blocked),
            "sigaltstack: p p": self._sigaltstack,
            "rt_sigreturn sigreturn:": self._sigreturn,
            "kill: i i": self._kill,
            "rt_sigqueueinfo: i i p": self._queue,
            "rt_tgsigqueueinfo: i i i p": self._queue_to,
            "tkill: i i": self._send_to,
            "tgkill: i i i": self._tgkill,
        }

    # Handlers

    def _rt_sigaction(self, number: int, new: int, old: int, restorer: int) -> None:
        is64 = self._task.is64

        def decode(data: bytes) -> signals.SignalAction:
            return signals.parse_sigaction(data, restorer, is64)

        size = 32 if is64 else 20
        self._act(number, new, old, size, decode, lambda action: signals.sigaction(action, is64))

    def _old_sigaction(self, number: int, new: int, old: int) -> None:
        # 32-bit programs: one mask word, and the new-style frames marked by a negative number.
        layout = struct.Struct(">IIII")

        def decode(data: bytes) -> signals.SignalAction:
            handler, mask, flags, restorer = layout.unpack(data)
            return signals.SignalAction(handler, flags, mask, restorer)

        def encode(action: signals.SignalAction) -> bytes:
            mask = action.mask & _WORD_32
            return layout.pack(action.handler, mask, action.flags, action.restorer)

        self._act(abs(number), new, old, layout.size, decode, encode)

    def _act(
        self,
        number: int,
        new: int,
        old: int,
        size: int,
        decode: Callable[[bytes], signals.SignalAction],
        encode: Callable[[signals.SignalAction], bytes],
    ) -> None:
        kept = (signals.Signal.KILL, signals.Signal.STOP) if new else ()
        fail_if(not 1 <= number <= _HIGHEST or number in kept, errno.EINVAL)
        data = self._memory.read(new, size) if new else b""
        if old:
            self._memory.write(old, encode(self._signals.action(number)))
        if new:
            self._signals.set_action(number, decode(data))

    # Masks

    def _held(self) -> int:
        return self._signals.pending & self._signals.blocked

    def _read_set(self, address: int) -> int:
        return signals.parse_sigset(self._memory.read(address, 8), self._task.is64)

    def _rt_sigprocmask(self, how: int, new: int) -> bytes:
        before = self._signals.blocked
        if new:
            self._change_mask(how, self._read_set(new), before)
        return signals.sigset(before, self._task.is64)

    def _old_sigprocmask(self, how: int, new: int) -> bytes:
        before = self._signals.blocked
        if new:
            self._change_mask(how, int.from_bytes(self._memory.read(new, 4), "big"), _WORD_32)
        return struct.pack(">I", before & _WORD_32)

    def _change_mask(self, how: int, given: int, replaced: int) -> None:
        before = self._signals.blocked
        masks = {
            _BLOCK: before | given,
            _UNBLOCK: before & ~given,
            _SETMASK: before & ~replaced | given,
        }
        fail_if(how not in masks, errno.EINVAL)
        self._signals.blocked = masks[how]

    # Waiting

    def _suspend(self, mask: int) -> guest.Outcome:
        mask &= ~signals.UNBLOCKABLE
        if not self._signals.pending & ~mask:
            self._task.sleep(None, retry=True)
        self._guest.suspend(mask)
        return guest.Failed(ERRNO["EINTR"])

    def _rt_sigtimedwait(self, wanted: int, info: int, timeout: int) -> int:
        # Without a pending signal of the set, the time-out passes at once.
        taken = self._signals.take_of(self._read_set(wanted))
        if taken is not None:
            if info:
                self._memory.write(info, signals.siginfo(taken, self._task.is64))
            return taken.number
        span = None
        if timeout:
            seconds, nanoseconds = self._task.timespec(timeout)
            span = seconds * structures.SECOND + nanoseconds
        self._task.sleep(span, retry=True)
        raise failure(errno.EAGAIN)

    # The alternate stack

    def _sigaltstack(self, new: int, old: int) -> None:
        layout = signals.STACK_LAYOUT[self._task.is64]
        current = self._signals.alternate
        inside = self._signals.on_alternate_stack(self._guest.stack_pointer())
        data = self._memory.read(new, layout.size) if new else b""
        if old:
            flags = signals.SS_ONSTACK if inside else current.flags & signals.SS_DISABLE
            self._memory.write(old, layout.pack(current.address, flags, current.size))
        if not data:
            return
        fail_if(inside, errno.EPERM)
        address, flags, size = layout.unpack(data)
        fail_if(flags & ~(signals.SS_ONSTACK | signals.SS_DISABLE), errno.EINVAL)
        if flags & signals.SS_DISABLE:
            self._signals.alternate = signals.AlternateStack()
            return
        fail_if(size < (_MIN_STACK_64 if self._task.is64 else _MIN_STACK_32), errno.ENOMEM)
        self._signals.alternate = signals.AlternateStack(address, 0, size)

    def _sigreturn(self) -> guest.Outcome:
        self._guest.return_from_signal()
        return guest.Replaced()

    # Sending

    def _kill(self, process: int, number: int) -> None:
        # 0, -1 and the negative own group all mean this process.
        fail_if(process not in (PROCESS_ID, 0, -1, -PROCESS_ID), errno.ESRCH)
        if self._checked(number):
            self._guest.raise_signal(_sent(number, signals.SI_USER))

    def _queue(self, process: int, number: int, info: int) -> None:
        queued = self._queued(number, info)
        fail_if(process != PROCESS_ID, errno.ESRCH)
        if number:
            self._guest.raise_signal(queued)

    def _queue_to(self, process: int, thread: int, number: int, info: int) -> None:
        queued = self._queued(number, info)
        fail_if(process != PROCESS_ID or thread not in self._guest.threads.alive, errno.ESRCH)
        if number:
            self._guest.threads.send(thread, queued)

    def _queued(self, number: int, info: int) -> signals.SignalInfo:
        data = self._memory.read(info, signals.SIGINFO_SIZE)
        fail_if(self._signals.queued >= signals.MOST_QUEUED, errno.EAGAIN)
        return signals.parse_siginfo(self._checked(number), data, self._task.is64)

    def _tgkill(self, process: int, thread: int, number: int) -> None:
        fail_if(process != PROCESS_ID, errno.ESRCH)
        self._send_to(thread, number)

    def _send_to(self, thread: int, number: int) -> None:
        threads = self._guest.threads
        fail_if(thread not in threads.alive, errno.ESRCH)
        if self._checked(number):
            threads.send(thread, _sent(number, signals.SI_TKILL))

    def _checked(self, number: int) -> int:
        fail_if(not 0 <= number <= _HIGHEST, errno.EINVAL)
        return number


def _sent(number: int, code: int) -> signals.SignalInfo:
    return signals.SignalInfo(number, code, None, PROCESS_ID, USER)


_CLOCK_THREAD = 3
_CPU_CLOCKS = frozenset({2, _CLOCK_THREAD})  # PROCESS_CPUTIME_ID, THREAD_CPUTIME_ID
_WALL_CLOCKS = frozenset({0, 5, 8, 11})  # REALTIME, its coarse and alarm forms, TAI
_UP_CLOCKS = frozenset({1, 4, 6, 7, 9})  # MONOTONIC, its raw and coarse forms, BOOTTIME
_TIMER_ABSTIME = 1


class TimeCalls(CallGroup):
    """Virtual time: it advances with executed instructions and with sleeping."""

    def _declarations(self) -> Mapping[str, Perform]:
        return {
            "time: >?": self._time,
            "gettimeofday: >? p": self._gettimeofday,
            "clock_gettime clock_gettime64: i >": self._clock_gettime,
            "clock_getres clock_getres_time64: i >?": self._clock_getres,
            "clock_nanosleep clock_nanosleep_time64: i p p": self._clock_nanosleep,
            "nanosleep: p": lambda at: self._task.sleep(self._task.duration(at)),
            "times: >?": self._times,
            "alarm: p": lambda seconds: missing("ENOSYS")() if seconds else None,
            "getitimer: - >": lambda: bytes(2 * structures.TIMEVAL[self._task.is64].size),
            "setitimer: - p >?": self._setitimer,
            "settimeofday clock_settime clock_settime64 stime:": failing(errno.EPERM),
        }

    def _read_clock(self, clock: int) -> int:
        if clock in _WALL_CLOCKS:
            return self._task.now
        if clock in _UP_CLOCKS:
            return self._task.uptime
        if clock == _CLOCK_THREAD:
            return self._guest.threads.instructions
        # Negative numbers are clocks of processes and threads; the only one is this.
        if clock in _CPU_CLOCKS or (clock < 0 and ~(clock >> 3) in (0, PROCESS_ID)):
            return self._task.cpu_time
        raise failure(errno.EINVAL)

    def _time(self) -> tuple[int, bytes]:
        seconds = self._task.now // structures.SECOND
        return seconds, seconds.to_bytes(8, "big")[0 if self._task.is64 else 4 :]

    def _gettimeofday(self, zone: int) -> bytes:
        if zone:
            self._memory.write(zone, bytes(8))
        return structures.timeval(self._task.now, self._task.is64)

    def _clock_gettime(self, clock: int) -> bytes:
        return structures.timespec(self._read_clock(clock), self._task.is_wide)

    def _clock_getres(self, clock: int) -> bytes:
        self._read_clock(clock)
        return structures.timespec(1, self._task.is_wide)

    def _clock_nanosleep(self, clock: int, flags: int, address: int) -> None:
        now = self._read_clock(clock)
        span = self._task.duration(address)
        fail_if(clock == _CLOCK_THREAD, errno.EINVAL)
        if flags & _TIMER_ABSTIME:
            span -= now
        self._task.sleep(max(0, span))

    def _times(self) -> tuple[int, bytes]:
        tick = structures.SECOND // CLOCK_TICKS
        used = (self._task.cpu_time // tick, 0, 0, 0)
        return self._task.uptime // tick, struct.pack(">4q" if self._task.is64 else ">4i", *used)

    def _setitimer(self, new: int) -> bytes:
        layout = structures.TIMEVAL[self._task.is64]
        if new:
            data = self._memory.read(new, 2 * layout.size)
            if layout.unpack_from(data, layout.size) != (0, 0):
                raise ServiceMissingError("ENOSYS")
        return bytes(2 * layout.size)
