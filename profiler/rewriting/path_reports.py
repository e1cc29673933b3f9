"""Reports of `simprof read --subpaths`: a whole program path, and what is hot in it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from simprof.profiler.profiles.documents import result_head
from simprof.profiler.reports.display import percent, plural, visible
from simprof.profiler.request.request import Selection
from simprof.profiler.rewriting.elsewhere.whole_path import ExecutedSymbol, WholePath
from simprof.profiler.schemes.cost_model import this_simprof
from simprof.profiler.schemes.mode_options import setting_object
from simprof.profiler.session.observation import planning_options


def render_json(whole: WholePath, shown: int) -> str:
    """Return one JSON object (format `simprof/subpaths`) with a newline, with the `shown` hottest
    subpaths.
    """
    program = {
        "file": whole.program.file,
        "sha256": whole.program.sha256,
        "machine": str(whole.program.machine),
        "arguments": [],
    }
    options = planning_options(whole.setting.options, Selection())
    setting = setting_object(whole.setting.mode, options, None)
    answer = {
        **result_head("subpaths", program, None, setting, measured_by=this_simprof()),
        "symbols": whole.length,
        "different_symbols": len(whole.symbols),
        "trace_bytes": whole.bytes,
        "zstd_bytes": whole.compressed,
        "rules": len(whole.grammar.bodies),
        "grammar_symbols": whole.grammar.symbols,
        "grammar_bytes": whole.grammar.bytes,
        "instructions": whole.instructions,
        "longest": whole.longest,
        "threshold": whole.threshold,
        "hot_subpaths": len(whole.hot),
        "subpaths": [
            {
                "occurrences": each.occurrences,
                "instructions": each.cost,
                "paths": [
                    {
                        "routine": symbol.cfg.name,
                        "path": symbol.number,
                        "blocks": _blocks(symbol),
                    }
                    for symbol in map(whole.symbols.__getitem__, each.symbols)
                ],
            }
            for each in whole.hot[:shown]
        ],
    }
    return json.dumps(answer, indent=1) + "\n"


def render_text(whole: WholePath, shown: int) -> str:
    """Return a summary of a few lines, and the `shown` hottest subpaths."""
    return "\n".join(_lines(whole, shown)) + "\n"


def _lines(whole: WholePath, shown: int) -> Iterator[str]:
    grammar = whole.grammar
    yield f"{visible(whole.program.file)}: {whole.setting.name} whole program path"
    yield (
        f"  {plural(whole.length, 'path')} executed, {len(whole.symbols):,} different, "
        f"{plural(whole.instructions, 'instruction')} in them"
    )
    yield f"  {plural(whole.bytes, 'byte')} of trace, {whole.compressed:,} under zstandard"
    yield (
        f"  grammar: {plural(len(grammar.bodies), 'rule')} of {plural(grammar.symbols, 'symbol')}, "
        f"{plural(grammar.bytes, 'byte')}"
    )
    yield (
        f"  {plural(len(whole.hot), 'minimal hot subpath')}: "
        f"of {plural(whole.longest, 'path')} at most, "
        f"{whole.threshold:g} % of the instructions at least"
    )
    for each in whole.hot[:shown]:
        share = percent(each.cost, whole.instructions)
        yield f"  {share}  {plural(each.occurrences, 'time')}, {plural(each.cost, 'instruction')}"
        for symbol in map(whole.symbols.__getitem__, each.symbols):
            yield f"      {visible(symbol.cfg.name)} {symbol.number}: {' '.join(_blocks(symbol))}"


def _blocks(symbol: ExecutedSymbol) -> list[str]:
    return [str(symbol.cfg.name_of(block)) for block in symbol.path.blocks]
