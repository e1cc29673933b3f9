"""Cells of CSV files that spreadsheets take for what they are: text is no formula."""

from __future__ import annotations

import re

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What begins formulas, for one spreadsheet or another."""
_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?|-", re.IGNORECASE)


def quoted(text: str) -> str:
    """Return a text with a quote before it if a spreadsheet would execute it.

    Names are whatever a program's file says: `=HYPERLINK(...)`, say. Numbers stay numbers.
    """
    if not text.startswith(FORMULA) or _NUMBER.fullmatch(text):
        return text
    return f"'{text}"
