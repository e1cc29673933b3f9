"""Code beside the counters': loads and stores of registers that are stolen from the program."""

from __future__ import annotations

from simprof.profiler.code.stolen import GENERATORS
from simprof.profiler.schemes.definition import SchemeCode

CODE = SchemeCode(generators=GENERATORS)
