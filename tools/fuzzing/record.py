"""The figures of campaigns, added up in docs/fuzzing.json."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

from tools.fuzzing.campaign import Campaign

FILE = Path(__file__).resolve().parents[2] / "docs" / "fuzzing.json"


def add(done: Campaign, path: Path = FILE) -> None:
    """Add a campaign to the figures of its target; campaigns may end at the same time."""
    path.touch()
    with path.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read()
        known: dict[str, Any] = json.loads(text) if text else {}
        row = known.setdefault(done.target, {"inputs": 0, "refused": 0, "seconds": 0, "finds": 0})
        row["inputs"] += done.inputs
        row["refused"] += done.refused
        row["seconds"] += round(done.seconds)
        row["finds"] += len(done.finds)
        file.seek(0)
        file.truncate()
        file.write(json.dumps(known, indent=2, sort_keys=True) + "\n")


def sentence(path: Path = FILE) -> str:
    """Return what the campaigns so far have come to, for docs/reliability.md."""
    known: dict[str, dict[str, int]] = json.loads(path.read_text())
    inputs = {name: row["inputs"] for name, row in known.items()}
    elf, graph = inputs.pop("elf", 0), inputs.pop("graph", 0)
    run = inputs.pop("emulator", 0)
    finds = sum(row["finds"] for row in known.values())
    others = f"{sum(inputs.values()):,} inputs of {len(inputs)} other kinds"
    told = f"{finds} finds" if finds > 1 else f"{finds or 'no'} find"
    return (
        f"Since the last defect was mended: {elf:,} changed ELF files, {graph:,} graph files, "
        f"{run:,} changed programs that were executed, and {others}; {told}. Before that, about 60 "
        "defects were found.\n"
    )
