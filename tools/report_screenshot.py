"""Make the picture of docs/REPORT-PAGE.md: a routine's page, as Chromium shows it.

tools/report_screenshot.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.browser import chromium, opened, wait  # noqa: E402

PICTURE = ROOT / "docs" / "report-page.png"
PROGRAM = "fixtures/bin/v9/bench.elf"
ROUTINE = "insert"  # Small enough that nothing of it is cut off
WIDTH, HEIGHT = 1180, 1180


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        profiles = [directory / mode for mode in ("pp", "tpp")]
        for profile in profiles:
            simprof("run", "--mode", profile.name, "-o", str(profile), PROGRAM)
        page_file = directory / "report.html"
        sources = ("--source-dir", "./src=fixtures/src")
        simprof("show", *map(str, profiles), "--html", str(page_file), *sources)
        with (
            chromium() as browser,
            opened(browser, page_file, width=WIDTH, height=HEIGHT) as page,
        ):
            row = wait(page).evaluate(
                "name => state.index.routines.findIndex((routine) => routine[0] === name)", ROUTINE
            )
            page.evaluate("hash => { location.hash = hash; }", f"#routine/{row}/0")
            wait(page)
            page.get_by_role("button", name="Whole graph").click()
            page.screenshot(path=str(PICTURE))
    print(PICTURE.relative_to(ROOT))
    return 0


def simprof(*words: str) -> None:
    """Run simprof on this checkout; what it prints is not wanted."""
    command = [sys.executable, "-m", "simprof", *words]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)


if __name__ == "__main__":
    sys.exit(main())
