"""The code of one routine for its page: instructions, source lines, the snippets of a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from simprof.profiler.code.codegen import Snippet
from simprof.profiler.graphs.cfg import ControlFlowGraph, VertexName
from simprof.profiler.profiles.lines import SourceCounts
from simprof.profiler.profiles.program_files import SourceFiles
from simprof.profiler.recovery.code_image import CodeImage
from simprof.profiler.reports.code_text import NO_ACTIONS, WHERE
from simprof.profiler.reports.display import visible
from simprof.profiler.session.planned_again import PlannedRoutine
from simprof.simulator.binary.program import SourceLine
from simprof.simulator.isa.disassembly import disassemble

_BLOCK = re.compile(r"\bblock\.(\d+)\b")


def routine_code(
    counts: SourceCounts, position: int, image: CodeImage | None, sources: SourceFiles
) -> dict[str, Any]:
    """Return the instructions and source lines of the routine at a position of a profile.

    "code": for each of the routine's blocks, in order, [address, text, position in "lines" or -1]
    of each instruction; "lines": [file, line, text, executions], the text None where the file is
    not there.
    """
    lines: dict[SourceLine, int] = {}
    code = []
    for block in counts.routines[position].profile.block_counts:
        instructions = []
        for address in range(block.start, block.end, 4):
            line = counts.line_at(address)
            number = -1 if line is None else lines.setdefault(line, len(lines))
            instructions.append([f"{address:#x}", instruction_text(image, address), number])
        code.append(instructions)
    known = counts.lines
    shown = [[visible(at.file), at.line, _text(sources, at), known[at].executions] for at in lines]
    return {"code": code, "lines": shown}


def instruction_text(image: CodeImage | None, address: int) -> str:
    """Return the instruction at an address, "" where the program is not found."""
    if image is None:
        return ""
    index = image.index(address)
    return "(no code)" if index < 0 else disassemble(int(image.words[index]), address)


def _text(sources: SourceFiles, line: SourceLine) -> str | None:
    text = sources.text(line.file)
    if text is None or not 0 < line.line <= len(text):
        return None
    return visible(text[line.line - 1].expandtabs())


def snippets(
    routine: PlannedRoutine, numbers: Mapping[VertexName, int]
) -> dict[str, dict[str, Any]] | None:
    """Return what is added to a routine; None where that is not known.

    By place: "e5" is edge 5, "b5" the top of block 5, "t5" its end before its transfer. "does": the
    actions; "cost": instructions each time; "jump": of them for the jump; "hashes": calls of the
    hashing routine; "where": the place in words; "code": the instructions. An edge whose actions
    are done elsewhere has "does" alone. `numbers`: of the blocks on the page.
    """
    plan, code, cfg = routine.plan, routine.code, routine.cfg
    if plan is None or code is None:
        return None
    blocks = {block.id: numbers[cfg.name_of(block.id)] for block in cfg.blocks}
    return {
        **dict(_group(cfg, "e", plan.actions, code.snippets, {})),
        **dict(_group(cfg, "b", plan.blocks, code.block_snippets, blocks)),
        **dict(_group(cfg, "t", plan.block_ends, code.block_end_snippets, blocks)),
    }


def _group(
    cfg: ControlFlowGraph,
    letter: str,
    actions: Mapping[int, tuple[Any, ...]],
    made: Mapping[int, Snippet],
    numbers: Mapping[int, int],
) -> Iterator[tuple[str, dict[str, Any]]]:
    for place in sorted({*actions, *made}):
        planned = "; ".join(map(str, actions.get(place, ())))
        snippet = made.get(place)
        shown = {"does": planned} if snippet is None else _snippet(cfg, snippet, planned)
        yield f"{letter}{numbers.get(place, place)}", shown


def _snippet(cfg: ControlFlowGraph, snippet: Snippet, planned: str) -> dict[str, Any]:
    def named(match: re.Match[str]) -> str:
        return f"{cfg.blocks[int(match[1])].start:#x}"

    return {
        "does": "; ".join(map(str, snippet.actions)) or planned or NO_ACTIONS,
        "cost": snippet.cost,
        "jump": snippet.jump_cost,
        "hashes": snippet.hash_calls,
        "where": WHERE[snippet.where],
        "code": [_BLOCK.sub(named, text) for text in snippet.text],
    }
