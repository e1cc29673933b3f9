"""Code beside the counters': loads and stores of registers that are stolen from the program."""

from __future__ import annotations

from simprof import schemes as s

CODE = s.SchemeCode(generators=s.STOLEN_GENERATORS)
