"""What tools that make documents share: write the files, or say which are not as they would be."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(about: str | None, wanted: Mapping[Path, str], known: Iterable[Path]) -> int:
    """Do what a tool's command line says, and return its exit status.

    Parameters
    ----------
    about
        The tool's docstring.
    wanted
        All that it makes.
    known
        Files that are there and that the tool has made; those that it makes no more are removed.
    """
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say what would change")
    check = parser.parse_args().check
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    extra = [path for path in known if path not in wanted]
    for path in [*stale, *extra]:
        print(path.relative_to(ROOT))
    if check:
        return 1 if stale or extra else 0
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(wanted[path])
    for path in extra:
        path.unlink()
    return 0
