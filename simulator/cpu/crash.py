"""What is left to do when native code crashes: to say so, and to end."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simprof.simulator.cpu.compiled import CFunction, c_function, types
from simprof.simulator.cpu.native import call1, call3, get_word, kept_word, native, store8
from simprof.simulator.stopping import ENDING, Stopped

FATAL: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
LAST_INTERRUPT: Final = 3  # this signal to stop ends the process; the first asks it to stop
STATUS_CRASHED: Final = 125
STOPPING: Final = (signal.SIGINT, *ENDING)
_DIGITS: Final = 16
_STACK_BYTES: Final = 64 << 10
ACTION_BYTES: Final = 256  # more than struct sigaction has
_FLAGS_OFFSET: Final = 8 + 128  # behind the handler and the mask, in glibc's and musl's
_ON_STACK: Final = 0x08000000


class EndingWord(IntEnum):
    """Words of the handler's state, int64: then four for each signal from 0 on (`MessageWord`)."""

    WRITE = 0  # C address of write(2)
    EXIT = 1  # and of _exit(2)
    BLOCK = 2  # address of the word that has the address of the current block
    INTERRUPTS = 3  # signals to stop so far
    MESSAGES = 4


class MessageWord(IntEnum):
    """Words that say what is written at a signal, and the exit status."""

    TEXT = 0  # address
    SIZE = 1  # bytes
    DIGITS = 2  # where in the text the block's address goes; 0: nowhere
    STATUS = 3


_MESSAGE_WORDS: Final = 4
_STDERR: Final = 2


# The engine translates whatever a program holds, and may die of it. A handler of the fatal signals
# then writes one line, which tells the program and the block that was executed last, and ends the
# process with the exit status of simprof's own failures. Nothing else is safe at this point, and
# nothing else is needed: output files have no name before they are whole, and a shell waits to
# remove temporary folders.
@native(types.void(types.uint64, types.uint64))
def end_process(words: Any, number: Any) -> None:
    """Write what is said at a signal, and end the process."""
    message = words + np.uint64(8) * (
        np.uint64(EndingWord.MESSAGES) + np.uint64(_MESSAGE_WORDS) * number
    )
    text = get_word(message, MessageWord.TEXT)
    place = get_word(message, MessageWord.DIGITS)
    if place != np.uint64(0):
        value = get_word(get_word(words, EndingWord.BLOCK), np.uint64(0))
        for digit in range(_DIGITS):
            nibble = np.uint8((value >> np.uint64(4 * (_DIGITS - 1 - digit))) & np.uint64(15))
            letter = nibble + np.uint8(48 if nibble < np.uint8(10) else 87)
            store8(text + place + np.uint64(digit), np.uint8(letter))
    size = get_word(message, MessageWord.SIZE)
    call3(get_word(words, EndingWord.WRITE), np.uint64(_STDERR), text, size)
    call1(get_word(words, EndingWord.EXIT), get_word(message, MessageWord.STATUS))


@c_function(types.void(types.int32, types.uint64))
def _on_fatal_signal(number: Any, argument: Any) -> None:
    # A C signal handler. Called with number -1 by us: remember the words at `argument`.
    words = kept_word(number == np.int32(-1), argument)
    if number != np.int32(-1) and words != np.uint64(0):
        end_process(words, np.uint64(number))


class _SignalStack(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


# The same way out is for an engine that does not stop when it is told to: the third Ctrl-C of a
# run, or other signal that stops it, ends the process.
#
# Where somebody else handles such a signal (Python's `faulthandler`, say), it stays theirs; worker
# processes leave it to the system, and what it means to their parent (`leave_to_parent`).
class _Policy:
    reports = True


def leave_to_parent() -> None:
    """Have crashes of this process end it by their signal: who started it says what it means."""
    _Policy.reports = False


@contextmanager
def reported(program: Path, clock: NDArray[np.int64], block: int, endings: int) -> Iterator[None]:
    """Have crashes in a `with` block end the process with a message that names `program`."""
    # `block`, `endings`: The words of the clock that have the address of the current block, and
    # that of the handler's state.
    if not _Policy.reports:
        yield
        return
    words, texts = _make_words(program, clock.ctypes.data + 8 * block)
    stack = ctypes.create_string_buffer(_STACK_BYTES)
    libc = ctypes.CDLL(None)
    old_stack = _SignalStack()
    new_stack = _SignalStack(ctypes.addressof(stack), 0, _STACK_BYTES)
    libc.sigaltstack(ctypes.byref(new_stack), ctypes.byref(old_stack))
    remember(_on_fatal_signal, words.ctypes.data)
    clock[endings] = words.ctypes.data
    handled = [number for number in FATAL if _take(libc, number)]
    try:
        yield
    finally:
        clock[endings] = 0
        for number in handled:
            libc.sigaction(int(number), ctypes.create_string_buffer(ACTION_BYTES), None)
        libc.sigaltstack(ctypes.byref(old_stack), None)
        remember(_on_fatal_signal, 0)
        del texts


def _make_words(
    program: Path, block: int
) -> tuple[NDArray[np.int64], list[ctypes.Array[ctypes.c_char]]]:
    libc = ctypes.CDLL(None)
    size = EndingWord.MESSAGES + _MESSAGE_WORDS * (max(*FATAL, *STOPPING) + 1)
    words: NDArray[np.int64] = np.zeros(size, np.int64)
    words[EndingWord.WRITE] = ctypes.cast(libc.write, ctypes.c_void_p).value or 0
    words[EndingWord.EXIT] = ctypes.cast(libc._exit, ctypes.c_void_p).value or 0
    words[EndingWord.BLOCK] = block
    name = b" ".join(os.fsencode(program).split())
    texts = []
    for number in (*FATAL, *STOPPING):
        stopped = Stopped(number)
        text, status = b"simprof: %s\n" % str(stopped).encode(), stopped.status
        if number in FATAL:
            status = STATUS_CRASHED
            text = (
                b"simprof: %s: the emulator crashed (%s) at the block at 0x%s or soon after it: "
                b"please report this program\n"
            ) % (name, signal.Signals(number).name.encode(), b"0" * _DIGITS)
        kept = ctypes.create_string_buffer(text, len(text))
        texts.append(kept)
        digits = text.find(b"0" * _DIGITS) if number in FATAL else 0
        row = EndingWord.MESSAGES + _MESSAGE_WORDS * number
        words[row : row + _MESSAGE_WORDS] = (ctypes.addressof(kept), len(text), digits, status)
    return words, texts


def _take(libc: ctypes.CDLL, number: int) -> bool:
    # Handle a signal whose action is the system's; return whether it was.
    old = ctypes.create_string_buffer(ACTION_BYTES)
    libc.sigaction(int(number), None, old)
    if ctypes.c_uint64.from_buffer(old).value != 0:
        return False
    action = ctypes.create_string_buffer(ACTION_BYTES)
    ctypes.c_uint64.from_buffer(action).value = _on_fatal_signal.address
    ctypes.c_int.from_buffer(action, _FLAGS_OFFSET).value = _ON_STACK
    libc.sigaction(int(number), action, None)
    return True


def remember(handler: CFunction, address: int) -> None:
    """Have a C signal handler work on the words at `address`, which it is given as a signal -1."""
    ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_uint64)(handler.address)(-1, address)
