"""SEQUITUR: a grammar of one sequence of symbols (Nevill-Manning and Witten 1997).

Terms
-----
digram
    Two neighbouring symbols of a rule's body.
digram uniqueness
    No digram is twice in the grammar, but where both overlap (`aaa`).
rule utility
    Every rule but the start is used twice at least.

Symbols come one at a time (`Sequitur.append`), and the grammar has both properties after each; all
work together is linear in the length of the sequence. What changes makes new digrams and takes
uses from rules; both go on lists, which are worked off until nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from msgspec import Struct

_GUARD = -(
    1 << 62
)  # The value of what stands before the first symbol of a body and behind its last
_START = 0


class Grammar(Struct, frozen=True, dict=True):
    """A grammar whose start, rule 0, makes one sequence."""

    # By rule: its body, of terminals (0 and up) and of ~k for rule k. A rule uses rules with
    # greater numbers only.
    bodies: tuple[tuple[int, ...], ...]

    @property
    def symbols(self) -> int:
        """Symbols in all bodies."""
        return sum(map(len, self.bodies))

    @cached_property
    def terminals(self) -> frozenset[int]:
        """The different terminals."""
        return frozenset(symbol for body in self.bodies for symbol in body if symbol >= 0)

    @property
    def bits(self) -> int:
        """Bits of the grammar written down plainly.

        Each symbol, and a mark behind each body, in as many bits as tell rules, terminals and the
        mark apart; and a word for each terminal.
        """
        kinds = len(self.bodies) + len(self.terminals)
        return (self.symbols + len(self.bodies)) * kinds.bit_length() + 32 * len(self.terminals)

    @property
    def bytes(self) -> int:
        """Bytes that these take."""
        return -(-self.bits // 8)

    @cached_property
    def occurrences(self) -> tuple[int, ...]:
        """How often each rule is in the derivation of the sequence."""
        counts = [0] * len(self.bodies)
        counts[_START] = 1
        for rule, body in enumerate(self.bodies):
            for symbol in body:
                if symbol < 0:
                    counts[~symbol] += counts[rule]
        return tuple(counts)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """How many terminals each rule makes."""
        lengths = [0] * len(self.bodies)
        for rule in range(len(self.bodies) - 1, -1, -1):
            lengths[rule] = sum(1 if s >= 0 else lengths[~s] for s in self.bodies[rule])
        return tuple(lengths)

    def expand(self) -> list[int]:
        """Return the sequence."""
        made: list[int] = []
        work = list(reversed(self.bodies[_START]))
        while work:
            symbol = work.pop()
            if symbol >= 0:
                made.append(symbol)
            else:
                work += reversed(self.bodies[~symbol])
        return made


class Sequitur:
    """Makes the grammar of a sequence while it comes."""

    def __init__(self) -> None:
        # By node: a symbol of a body, or a guard. Terminals are 0 and up, ~k is rule k.
        self._next: list[int] = []
        self._before: list[int] = []
        self._value: list[int] = []
        self._free: list[int] = []
        self._rule_at: dict[int, int] = {}  # guard -> its rule
        # By rule: its guard, and the nodes that use it.
        self._guard: list[int] = []
        self._users: list[set[int]] = []
        self._place: dict[tuple[int, int], int] = {}  # digram -> its first node
        # What is left to do: first nodes of digrams to look at, and rules that lost a use.
        self._digrams: list[int] = []
        self._rules: list[int] = []
        self._new_rule()

    def append(self, symbol: int) -> None:
        """Append a symbol, 0 or more."""
        guard = self._guard[_START]
        last = self._before[guard]
        node = self._new(symbol)
        self._link(last, node)
        self._link(node, guard)
        self._check(last)
        while self._digrams or self._rules:
            if self._digrams:
                self._check(self._digrams.pop())
            else:
                rule = self._rules.pop()
                if len(self._users[rule]) == 1:
                    self._put_back(rule)

    def extend(self, symbols: Iterable[int]) -> None:
        """Append symbols."""
        for symbol in symbols:
            self.append(symbol)

    def grammar(self) -> Grammar:
        """Return the grammar of what has been appended."""
        # Users before what they use: the reverse of the order in which a search leaves rules.
        order: list[int] = []
        seen = {_START}
        work = [(_START, iter(self._body(_START)))]
        while work:
            rule, rest = work[-1]
            for symbol in rest:
                if symbol < 0 and ~symbol not in seen:
                    seen.add(~symbol)
                    work.append((~symbol, iter(self._body(~symbol))))
                    break
            else:
                order.append(rule)
                work.pop()
        order.reverse()
        number = {rule: place for place, rule in enumerate(order)}
        return Grammar(
            tuple(tuple(s if s >= 0 else ~number[~s] for s in self._body(rule)) for rule in order)
        )

    def _body(self, rule: int) -> list[int]:
        body = []
        node = self._next[self._guard[rule]]
        while self._value[node] != _GUARD:
            body.append(self._value[node])
            node = self._next[node]
        return body

    # -- nodes and rules

    def _new(self, value: int) -> int:
        if self._free:
            node = self._free.pop()
            self._value[node] = value
        else:
            node = len(self._value)
            self._value.append(value)
            self._next.append(node)
            self._before.append(node)
        if value < 0 and value != _GUARD:
            self._users[~value].add(node)
        return node

    def _drop(self, node: int) -> None:
        value = self._value[node]
        if value < 0 and value != _GUARD:
            users = self._users[~value]
            users.remove(node)
            if len(users) == 1:
                self._rules.append(~value)
        # What still speaks of the node finds a guard that is no rule's, or a later symbol.
        self._value[node] = _GUARD
        self._free.append(node)

    def _new_rule(self) -> int:
        guard, rule = self._new(_GUARD), len(self._guard)
        self._link(guard, guard)
        self._rule_at[guard] = rule
        self._guard.append(guard)
        self._users.append(set())
        return rule

    def _link(self, left: int, right: int) -> None:
        self._next[left] = right
        self._before[right] = left

    # -- digrams

    def _forget(self, first: int) -> None:
        """The digram at a node will not be there any more."""
        left, right = self._value[first], self._value[self._next[first]]
        if self._place.get((left, right)) != first:
            return
        del self._place[left, right]
        if left == right:  # of `aaa` only one digram has a place: now it may be the other one
            self._digrams += (self._before[first], self._next[first])

    def _check(self, first: int) -> None:
        """See to it that the digram at a node is nowhere else."""
        value, second = self._value, self._next[first]
        digram = value[first], value[second]
        if _GUARD in digram:
            return
        other = self._place.setdefault(digram, first)
        if other == first:
            return
        if self._next[other] == first or self._next[first] == other:
            return
        self._match(first, other)

    def _match(self, first: int, other: int) -> None:
        """Replace two equal digrams by a rule."""
        rule = self._rule_of(other)
        if rule is not None:
            self._substitute(first, rule)
            return
        rule = self._new_rule()
        guard = self._guard[rule]
        left, right = self._value[first], self._value[self._next[first]]
        one, two = self._new(left), self._new(right)
        self._link(guard, one)
        self._link(one, two)
        self._link(two, guard)
        self._substitute(other, rule)
        self._substitute(first, rule)
        self._place[left, right] = one

    def _rule_of(self, first: int) -> int | None:
        """Return the rule whose whole body the digram at a node is; None if there is none."""
        before = self._before[first]
        if before != self._next[self._next[first]]:
            return None
        rule = self._rule_at.get(before, _START)
        return None if rule == _START else rule

    def _substitute(self, first: int, rule: int) -> None:
        """Replace the digram at a node by a rule."""
        second = self._next[first]
        before, behind = self._before[first], self._next[second]
        for node in (before, first, second):
            self._forget(node)
        self._drop(first)
        self._drop(second)
        node = self._new(~rule)
        self._link(before, node)
        self._link(node, behind)
        self._digrams += (before, node)

    def _put_back(self, rule: int) -> None:
        """Replace the only use of a rule by its body."""
        (node,), guard = self._users[rule], self._guard[rule]
        before, behind = self._before[node], self._next[node]
        first, last = self._next[guard], self._before[guard]
        self._forget(before)
        self._forget(node)
        self._drop(node)
        del self._rule_at[guard]
        self._drop(guard)
        self._link(before, first)
        self._link(last, behind)
        self._digrams += (before, last)


def grammar_of(symbols: Sequence[int]) -> Grammar:
    """Return the grammar of a sequence."""
    sequitur = Sequitur()
    sequitur.extend(symbols)
    return sequitur.grammar()
