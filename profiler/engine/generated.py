"""Code that a program makes while it runs, as far as control has to be followed through it.

It is in no graph: a trampoline on the stack, what a compiler in the program puts on its heap. The
graphs are exact around it all the same: what it calls, what it jumps to and where it returns are
entries, tail calls and returns of the program's routines, which only its transfers of control tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simprof.simulator.binary.dynamic import EARLIER
from simprof.simulator.isa.decode import TransferKind, decode_transfers


class Transfer(NamedTuple):
    """What one instruction does to control (`decode.Transfers`)."""

    kind: TransferKind
    target: int
    annulled: bool


class GeneratedCode:
    """The transfers of one run's generated code, by place."""

    # Other code at the same address is another place, `EARLIER` bytes on, as states and transitions
    # of the automaton are those of a place. Code that differs in no transfer is the same: a
    # trampoline is written anew for each activation that it belongs to.

    def __init__(self, address_bits: int, *, supervisor: bool) -> None:
        self._address_bits, self._supervisor = address_bits, supervisor
        self._transfers: dict[int, Transfer] = {}

    def __contains__(self, place: int) -> bool:
        """Whether there is an instruction at `place`."""
        return place in self._transfers

    def __len__(self) -> int:
        """Return how many instructions there are."""
        return len(self._transfers)

    def __getitem__(self, place: int) -> Transfer:
        """Return what the instruction at `place` does."""
        return self._transfers[place]

    def add(self, address: int, words: Sequence[int]) -> int:
        """Return the place of a block that is at `address` now."""
        block = decode_transfers(
            np.array(words, np.uint32), address, self._address_bits, supervisor=self._supervisor
        )
        columns = block.kind.tolist(), block.target.tolist(), block.annulled.tolist()
        transfers = [
            Transfer(TransferKind(kind), *rest) for kind, *rest in zip(*columns, strict=True)
        ]
        place, known = address, self._transfers
        while any(
            known.get(place + 4 * number, each) != each for number, each in enumerate(transfers)
        ):
            place += EARLIER
        known.update((place + 4 * number, each) for number, each in enumerate(transfers))
        return place
