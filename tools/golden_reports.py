#!/usr/bin/env python3
"""Record the text reports about hostile names and huge counts, at five widths.

    tools/golden_reports.py       write tests/reports/golden/*.txt, which the tests compare

Look at the difference before it is committed: the files are what people see.
"""

from __future__ import annotations

from pathlib import Path

from tests.support import hostile

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "reports" / "golden"


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name in hostile.REPORTS:
        (GOLDEN / f"{name}.txt").write_text(hostile.golden(name), encoding="utf-8")


if __name__ == "__main__":
    main()
