#!/usr/bin/env python3
"""Keep a figure for docs/reliability.md, in docs/reliability.json.

    tools/reliability_figures.py NAME SENTENCE --command COMMAND

SENTENCE says what was measured, with its numbers; COMMAND is what measures it again. Tools that
measure call `keep`. docs/reliability.toml says which promise a figure belongs to.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.benchmarks.rows import commit
from tools.generated_files import ROOT

FIGURES = ROOT / "docs" / "reliability.json"


@dataclass(frozen=True)
class Figure:
    """What was measured.

    Attributes
    ----------
    says
        One sentence or several, with the numbers.
    command
        What measures it again.
    date, commit
        When it was measured, and of what; `+` behind the commit: with changes.
    """

    says: str
    command: str
    date: str
    commit: str


def load(path: Path = FIGURES) -> dict[str, Figure]:
    """Return the figures by name."""
    if not path.exists():
        return {}
    return {name: Figure(**values) for name, values in json.loads(path.read_text()).items()}


def keep(name: str, says: str, command: str, path: Path = FIGURES) -> None:
    """Keep a figure; it takes the place of an earlier one of that name."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    figures = load(path) | {name: Figure(says, command, today, commit())}
    path.write_text(text(figures))


def text(figures: Mapping[str, Figure]) -> str:
    """Return the file, by name."""
    plain = {name: asdict(figures[name]) for name in sorted(figures)}
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Keep what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name")
    parser.add_argument("says", metavar="SENTENCE")
    parser.add_argument("--command", required=True)
    given = parser.parse_args()
    keep(given.name, given.says, given.command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
