"""The files that programs of suites read: copied into the cache, or generated.

Generated files are made by arithmetic, always the same: texts, pictures, tables of numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from simprof.profiler.experiments.suites.sources import leads_out
from simprof.profiler.experiments.suites.suite import Benchmark, InputFile
from simprof.profiler.experiments.suites.toolchain import BuildError
from simprof.profiler.profiles.fingerprint import file_sha256
from simprof.profiler.profiles.output import write_atomically
from simprof.simulator.errors import UsageError

# When all input files were last changed: what a program learns of it is always the same.
OLD = 1_000_000_000


def prepare(benchmark: Benchmark, tree: Callable[[], Path]) -> None:
    """Write the files of both inputs.

    `tree`: Returns the benchmark's unpacked source; called only where a missing file comes from
    there.

    Raises UsageError if a file cannot be written. Raises BuildError if the source cannot be had.
    """
    for given in benchmark.inputs.values():
        for file in given.files:
            assert given.root is not None
            mark = given.root.with_name(f"{given.root.name}.made") / file.name
            _write(file, given.root / file.name, mark, tree)


def _write(file: InputFile, target: Path, mark: Path, tree: Callable[[], Path]) -> None:
    """Write one file unless `mark`, kept where the program does not see it, says it is there."""
    recipe = describe(file)
    try:
        if target.is_file() and mark.is_file() and mark.read_text() == recipe:
            return
        for path in (target, mark):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, _content(file, tree))
        os.utime(target, (OLD, OLD))
        write_atomically(mark, recipe.encode())
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror})") from None


def _content(file: InputFile, tree: Callable[[], Path]) -> bytes:
    if file.source is not None:
        return file.source.read_bytes()
    if file.generator is not None:
        return generate(file.generator, file.parameters)
    assert file.unpacked is not None
    root = tree()
    if leads_out(file.unpacked, root):
        raise BuildError(f"{file.unpacked!r} leads out of the program's sources")
    return (root / file.unpacked).read_bytes()


def describe(file: InputFile) -> str:
    """Return a text that changes whenever the file's content would."""
    if file.source is not None:
        return f"copy {file_sha256(file.source)}\n"
    if file.generator is not None:
        return f"make {file.generator} {dict(file.parameters)}\n"
    return f"unpacked {file.unpacked}\n"


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


# The parameters of each generator, in order.
PARAMETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"text": ("size", "seed"), "picture": ("width", "height", "seed"), "records": ("count", "seed")}
)

_GENERATORS: Mapping[str, Callable[..., bytes]] = MappingProxyType(
    {"text": text, "picture": picture, "records": records}
)


def generate(generator: str, parameters: tuple[tuple[str, int], ...]) -> bytes:
    """Return what the generator of that name makes from its parameters."""
    return _GENERATORS[generator](**dict(parameters))
