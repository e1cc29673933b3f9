"""Words that a program writes into its code when it starts."""

from __future__ import annotations

from simprof.profiler.recovery.late_code import read_words
from simprof.simulator.binary.program import Range


def test_words_are_read_where_they_are_and_as_the_program_reads_them() -> None:
    memory = {0x1000: bytes(range(16)), 0x2000: b"\x01\x00\x00\x00\xff"}
    spans = [Range(0x1000, 0x1010), Range(0x2000, 0x2005)]
    assert read_words(lambda start, size: memory[start][:size], spans) == {
        (0x1000, 0x00010203),
        (0x1004, 0x04050607),
        (0x1008, 0x08090A0B),
        (0x100C, 0x0C0D0E0F),
        (0x2000, 0x01000000),  # and the byte behind it is no word
    }
    assert read_words(lambda start, size: b"", []) == frozenset()
