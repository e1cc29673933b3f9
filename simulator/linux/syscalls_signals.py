"""System calls on signals."""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping

from simprof.simulator.cpu.guest import AlternateStack, Failed, Outcome, Replaced, SignalAction
from simprof.simulator.isa.sparc import ERRNO
from simprof.simulator.linux import structures
from simprof.simulator.linux.sandbox import PROCESS_ID, failure
from simprof.simulator.linux.task import Arguments, Handler, Task

_SIGKILL, _SIGSTOP, _HIGHEST = 9, 17, 64
_NEVER_BLOCKED = 1 << (_SIGKILL - 1) | 1 << (_SIGSTOP - 1)
_BLOCK, _UNBLOCK, _SETMASK = 1, 2, 4
_SS_ONSTACK, _SS_DISABLE = 1, 2
_MIN_STACK_64, _MIN_STACK_32 = 4096, 2048
_WORD_32 = 0xFFFFFFFF


class SignalCalls:
    """Handlers, masks, sending to oneself, waiting.

    Parameters
    ----------
    task
        The process.
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
