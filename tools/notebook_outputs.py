#!/usr/bin/env python3
"""Execute the notebooks in docs/notebooks, and compare or write what their cells show.

    tools/notebook_outputs.py            say which notebooks show something else now
    tools/notebook_outputs.py --write    put into the notebooks what their cells show now

Text and tables are compared. Pictures are not: other versions of matplotlib draw them a little
differently; there must be one where there was one.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
PICTURE = "image/png"
TIMEOUT = 300


def executed(path: Path) -> Any:
    """Return a notebook with what its cells show when they are executed where it is.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as place:
        # Neither earlier runs nor anybody's settings may show.
        variables = {**os.environ, "XDG_CACHE_HOME": place, "IPYTHONDIR": place}
        variables["MPLCONFIGDIR"] = place
        client = NotebookClient(
            notebook, timeout=TIMEOUT, resources={"metadata": {"path": str(path.parent)}}
        )
        client.execute(env=variables)
    for cell in notebook.cells:
        cell.get("metadata", {}).pop("execution", None)  # times
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def shown(notebook: Any) -> list[list[dict[str, str]]]:
    """Return what each cell shows, as text of each kind; of a picture, that there is one."""
    return [
        [_content(output) for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def _content(output: Any) -> dict[str, str]:
    if output.output_type == "stream":
        return {output.name: output.text}
    return {
        kind: "" if kind == PICTURE else str(content)
        for kind, content in output.get("data", {}).items()
        if PICTURE not in output.data or kind == PICTURE
    }


def main() -> int:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the outputs into the notebooks")
    chosen = parser.parse_args()
    stale = 0
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        new = executed(path)
        if shown(new) != shown(nbformat.read(path, as_version=4)):
            stale += 1
            print(path)
            if chosen.write:
                nbformat.write(new, path)
    return 1 if stale and not chosen.write else 0


if __name__ == "__main__":
    sys.exit(main())
