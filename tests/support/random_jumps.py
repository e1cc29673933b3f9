"""Random C programs that come back by `longjmp`: into loops, recursion, and routines of many paths.

`program(seed)` is deterministic. A routine calls `setjmp` up to three times, on buffers of its own,
and what it then calls may leave for any buffer of an activation that is alive. Some buffers are
never used. The program's exit status is a hash of what it computed.
"""

from __future__ import annotations

import random
from collections.abc import Callable

_PRELUDE = """
#include <setjmp.h>
#include <stdlib.h>
static jmp_buf *active[64];
static volatile int depth, fuel = 900;
static volatile unsigned state = %(seed)du;
static unsigned next(void) { return state = state * 1103515245u + 12345u, state >> 16; }
__attribute__((noinline)) static void leave(unsigned one_in)
{
    if (depth > 0 && next() %% one_in == 0)
        longjmp(*active[next() %% depth], 1 + next() %% 3);
}
"""
_END = """
int main(void)
{
    volatile unsigned sum = 0;
    for (volatile int i = 0; i < 12; i++) {
        sum = sum * 31 + f0(i);
        fuel = fuel > 0 ? fuel : 40;
        depth = 0;
    }
    exit(sum & 127);
}
"""

JUMPING = """
#include <setjmp.h>
#include <stdlib.h>
static jmp_buf outer, inner, never;
static volatile unsigned state = 7, fuel = 40;
static unsigned next(void) { return state = state * 1103515245u + 12345u, state >> 16; }
__attribute__((noinline)) static void leave(void)
{
    if (next() % 3 == 0) longjmp(next() & 1 ? inner : outer, 1);
}
__attribute__((noinline)) static unsigned many(unsigned x)
{
    for (volatile int i = 0; i < 4; i++) {
        if (setjmp(inner)) { x ^= 77; continue; }
        if (next() & 1) x += 3;
        if (next() & 2) x ^= 5;
        if (next() & 4) x += 7;
        if (next() & 8) x ^= 9;
        if (next() & 16) x += 11;
        if (next() & 32) x ^= 13;
        leave();
        if (next() & 1) x += 3;
        if (next() & 2) x ^= 5;
        if (next() & 4) x += 7;
        if (next() & 8) x ^= 9;
        if (next() & 16) x += 11;
        if (next() & 32) x ^= 13;
        if (next() & 64) x ^= 17;
    }
    return x;
}
__attribute__((noinline)) static unsigned unused(unsigned x)
{
    if (setjmp(never)) x = 0;
    return x + 1;
}
int main(void)
{
    volatile unsigned sum = 0;
    while (fuel-- > 0) {
        if (setjmp(outer)) { sum += 5; continue; }
        sum = sum * 31 + many(fuel) + unused(sum);
    }
    exit(sum & 127);
}
"""
"""One such program that was written by hand: `many` and `main` are landed in, `unused` is not."""


class _Routine:
    """One routine's body while it is written."""

    def __init__(self, rng: random.Random, number: int, count: int) -> None:
        self.rng = rng
        self.number = number
        self.count = count
        self.buffers = rng.choice([0, 1, 1, 1, 2, 3]) if number else 1
        self.used = 0

    def text(self) -> str:
        """Return the definition."""
        buffers = "".join(f"jmp_buf b{i}; volatile int d{i};\n" for i in range(self.buffers))
        body = self.block(3, 0)
        while self.used < self.buffers:
            body += self.guarded(0)
        return (
            f"__attribute__((noinline)) static unsigned f{self.number}(unsigned a)\n"
            f"{{\nvolatile unsigned x = a;\n{buffers}if (--fuel < 0) return x;\n"
            f"{body}return x;\n}}\n"
        )

    def block(self, size: int, level: int) -> str:
        return "".join(self.statement(level) for _ in range(size))

    def statement(self, level: int) -> str:
        kinds: list[Callable[[int], str]] = [self.call, self.leave, self.choice]
        if level < 3:
            kinds += [self.loop, self.condition, self.guarded, self.guarded]
        return self.rng.choice(kinds)(level)

    def call(self, _: int) -> str:
        return f"x += f{self.rng.randrange(self.count)}(x + 1);\n"

    def leave(self, _: int) -> str:
        return f"leave({self.rng.randrange(2, 7)});\n"

    def choice(self, _: int) -> str:
        """Return ways that fork and join: now and then more than an array has counters for."""
        times = self.rng.choice([1, 2, 3, 13])
        return "".join(f"if (next() & {1 << i % 8}) x ^= {i + 3}u;\n" for i in range(times))

    def condition(self, level: int) -> str:
        body = self.block(2, level + 1)
        return f"if (next() % {self.rng.randrange(2, 5)} == 0) {{\n{body}}}\n"

    def loop(self, level: int) -> str:
        name, times = f"i{level}", self.rng.randrange(1, 5)
        return (
            f"for (volatile int {name} = 0; {name} < {times}; {name}++) {{\n"
            f"{self.block(2, level + 1)}}}\n"
        )

    def guarded(self, level: int) -> str:
        if self.used == self.buffers:
            return self.leave(level)
        own, self.used = self.used, self.used + 1
        body = self.block(2, level + 1)
        return (
            f"d{own} = depth;\nif (d{own} < 60 && !setjmp(b{own})) {{\n"
            f"active[depth++] = &b{own};\n{body}depth = d{own};\n"
            f"}} else {{\ndepth = d{own};\nx = x * 5 + {own + 1};\n}}\n"
        )


def program(seed: int) -> str:
    """Return the source of program number `seed`."""
    rng = random.Random(seed)
    count = rng.randrange(3, 6)
    routines = [_Routine(rng, number, count).text() for number in range(count)]
    declared = "".join(f"static unsigned f{number}(unsigned a);\n" for number in range(count))
    return _PRELUDE % {"seed": seed + 1} + declared + "".join(routines) + _END
