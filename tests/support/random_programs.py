"""Random C programs that need no library, end soon, and make unruly graphs.

`program(seed)` is deterministic. Loops, gotos and recursion burn a common fuel, so that every
program ends; labels lie anywhere, so that gotos enter loops in the middle (irreducible graphs).
The program's exit status is a hash of what it computed.
"""

from __future__ import annotations

import random
from collections.abc import Callable

_PRELUDE = """
typedef unsigned int u32;
static volatile u32 g[16];
static int fuel = %(fuel)d;
#define BURN (--fuel > 0)
"""

BEGINNING = """
#ifdef __arch64__
#define BIAS "2047"
#define TRAP "0x6d"
#else
#define BIAS "0"
#define TRAP "0x10"
#endif
__asm__(".text\\n.global _start\\n.type _start, #function\\n_start: clr %fp\\n"
        "sub %sp, 192, %sp\\ncall start\\nnop\\nmov 1, %g1\\nta " TRAP "\\nnop\\n"
        ".size _start, .-_start");
"""


class _Function:
    """One function's body while it is written."""

    def __init__(self, rng: random.Random, number: int, count: int, labels: int) -> None:
        self.rng = rng
        self.number = number
        self.count = count
        self.labels = labels
        self.unplaced = list(range(labels))
        self.calls = 0

    def text(self, size: int) -> str:
        """Return the definition."""
        body = self.block(size, 0, loop=False)
        rest = "".join(f"L{label}: x ^= {label + 3};\n" for label in self.unplaced)
        used = "".join(f"if (x == {0x12345 + i}u) goto L{i};\n" for i in range(self.labels))
        return (
            f"{signature(self.number)} {{\nu32 x = a ^ {self.rng.randrange(1 << 16)}u, y = b;\n"
            f"int i = 0, j = 0;\n{used}{body}{rest}return x + y * 3 + (u32)(i ^ j);\n}}\n"
        )

    def value(self) -> str:
        return self.rng.choice(["x", "y", "a", "b", "(u32)i", f"{self.rng.randrange(100)}u"])

    def expression(self) -> str:
        rng = self.rng
        form = rng.choice(["{} + {}", "{} ^ {}", "{} * {}", "({} >> 3) - {}", "{} & ({} | 0x55)"])
        return form.format(self.value(), self.value())

    def condition(self) -> str:
        rng = self.rng
        place = rng.randrange(16)
        simple = [
            f"({self.expression()}) & {1 << rng.randrange(5)}",
            f"{self.value()} > {self.value()}",
            f"(int)({self.expression()}) < {rng.randrange(-50, 50)}",
            f"g[{place}] % {rng.randrange(2, 6)} == {rng.randrange(2)}",
        ]
        first = rng.choice(simple)
        if rng.random() < 0.25:
            return f"({first}) {rng.choice(['&&', '||'])} ({rng.choice(simple)})"
        return first

    def block(self, size: int, depth: int, *, loop: bool) -> str:
        lines = []
        for _ in range(size):
            if self.unplaced and self.rng.random() < 0.25:
                lines.append(f"L{self.unplaced.pop()}: ;\n")
            lines.append(self.statement(depth, loop=loop))
        return "".join(lines)

    def statement(self, depth: int, *, loop: bool) -> str:
        rng = self.rng
        kinds: list[Callable[[int], str]] = [self.assign, self.assign, self.store, self.leap]
        if depth < 4:
            inner = lambda d: self.choice(d, loop=loop)  # noqa: E731
            kinds += [inner, inner, self.loop, self.loop, lambda d: self.switch(d, loop=loop)]
        if self.calls < 4:
            kinds.append(self.call)
        if loop:
            kinds.append(
                lambda _: f"if ({self.condition()}) {rng.choice(['break', 'continue'])};\n"
            )
        if depth:
            kinds.append(lambda _: f"if ({self.condition()}) return x - {rng.randrange(9)};\n")
        return rng.choice(kinds)(depth)

    def assign(self, _: int) -> str:
        return (
            f"{self.rng.choice('xy')} {self.rng.choice(['=', '+=', '^='])} {self.expression()};\n"
        )

    def store(self, _: int) -> str:
        return f"g[({self.expression()}) & 15] += {self.value()};\n"

    def leap(self, _: int) -> str:
        if not self.labels:
            return "y++;\n"
        return f"if (({self.condition()}) && BURN) goto L{self.rng.randrange(self.labels)};\n"

    def choice(self, depth: int, *, loop: bool) -> str:
        rng = self.rng
        text = (
            f"if ({self.condition()}) {{\n{self.block(rng.randrange(1, 3), depth + 1, loop=loop)}}}"
        )
        if rng.random() < 0.5:
            text += f" else {{\n{self.block(rng.randrange(1, 3), depth + 1, loop=loop)}}}"
        return text + "\n"

    def loop(self, depth: int) -> str:
        rng = self.rng
        body = self.block(rng.randrange(0, 3), depth + 1, loop=True)
        times = rng.randrange(1, 9)
        return rng.choice(
            [
                f"for (i = 0; i < {times} && BURN; i++) {{\n{body}}}\n",
                f"while ((({self.condition()}) || j++ % {times + 1}) && BURN) {{\n{body}}}\n",
                f"do {{\n{body}}} while (({self.condition()}) && BURN);\n",
                f"for (;;) {{\nif (!BURN || ++j % {times + 1} == 0) break;\n{body}}}\n",
            ]
        )

    def switch(self, depth: int, *, loop: bool) -> str:
        rng = self.rng
        if rng.random() < 0.7:
            cases = rng.sample(range(14), rng.randrange(2, 12))
            head = f"switch (({self.expression()}) % {rng.choice([8, 14, 20])}u) {{\n"
        else:
            cases = rng.sample(range(0, 4000, 37), rng.randrange(2, 7))
            head = f"switch ({self.expression()}) {{\n"
        arms = [f"case {case}:\n" for case in cases]
        if rng.random() < 0.7:
            arms.insert(rng.randrange(len(arms) + 1), "default:\n")
        text = head
        for arm in arms:
            text += arm
            if rng.random() < 0.8:
                text += self.statement(max(depth + 2, 2), loop=loop)
                text += rng.choice(["break;\n", "break;\n", "break;\n", ""])
        return text + "x++;\n}\n"

    def call(self, _: int) -> str:
        self.calls += 1
        rng = self.rng
        arguments = f"({self.expression()}, {self.value()}"
        later = range(self.number + 1, self.count)
        if rng.random() < 0.3 or not later:
            return f"if (depth > 0 && BURN) x += f{self.number}{arguments}, depth - 1);\n"
        if rng.random() < 0.3:
            known = [f"f{n}" for n in later]
            table = ", ".join(rng.choice(known) for _ in range(4))
            return (
                f"{{ static u32 (*const table[4])(u32, u32, int) = {{{table}}};\n"
                f"y ^= table[{self.value()} & 3]{arguments}, depth); }}\n"
            )
        if rng.random() < 0.2:
            return f"if ({self.condition()}) return f{rng.choice(later)}{arguments}, depth);\n"
        return f"y += f{rng.choice(later)}{arguments}, depth);\n"


