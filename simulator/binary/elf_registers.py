"""Global registers to which a program's symbols give names.

The 64-bit ABI has symbols for %g2, %g3, %g6 and %g7: of type STT_REGISTER, with the register's
number as their value. One with a name (`.register %g2, counter`) says that the program keeps
something there; one without (`.register %g2, #scratch`) that some routine uses it as scratch.
"""

from __future__ import annotations

from simprof.simulator.binary.elf_format import STT_REGISTER, RecordFormats

_GLOBALS = range(1, 8)


def named_registers(formats: RecordFormats, table: bytes, names: bytes) -> frozenset[int]:
    """Return the numbers of the global registers that a symbol table names.

    Parameters
    ----------
    table, names
        The symbols' records, and their strings.
    """
    record, place = formats.symbol, formats.symbol_info
    kinds = table[place :: record.size]
    found = set()
    for number in (n for n, info in enumerate(kinds) if info & 15 == STT_REGISTER):
        if len(table) < (number + 1) * record.size:
            break
        fields = record.unpack_from(table, number * record.size)
        name, value = fields[0], fields[formats.symbol_value]
        if value in _GLOBALS and names[name : name + 1] not in (b"", b"\0"):
            found.add(value)
    return frozenset(found)
