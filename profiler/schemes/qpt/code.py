"""Code beside the counters': loads and stores of registers that are stolen from the program."""

from __future__ import annotations

from simprof.profiler.code.cost_samples import Samples
from simprof.profiler.code.stolen import GENERATORS, LoadStolen, StoreStolen
from simprof.profiler.schemes.definition import SchemeCode
from simprof.simulator.isa.assembler import Register

CODE = SchemeCode(
    generators=GENERATORS,
    samples={
        kind: (Samples((kind(Register.G4, 0), kind(Register.G3, 1))),)
        for kind in (LoadStolen, StoreStolen)
    },
)