def signature(number: int) -> str:
    """Return the head of function `number`."""
    return f"__attribute__((noinline)) static u32 f{number}(u32 a, u32 b, int depth)"


def program(seed: int, *, functions: int = 5, size: int = 8, fuel: int = 1500) -> str:
    """Return a program: so many functions of so many outermost statements each."""
    rng = random.Random(seed)
    heads = "".join(f"{signature(number)};\n" for number in range(functions))
    bodies = "".join(
        _Function(rng, number, functions, rng.randrange(0, 5)).text(rng.randrange(2, size + 1))
        for number in range(functions)
    )
    main = (
        "int start(void) {\nu32 sum = 0;\nfor (int k = 0; k < 6; k++)\n"
        "sum = sum * 31 + f0(sum, (u32)k, 3);\n"
        "for (int k = 0; k < 16; k++) sum ^= g[k] << k;\n"
        "return (int)((sum ^ sum >> 16) & 127);\n}\n"
    )
    return _PRELUDE % {"fuel": fuel} + heads + bodies + main + BEGINNING


def _piece(rng: random.Random, labels: int) -> str:
    """One line of about three blocks."""
    if rng.random() < 0.7:
        bit, odd = 1 << rng.randrange(12), rng.randrange(99)
        return f"if (x & {bit}) x = x * 5 + {odd}; else x ^= x >> 3;\n"
    if rng.random() < 0.1:
        divisor, label = rng.randrange(3, 99), rng.randrange(labels)
        return f"if ((x % {divisor}) == 1 && BURN) goto P{label};\n"
    return f"g[x & 15] += x; while (x % 7 == {rng.randrange(7)} && BURN) x += 3;\n"


def wide_program(seed: int, blocks: int, diamonds: int) -> str:
    """Return a program with one routine of about `blocks` blocks and one of 2^`diamonds` paths."""
    rng = random.Random(seed)
    tests = [_piece(rng, blocks // 300) for _ in range(blocks // 3)]
    for label in range(blocks // 300):
        tests.insert(rng.randrange(len(tests)), f"P{label}: x++;\n")
    paths = "".join(
        f"if (g[{k % 16}] >> {k % 9} & 1) x += {k}; g[{k % 7}] ^= x;\n" for k in range(diamonds)
    )
    return (
        _PRELUDE % {"fuel": 500}
        + f"__attribute__((noinline)) static u32 large(u32 x) {{\n{''.join(tests)}return x;\n}}\n"
        + f"__attribute__((noinline)) static u32 many(u32 x) {{\n{paths}return x;\n}}\n"
        + "int start(void) {\nu32 x = 1;\nfor (int k = 0; k < 5; k++) {\nx = large(x + k);\n"
        + "for (int i = 0; i < 40; i++) x = many(x + i);\n}\nreturn (int)(x & 127);\n}\n"
        + BEGINNING
    )
