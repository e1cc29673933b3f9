#!/usr/bin/env python3
"""Run the commands that documents show, and compare or write what they print.

    tools/document_outputs.py            say which outputs are not what the commands print now
    tools/document_outputs.py --write    put into the documents what the commands print now

A document's blocks marked `console` hold commands, after `$ `, and what each prints on both of its
streams. The commands of one document run in order in one empty directory that has the repository's
`fixtures`, with a shell that finds simprof. A line `...` stands for any lines that are left out;
`--write` keeps the lines before and after it as many as they were.

A document's blocks marked `sql` hold queries, and the block `text` behind each its answer: of the
file of the sweep that the document shows, a paragraph that ends with `-o sweep.db`.
"""

from __future__ import annotations

import argparse
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = tuple(
    ROOT / "docs" / name for name in ("EXPERIMENTS.md", "tutorial.md", "cookbook.md", "PROFILES.md")
)
QUERIED = (ROOT / "docs" / "EXPERIMENTS.md",)
QUERY = re.compile(r"^```sql\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SWEEP = re.compile(r"^    (simprof sweep (?:.*\\\n)*.*-o sweep\.db)$", re.MULTILINE)
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = "..."
TIMEOUT = 300


@dataclass(frozen=True)
class Shown:
    """A command, and the lines that a document says it prints."""

    command: str
    lines: tuple[str, ...]


def parse(block: str) -> list[Shown]:
    """Return the commands of a block; a line that ends in a backslash goes on in the next."""
    found: list[tuple[list[str], list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif found[-1][0][-1].endswith("\\") and not found[-1][1]:
            found[-1][0].append(line)
        else:
            found[-1][1].append(line)
    return [Shown("\n".join(command), tuple(lines)) for command, lines in found]


def blocks(text: str) -> list[list[Shown]]:
    """Return the commands of a document, by block."""
    return [parse(block) for block in BLOCK.findall(text)]


def environment(cache: Path) -> dict[str, str]:
    """Return what commands see: this Python's scripts first, a cache of their own, no terminal."""
    scripts = str(Path(sys.executable).parent)
    return {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/"),
        "XDG_CACHE_HOME": str(cache),
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "96",
        "SIMPROF_PROGRESS": "0",
    }


@contextmanager
def workplace() -> Iterator[tuple[Path, dict[str, str]]]:
    """Make the directory that commands run in; yield it, and what they see."""
    with tempfile.TemporaryDirectory() as place:
        work, cache = Path(place, "work"), Path(place, "cache")
        work.mkdir()
        (work / "fixtures").symlink_to(ROOT / "fixtures")
        yield work, environment(cache)


def outputs(shown: list[list[Shown]]) -> Iterator[list[list[str]]]:
    """Run the commands of a document; yield by block, for each command, the lines printed."""
    with workplace() as (work, variables):
        for block in shown:
            yield [run(each.command, work, variables) for each in block]


def run(command: str, directory: Path, variables: dict[str, str]) -> list[str]:
    """Return the lines that a command prints, without blanks at the ends of lines."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",
        timeout=TIMEOUT,
        check=False,
    )
    return [line.rstrip() for line in done.stdout.rstrip("\n").split("\n")] if done.stdout else []


def matches(shown: tuple[str, ...], printed: list[str]) -> bool:
    """Whether what is shown is what was printed, but for lines left out."""
    before, after = divide(shown)
    if after is None:
        return list(before) == printed
    enough = len(before) + len(after) <= len(printed)
    return enough and abridge(shown, printed) == list(shown)


def divide(shown: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the lines before and after those that are left out; None: none are."""
    if LEFT_OUT not in shown:
        return shown, None
    place = shown.index(LEFT_OUT)
    return shown[:place], shown[place + 1 :]


def abridge(shown: tuple[str, ...], printed: list[str]) -> list[str]:
    """Return the printed lines, with as many left out as are in what is shown."""
    before, after = divide(shown)
    if after is None or len(before) + len(after) >= len(printed):
        return printed
    return [*printed[: len(before)], LEFT_OUT, *printed[len(printed) - len(after) :]]


def rewritten(text: str) -> str:
    """Return a document with what its commands print now."""
    shown = blocks(text)
    printed = iter(list(outputs(shown)))
    remaining = iter(shown)

    def block(_: re.Match[str]) -> str:
        lines = []
        for each, output in zip(next(remaining), next(printed), strict=True):
            lines += [f"$ {each.command}", *abridge(each.lines, output)]
        return "```console\n" + "\n".join(lines) + "\n```"

    return BLOCK.sub(block, text)


def answered(text: str) -> str:
    """Return a document with what its queries answer now, of the sweep that it shows."""
    sweep = SWEEP.search(text)
    if sweep is None:
        return text
    with workplace() as (work, variables):
        printed = run(sweep[1], work, variables)
        if not (work / "sweep.db").exists():
            raise SystemExit("\n".join([sweep[1], *printed]))
        with closing(sqlite3.connect(work / "sweep.db")) as connection:

            def answer(match: re.Match[str]) -> str:
                rows = connection.execute(match[1])
                lines = "".join("|".join(map(str, row)) + "\n" for row in rows)
                return f"```sql\n{match[1]}```\n\n```text\n{lines}```"

            return QUERY.sub(answer, text)


def main() -> int:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the outputs into the documents")
    parser.add_argument("documents", nargs="*", type=Path, default=(*DOCUMENTS, *QUERIED))
    chosen = parser.parse_args()
    stale = 0
    for path in chosen.documents:
        text = path.read_text()
        new = answered(rewritten(text))
        if new != text:
            stale += 1
            print(path)
            if chosen.write:
                path.write_text(new)
    return 1 if stale and not chosen.write else 0


if __name__ == "__main__":
    sys.exit(main())
