"""The code of one routine for its page: instructions, source lines, the plan's actions, snippets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from profiler.code.codegen import RoutineCode, Snippet
from profiler.graphs.cfg import Block, ControlFlowGraph
from profiler.plan.plan import InstrumentationPlan
from profiler.reports.code_text import NO_ACTIONS, WHERE
from profiler.reports.display import visible
from profiler.reports.html.texts import SourceTexts
from profiler.session.planned_again import PlannedProgram, PlannedRoutine
from simulator.binary.program import SourceLine
from simulator.isa.disassembly import disassemble

_BLOCK = re.compile(r"\bblock\.(\d+)\b")


@dataclass
class Lines:
    """The source lines that a routine's instructions name, each once: `numbers` are positions."""

    texts: SourceTexts
    numbers: dict[SourceLine, int]

    def number(self, line: SourceLine | None) -> int:
        """Return the position of a line, -1 where there is none."""
        return -1 if line is None else self.numbers.setdefault(line, len(self.numbers))

    def shown(self) -> list[list[Any]]:
        """Return file, line and text of each; the text is None where the file is not there."""
        return [[visible(line.file), line.line, self.texts.text(line)] for line in self.numbers]


def routine_code(
    program: PlannedProgram, routine: PlannedRoutine, texts: SourceTexts
) -> dict[str, Any]:
    """Return what the page of a routine knows of its code.

    Returns
    -------
    "code": by block, [address, text, position in "lines"] of each instruction; "lines": see
    `Lines.shown`; where there is instrumentation also "snippets", those of edges ("e5"), of blocks
    ("b5") and of the ends of blocks ("t5").
    """
    lines = Lines(texts, {})
    code = {block.id: _instructions(program, block, lines) for block in routine.cfg.blocks}
    made: dict[str, Any] = {"code": code, "lines": lines.shown()}
    if routine.plan is not None and routine.code is not None:
        made["snippets"] = dict(_snippets(routine.cfg, routine.plan, routine.code))
    return made


def _instructions(program: PlannedProgram, block: Block, lines: Lines) -> list[list[Any]]:
    made = []
    code, table = program.recovered.code, program.recovered.program.lines
    for address in range(block.start, block.end, 4):
        index = code.index(address)
        text = "(no code)" if index < 0 else disassemble(int(code.words[index]), address)
        made.append([f"{address:x}", text, lines.number(table.find(address))])
    return made


def _snippets(
    cfg: ControlFlowGraph, plan: InstrumentationPlan, code: RoutineCode
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the snippets, and the actions that need none of their own."""
    groups: tuple[tuple[str, Mapping[int, Any], Mapping[int, Snippet]], ...] = (
        ("e", plan.actions, code.snippets),
        ("b", plan.blocks, code.block_snippets),
        ("t", plan.block_ends, code.block_end_snippets),
    )
    for letter, actions, snippets in groups:
        for number in sorted({*actions, *snippets}):
            snippet = snippets.get(number)
            planned = "; ".join(map(str, actions.get(number, ())))
            if snippet is None:
                yield f"{letter}{number}", {"does": planned}
                continue
            yield f"{letter}{number}", _snippet(cfg, snippet, planned)


def _snippet(cfg: ControlFlowGraph, snippet: Snippet, planned: str) -> dict[str, Any]:
    does = "; ".join(map(str, snippet.actions)) or planned or NO_ACTIONS

    def named(match: re.Match[str]) -> str:
        return f"{cfg.blocks[int(match[1])].start:#x}"

    return {
        "does": does,
        "cost": snippet.cost,
        "jump": snippet.jump_cost,
        "hashes": snippet.hash_calls,
        "where": WHERE[snippet.where],
        "code": [_BLOCK.sub(named, text) for text in snippet.text],
    }
