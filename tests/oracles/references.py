"""Which addresses a run refers to: every register before every instruction, as qemu-user logs it.

An address is worked out from the instruction's text and these registers, and nothing else is taken
from the product. `Log.executions` yields the executions of blocks, for whoever knows a program's
graphs.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from simprof.profiler.graphs.cfg import ControlFlowGraph
from tests.oracles.qemu import OracleError, resolve
from tests.oracles.sparc_text import NAMES

ADDRESS = re.compile(r"\[(%\w+|-?\w+)(?: ([+-]) (%\w+|\w+))?\]")


class Moment(NamedTuple):
    """An instruction about to execute."""

    pc: int
    registers: tuple[int, ...]


@dataclass
class Execution:
    """One execution of a block: its instructions, and that of the slot block behind it, if any."""

    routine: int
    block: int
    moments: list[Moment]
    slot: Moment | None = None


def log(path: Path, arguments: Sequence[str] = (), stdin: bytes = b"") -> list[Moment]:
    """Run a program; return all moments in order."""
    options = ["-singlestep", "-d", "exec,cpu,nochain", "-D", "/dev/stderr"]
    command = ["env", "-i", resolve(path), *options, str(path), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=300, check=False)
    found: list[Moment] = []
    last = None
    text = "\n" + done.stderr.decode("latin-1")
    for piece in text.split("\nTrace ")[1:]:
        head = re.search(r"^pc: (\w+)  npc: (\w+)", piece, re.M)
        if head is None or "\nStopped" in piece:
            raise OracleError(piece[:200])
        if head.groups() == last:
            continue  # a window trap: it is tried again
        last = head.groups()
        values = re.findall(r"^%[goli]\d-\d:((?: \w+)+)", piece, re.M)
        registers = tuple(int(each, 16) for line in values for each in line.split())
        if len(registers) != 32:
            raise OracleError(piece[:2000])
        found.append(Moment(int(head[1], 16), registers))
    return found


def address(text: str, registers: Sequence[int], is64: bool) -> int | None:
    """Return the address that an instruction refers to, from its text; None: to none."""
    if text.startswith("prefetch") or (found := ADDRESS.search(text)) is None:
        return None
    first, sign, second = found.groups()

    def value(operand: str) -> int:
        return registers[NAMES[operand]] if operand.startswith("%") else int(operand, 0)

    more = 0 if second is None else value(second) * (-1 if sign == "-" else 1)
    return value(first) + more & (0xFFFFFFFFFFFFFFFF if is64 else 0xFFFFFFFF)


def executions(
    moments: Sequence[Moment], routines: Mapping[int, ControlFlowGraph]
) -> Iterator[Execution]:
    """Yield the executions of blocks, in order."""
    plain: dict[int, tuple[int, int]] = {}
    slots: set[int] = set()
    for number, cfg in routines.items():
        for block in cfg.blocks:
            if block.is_slot:
                slots.add(block.start)
            else:
                plain[block.start] = number, block.id
    at = 0
    waiting: Execution | None = None
    while at < len(moments):
        pc = moments[at].pc
        if pc in slots and waiting is not None and waiting.moments[-1].pc == pc - 4:
            waiting.slot = moments[at]
            at += 1
            continue
        if waiting is not None:
            yield waiting
        number, at_block = plain[pc]
        count = routines[number].blocks[at_block].instructions
        waiting = Execution(number, at_block, list(moments[at : at + count]))
        at += count
        whole = [each.pc for each in waiting.moments] == [pc + 4 * k for k in range(count)]
        if at < len(moments) and not whole:
            raise OracleError(f"{pc:#x}: the block is not executed as a whole")
    if waiting is not None:
        yield waiting
