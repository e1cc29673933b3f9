"""Input files made by arithmetic, always the same: texts, pictures, tables of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

MASK = 0x7FFFFFFF


def stream(seed: int) -> Iterator[int]:
    """Yield pseudo-random numbers of 31 bits (a linear congruential generator, modulus 2^31)."""
    state = seed
    while True:
        state = (state * 1103515245 + 12345) & MASK
        yield state


def text(size: int, seed: int) -> bytes:
    """Return `size` bytes of lines of pseudo-random words; some words are much more frequent."""
    numbers = stream(seed)
    words, pieces, length = [], [], 0
    for _ in range(400):
        number = next(numbers)
        letters = [chr(97 + (number >> s) % 26) for s in range(2, 4 + (number >> 20) % 7)]
        words.append("".join(letters))
    while length < size:
        number = next(numbers)
        word = words[(number >> 8) % 400 * ((number >> 17) % 400) // 400]
        pieces.append(word + ("\n" if number >> 24 & 7 == 0 else " "))
        length += len(pieces[-1])
    return "".join(pieces).encode()[:size]


def picture(width: int, height: int, seed: int) -> bytes:
    """Return a colour picture (binary PPM): gradients, rectangles of one colour, a little noise."""
    numbers = stream(seed)
    boxes = [[next(numbers) >> 8 for _ in range(7)] for _ in range(24)]
    shapes = [
        (x % width, y % height, 8 + w % (width // 3), 8 + h % (height // 3), r % 256, g % 256, b)
        for x, y, w, h, r, g, b in boxes
    ]
    rows = bytearray(f"P6\n{width} {height}\n255\n".encode())
    for y in range(height):
        row = bytearray()
        for x in range(width):
            row += bytes((x * 255 // width, y * 255 // height, (x + y) // 3 & 255))
        for left, top, wide, high, red, green, blue in shapes:
            if top <= y < top + high:
                right = min(left + wide, width)
                row[3 * left : 3 * right] = bytes((red, green, blue & 255)) * (right - left)
        for at in range(0, len(row), 5):
            row[at] = min(255, row[at] + (next(numbers) >> 16 & 7))
        rows += row
    return bytes(rows)


def records(count: int, seed: int) -> bytes:
    """Return `count` lines of comma-separated fields: number, name, amount, category."""
    numbers = stream(seed)
    kinds = ("north", "south", "east", "west", "centre")
    lines = []
    for number in range(1, count + 1):
        draw, amount = next(numbers) >> 8, next(numbers) >> 8
        name = "".join(chr(97 + (draw >> shift) % 26) for shift in (0, 3, 5, 8, 11))
        lines.append(f"{number},{name},{amount % 100000 / 100:.2f},{kinds[draw % 5]}\n")
    return "".join(lines).encode()


PARAMETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"text": ("size", "seed"), "picture": ("width", "height", "seed"), "records": ("count", "seed")}
)
"""The parameters of each generator, in order."""

_GENERATORS: Mapping[str, Callable[..., bytes]] = MappingProxyType(
    {"text": text, "picture": picture, "records": records}
)


def generate(generator: str, parameters: tuple[tuple[str, int], ...]) -> bytes:
    """Return what the generator of that name makes from its parameters."""
    return _GENERATORS[generator](**dict(parameters))
