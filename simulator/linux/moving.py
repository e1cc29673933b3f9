"""Data between the program's memory and files, a piece at a time.

A program names buffers of any length, which may overlap: what it moves in one call can be more than
all of its memory. simprof holds one piece of it at a time. As on Linux, a call moves what comes
before the first byte that the program may not use, and fails where that is nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from simprof.simulator.cpu.guest import Guest, GuestFault, Memory, Protection
from simprof.simulator.linux.descriptors import OpenFile

MAX_IO = 0x7FFF_E000
"""Most bytes that one call moves, as on Linux."""
PIECE = 1 << 20
"""Most bytes that are moved at a time. A pipe holds less, so that what is written to one at once
arrives at once."""

_SIGPIPE = 13

CheckTime = Callable[[], None]
Vectors = Sequence[tuple[int, int]]
"""Buffers: (address, length in bytes) of each."""


def read_into(
    guest: Guest,
    vectors: Vectors,
    file: OpenFile,
    offset: int | None,
    check_time: CheckTime = lambda: None,
) -> int:
    """Read from a file into buffers; return how many bytes.

    Parameters
    ----------
    offset
        Where in the file; None: at its own offset.
    check_time
        Called between pieces; may raise `RunInterrupted`.

    Raises
    ------
    OSError, GuestFault
        If nothing could be read.
    """
    memory = guest.memory
    done = 0
    for piece in _pieces(memory, vectors, Protection.WRITE):
        if done:
            check_time()
        wanted = sum(length for _, length in piece)
        if done and file.is_stream:
            break  # more may come later, but a call returns what there is
        try:
            data = file.read(wanted) if offset is None else file.read_at(wanted, offset + done)
        except OSError:
            if done:
                break
            raise
        at = 0
        for address, length in piece:
            memory.write(address, data[at : at + length])
            at += length
        done += len(data)
        if len(data) < wanted:
            break
    return done


def write_from(
    guest: Guest,
    vectors: Vectors,
    file: OpenFile,
    offset: int | None,
    check_time: CheckTime = lambda: None,
) -> int:
    """Write buffers to a file; return how many bytes. Otherwise as `read_into`.

    Where nobody reads what is written, the program is sent SIGPIPE besides.
    """
    memory = guest.memory
    done = 0
    for piece in _pieces(memory, vectors, Protection.READ):
        if done:
            check_time()
        data = b"".join(memory.read(address, length) for address, length in piece)
        try:
            count = write(guest, data, file, None if offset is None else offset + done)
        except OSError:
            if done:
                break
            raise
        done += count
        if count < len(data):
            break
    return done


def write(guest: Guest, data: bytes, file: OpenFile, offset: int | None) -> int:
    """Write one piece; return how many bytes, or raise OSError."""
    try:
        return file.write(data) if offset is None else file.write_at(data, offset)
    except BrokenPipeError:
        guest.raise_signal(_SIGPIPE)
        raise


def _usable(memory: Memory, vectors: Vectors, right: Protection) -> Iterator[tuple[int, int]]:
    """Yield buffers as far as they can be used, and `MAX_IO` bytes at most."""
    left = MAX_IO
    for address, length in vectors:
        wanted = min(length, left)
        usable = memory.usable(address, wanted, right)
        if wanted and not usable and left == MAX_IO:
            raise GuestFault(address)
        left -= usable
        yield address, usable
        if usable < wanted:
            return


def _pieces(memory: Memory, vectors: Vectors, right: Protection) -> Iterable[Vectors]:
    """Split buffers, as far as they can be used, into pieces; there may be one that is empty."""
    if len(vectors) == 1:
        ((address, length),) = vectors
        if length <= PIECE and memory.usable(address, length, right) == length:
            return (vectors,)  # as nearly all are
    return _split(_usable(memory, vectors, right))


def _split(vectors: Iterator[tuple[int, int]]) -> Iterator[Vectors]:
    piece: list[tuple[int, int]] = []
    room, is_first = PIECE, True
    for address, length in vectors:
        done = 0
        while done < length:
            taken = min(length - done, room)
            piece.append((address + done, taken))
            done += taken
            room -= taken
            if not room:
                yield piece
                piece, room, is_first = [], PIECE, False
    if piece or is_first:
        yield piece
