"""Actions: what instrumentation does at one place, and what it does it to.

An action has four readings: `execute` does to an activation's registers and counters what its
code does, `code.snippets` prices it as SPARC instructions, `code.emission` puts these in their
place in the routine, the reports show it: `str(action)` is in the papers' notation. Those here
count acyclic paths and events, or write traces; schemes have others of their own.

Actions are executed once for each path segment that a program executes in each register state,
and the kernel counts how often that is (see `engine.segments`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import ClassVar, NamedTuple

from msgspec import Struct, field


class PathIncrement(NamedTuple):
    """One increment of path counter `counter`; `on_back_edge` as in `CountPath`."""

    counter: int
    on_back_edge: bool


CROSSING = -1  # place of what is no part of an action: the crossing of an edge in the second copy


class TakenPart(NamedTuple):
    """A conditional part of code: that of the action at `place` among those of `edge`."""

    edge: int
    place: int
    in_copy: bool = False  # Whether in the second copy (`InstrumentationPlan.is_duplicated`)


class Burst(NamedTuple):
    """Samples that a guard takes one soon after the other before it waits for its interval."""

    # word: Counts the samples of the burst that were taken; one of `InstrumentationPlan.words`.
    word: str
    samples: int  # How many a burst has
    stride: int  # The guard's interval between two of them


class Guard(NamedTuple):
    """What decides about an action by a word of the whole program, which counts down."""

    # `--word; if (word <= 0) word = interval`: then the guard lets the action pass. Words begin at
    # 0, so the first passes. An edge has at most one guarded action, and it is among the first of
    # an activation or among the last of a path segment: the engine ends segments there.
    word: str  # Its name: one of `InstrumentationPlan.words`
    interval: int
    # `burst.word++; if (burst.word < samples) word = stride else burst.word = 0, word = interval`
    # where the guard lets pass; None: the word always begins again at the interval.
    burst: Burst | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it changes."""
        return (self.word,) if self.burst is None else (self.word, self.burst.word)


class Execution(Struct):
    """What the actions of one activation read and write."""

    registers: list[int]  # Its path registers
    # The path counter that it incremented last; None where it has not yet, or a path has begun
    # since that nothing counts.
    last: int | None = None
    # edge, place: The edge whose actions are being executed, and the place of the current one among
    # them.
    edge: int = -1
    place: int = 0
    # Whether the guard of the current edge's guarded action lets it pass (`Action.guard`).
    passes: bool = False
    # Increments of path counters, in order.
    counted: list[PathIncrement] = field(default_factory=list)
    # Conditional parts that were executed, in order (see `take`).
    taken: list[TakenPart] = field(default_factory=list)
    # is_duplicated, in_copy: Of the plan (see there); whether the current edge is crossed in the
    # second copy.
    is_duplicated: bool = False
    in_copy: bool = False

    def count(self, counter: int, on_back_edge: bool = False) -> None:
        """Increment path counter `counter`."""
        self.counted.append(PathIncrement(counter, on_back_edge))
        self.last = counter

    def take(self) -> None:
        """Note that the action's conditional code is executed: it costs more then."""
        self.taken.append(TakenPart(self.edge, self.place, self.in_copy))

    def run(self, edge: int, actions: Iterable[Action]) -> None:
        """Execute the actions of an edge, in order."""
        self.edge = edge
        self.in_copy = self.is_duplicated and self.registers[0] >= 0
        if self.in_copy:
            self.taken.append(TakenPart(edge, CROSSING, True))
        for self.place, action in enumerate(actions):
            action.execute(self)


class RegisterEffect(Enum):
    """What an action does with the path registers that it finds."""

    DEFINES = "defines"  # it sets them, whatever they held
    USES = "uses"  # what it does depends on what they hold
    CHANGES = "changes"  # what they hold then depends on it, and nothing else
    IGNORES = "ignores"  # it leaves them alone


