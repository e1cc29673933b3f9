"""The run-time routines that generated code calls, as SPARC assembly with their addresses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from simprof.profiler.code.runtime.routines import Routines, runtime_code
from simprof.simulator.binary.program import MachineKind
from simprof.simulator.isa.assembler import Assembly
from simprof.simulator.isa.disassembly import Disassembler

HEADING = "run-time routines that this code calls, the same for all its routines:"


def render(machine: MachineKind, called: Collection[str], more: Sequence[Routines] = ()) -> str:
    """Return the paragraph with the routines whose symbols are in `called`; nothing for none.

    Parameters
    ----------
    more
        The run-time code of the scheme (`schemes.definition.SchemeCode.routines`).
    """
    disassembler = Disassembler(machine is not MachineKind.SPARCV8)
    shown = [
        line
        for assembly in runtime_code(machine, more)
        for line in _listed(assembly, called, disassembler)
    ]
    return "\n".join([HEADING, *shown]) + "\n" if shown else ""


def _listed(
    assembly: Assembly, called: Collection[str], disassembler: Disassembler
) -> Iterator[str]:
    """Yield the lines of the called routines; one reaches from its symbol to the next one."""
    symbols = {address: name for name, address in assembly.labels.items() if "." not in name}
    is_called = in_slot = False
    for index, instruction in enumerate(assembly.instructions):
        address = assembly.base + 4 * index
        if address in symbols:
            is_called = symbols[address] in called
            if is_called:
                yield f"  {symbols[address]} at {address:#x}:"
        if is_called:
            slot = " " if in_slot else ""
            yield f"    {address:#x}  {slot}{disassembler.text(instruction.word, address)}"
        in_slot = instruction.is_transfer
