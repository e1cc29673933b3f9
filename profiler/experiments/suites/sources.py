"""Places of suites, caches, Debian's archives, and files that programs read.

Upstream archives are fetched from Debian and unpacked. Their checksums are in the suite files: what
is fetched is compared with them wherever it comes from. Input files are copied into the cache, or
generated: by arithmetic, always the same texts, pictures, tables of numbers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote
from urllib.request import urlopen

from simprof.profiler.experiments.suites.suite import Benchmark, InputFile, Package
from simprof.profiler.experiments.suites.toolchain import BuildError
from simprof.profiler.profiles.cache_files import own_cache_directory
from simprof.profiler.profiles.fingerprint import file_sha256
from simprof.profiler.profiles.output import write_atomically
from simprof.profiler.profiles.scratch import scratch_directory
from simprof.simulator.errors import UsageError

# The directory that holds the packages: the checkout, or where a wheel was installed.
CHECKOUT = Path(__file__).resolve().parents[3]


def suites_directory() -> Path:
    """Return the directory of the suites that come with simprof.

    In a checkout it is `fixtures/suites`. A wheel carries it as package data, together with the
    programs that the suites refer to, in the same places relative to each other.

    Raises UsageError if this simprof has neither.
    """
    directories = (CHECKOUT / "fixtures" / "suites", _packaged() / "suites")
    for directory in directories:
        if directory.is_dir():
            return directory
    raise UsageError(
        f"{directories[-1]} is missing: suites come with simprof, install it again "
        "(pip install --force-reinstall simprof)"
    )


def is_shipped(path: Path) -> bool:
    """Whether a suite's file is one that comes with simprof."""
    return path.resolve().parent == suites_directory().resolve()


def leads_out(name: str, base: Path) -> bool:
    """Whether a path, taken from `base`, is not below it: absolute, with `..`, or by a link."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        return True
    return not (base / path).resolve().is_relative_to(base.resolve())


def _packaged() -> Path:
    """Return where a wheel puts what lies in `fixtures` in a checkout."""
    return Path(str(resources.files("simprof.profiler") / "data"))


def suite_cache() -> Path:
    """Return the directory of fetched sources, built programs and generated inputs."""
    return own_cache_directory() / "suites"


def input_directory(suite_file: Path, benchmark: str, name: str) -> Path:
    """Return the directory of one input's files; suite files of one name elsewhere have others."""
    directory = suite_file.parent.resolve()
    mark = hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]
    return suite_cache() / "inputs" / f"{suite_file.stem}-{mark}" / benchmark / name


# Where source packages are fetched: the second is asked for what the first has not.
ARCHIVES = (
    "http://deb.debian.org/debian",
    # Debian's archive as it was on a day: it keeps what the first no longer has.
    "http://snapshot.debian.org/archive/debian/20250520T000000Z",
)
PATIENCE = 30.0  # Seconds without an answer after which a place is given up


def fetched_archive(package: Package, cache: Path) -> Path:
    """Return the package's archive, fetched if the cache lacks it.

    Raises BuildError if it cannot be fetched, or is not the one whose checksum is recorded.
    """
    path = cache / "archives" / package.archive
    if path.exists():
        if file_sha256(path) != package.sha256:
            raise BuildError(f"{path}: its sha256 is not {package.sha256}: remove it and try again")
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    reasons = []
    with scratch_directory("fetch-", cache) as scratch:
        for place in ARCHIVES:
            fetched = scratch / package.archive
            try:
                address = f"{place}/{_pool(package)}"
                with urlopen(address, timeout=PATIENCE) as answer, fetched.open("wb") as file:
                    shutil.copyfileobj(answer, file)
            except (OSError, HTTPException) as error:  # refused, cut, or not there
                reasons.append(f"{place}: {' '.join(str(error).split())}")
                continue
            if (found := file_sha256(fetched)) == package.sha256:
                fetched.replace(path)
                return path
            reasons.append(f"{place}: its sha256 is {found}, not {package.sha256}")
    raise BuildError(f"{package.archive} cannot be fetched ({'; '.join(reasons)})")


def _pool(package: Package) -> str:
    """Return where a package's archive is in any copy of Debian."""
    shelf = package.name[: 4 if package.name.startswith("lib") else 1]
    return quote(f"pool/main/{shelf}/{package.name}/{package.archive}")


def unpack(path: Path, target: Path, directory: str) -> None:
    """Unpack the archive at `path`, which holds one directory, as `target`.

    Raises BuildError if it cannot be unpacked, or holds something else than `directory`.
    """
    scratch = target.with_name(f"{target.name}.partial")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        with tarfile.open(path) as tar:
            tar.extractall(scratch, filter="data")
    except (tarfile.TarError, OSError) as error:
        raise BuildError(f"{path} cannot be unpacked: {error}") from None
    names = sorted(each.name for each in scratch.iterdir())
    if names != [directory]:
        raise BuildError(f"{path} holds {', '.join(names)[:100]}, not {directory}: see the suite")
    (scratch / directory).replace(target)
    scratch.rmdir()


# -- input files ---------------------------------------------------------------------------------

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
        return GENERATORS[file.generator](**dict(file.parameters))
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


def network(nodes: int, arcs: int, seed: int) -> bytes:
    """Return a network with supplies, capacities and costs, as DIMACS writes it.

    One way through all nodes carries anything, so that there is a flow; it is the dearest.
    """
    numbers = stream(seed)

    def draw(limit: int) -> int:
        return (next(numbers) >> 8) % limit

    supply = [0] * (nodes + 1)
    for node in range(1, nodes // 3 + 1):
        amount = 1 + draw(20)
        supply[node] += amount
        supply[nodes + 1 - node] -= amount
    # tail, head, capacity, cost
    made = [(node, node + 1, 1_000_000, 300 + draw(200)) for node in range(1, nodes)]
    while len(made) < arcs:
        tail, head = 1 + draw(nodes), 1 + draw(nodes)
        if tail != head:
            made.append((tail, head, 1 + draw(40), 1 + abs(tail - head) // 4 + draw(100)))
    lines = [f"p min {nodes} {len(made)}"]
    lines += [f"n {node} {amount}" for node, amount in enumerate(supply) if amount]
    lines += [f"a {tail} {head} 0 {most} {cost}" for tail, head, most, cost in made]
    return "".join(f"{line}\n" for line in lines).encode()


GENERATORS: Mapping[str, Callable[..., bytes]] = MappingProxyType(
    {"text": text, "picture": picture, "records": records, "network": network}
)