class Action(Struct, frozen=True):
    """What instrumentation does at one place. Actions are frozen: they are compared and hashed."""

    # What kinds of actions may say of themselves so that hashed counts can be told early; `USES` is
    # always right.
    effect: ClassVar[RegisterEffect] = RegisterEffect.USES
    # Whether its code may go on in the other copy of the routine, or is gone on behind from there.
    changes_copy: ClassVar[bool] = False

    @property
    def bodies(self) -> tuple[Action, Action]:
        """What its code is in the first and in the second copy of a routine that has two
        (`InstrumentationPlan.is_duplicated`).
        """
        return self, self

    @property
    def guard(self) -> Guard | None:
        """What decides, in `Execution.passes`, whether it does what it is for; None: nothing."""
        return None

    @property
    def key_words(self) -> int:
        """32-bit words of the number that it begins, or counts under in a hash table."""
        return 1

    def execute(self, execution: Execution) -> None:
        """Do to an activation what the action's code does."""
        raise NotImplementedError


class Event(Action, frozen=True):
    """An action that is no part of an activation: it only notes that control came by."""

    effect = RegisterEffect.IGNORES

    def execute(self, execution: Execution) -> None:
        """Leave registers and path counters alone."""


class NoCode(Event, frozen=True):
    """Nothing is done in this copy of the routine."""


class Landing(NoCode, frozen=True):
    """Control comes from the other copy of the routine, and goes on."""

    changes_copy = True

    def __str__(self) -> str:
        return "from the first copy"


class SetRegister(Action, frozen=True):
    """`r = constant`: start a path (EPP 3.4)."""

    effect = RegisterEffect.DEFINES

    constant: int

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        execution.registers[0] = self.constant

    def __str__(self) -> str:
        return f"r={self.constant}"


class AddRegister(Action, frozen=True):
    """`r += constant` (EPP 3.4)."""

    effect = RegisterEffect.CHANGES

    constant: int

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        execution.registers[0] += self.constant

    def __str__(self) -> str:
        return f"r+={self.constant}" if self.constant >= 0 else f"r-={-self.constant}"


class CountPath(Action, frozen=True):
    """`count[r + constant]++`: a path ends (EPP 3.4)."""

    constant: int
    on_back_edge: bool = False  # Selects the hashing routine that remembers the last path (EPP 5.3)

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        execution.count(execution.registers[0] + self.constant, self.on_back_edge)

    def __str__(self) -> str:
        return f"count[{register_sum(self.constant)}]++"


class CountConstantPath(Action, frozen=True):
    """`count[constant]++`: a path known without the register ends (EPP figure 8)."""

    effect = RegisterEffect.IGNORES

    constant: int
    on_back_edge: bool = False

    def execute(self, execution: Execution) -> None:
        """See `Action`."""
        execution.count(self.constant, self.on_back_edge)

    def __str__(self) -> str:
        return f"count[{self.constant}]++"


class CountEdge(Event, frozen=True):
    """`edge[counter]++`: an event counter of its own, of an edge or a block."""

    # QPT2's chords; EPP 4.1's self-loops; BL94's vertex counters. Its value follows from the edge
    # counts: see `InstrumentationPlan.event_counts`.

    counter: int

    def __str__(self) -> str:
        return f"edge[{self.counter}]++"


class WriteTrace(Event, frozen=True):
    """`trace value`: the `width` bits of `value` are appended to the trace (BL94 4, 6.2)."""

    value: int
    width: int
    packed: bool = False  # The trace is one of bits; else of whole bytes, `width` a multiple of 8.

    def __str__(self) -> str:
        return f"trace {self.value}:{self.width}"


class WriteAddress(Event, frozen=True):
    """`trace address`: the address that an instruction refers to is appended (BL94 4.2)."""

    # block, position: The instruction; its code reads the registers that make the address.
    block: int
    position: int

    def __str__(self) -> str:
        return "trace address"


def register_sum(constant: int) -> str:
    """Return `r + constant` in the papers' notation."""
    return f"r{constant:+d}" if constant else "r"
