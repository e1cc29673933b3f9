"""Coverage of machine code in the format of the simulator TSIM, which RTEMS's `covoar` reads.

For each word of code a field of bits: bit 0, the word was executed; bits 1 and 2, it was written
and read as data, which profiles do not know; bit 3, a branch in it was taken; bit 4, it was not
taken (TSIM's manual, as quoted on the list devel@rtems.org, 17 May 2019). A line of text holds the
address of its first word, a colon, and the fields of 32 words, all in hexadecimal digits; `covoar`
(`CoverageReaderTSIM`) reads them so. Only lines with code of routines that were entered are there:
others were not executed. Only conditional branches have bits 3 and 4.
"""

from __future__ import annotations

from collections import defaultdict

from simprof.profiler.exports.source import ExportSource
from simprof.profiler.profiles.code_counts import code_counts
from simprof.simulator.errors import UsageError

EXECUTED, TAKEN, NOT_TAKEN = 0x01, 0x08, 0x10
LINE = 128  # Bytes: 32 words
END = 1 << 32


def write(source: ExportSource) -> bytes:
    """Return a coverage file; UsageError if there is code beyond 4 GB, which has no address."""
    fields: dict[int, int] = defaultdict(int)
    for routine in source.measurement.routines:
        counts = code_counts(routine)
        for address, executions in counts.executions.items():
            fields[address] |= EXECUTED if executions else 0
        for address, branch in counts.branches.items():
            fields[address] |= TAKEN if branch.taken else 0
            fields[address] |= NOT_TAKEN if branch.not_taken else 0
    if fields and max(fields) >= END:
        raise UsageError(
            f"--format tsim has 32-bit addresses, and there is code at {max(fields):#x}"
        )
    starts = sorted({address - address % LINE for address in fields})
    lines = []
    for start in starts:
        words = (f"{fields.get(address, 0):x}" for address in range(start, start + LINE, 4))
        lines.append(f"{start:08x} : {' '.join(words)}\n")
    return "".join(lines).encode()
