"""Source lines that are kept are those of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from simprof.profiler.profiles.cache_files import CacheFiles
from simprof.profiler.session.kept_lines import with_kept_lines
from simprof.simulator.binary import elf
from simprof.simulator.binary.program import LineTable, Program, Range, SourceLine

SOURCE = """
#include <stdio.h>
static int twice(int n) { return 2 * n; }
int main(int count, char **words) {
  for (int i = 0; i < count; i++)
    printf("%d %s\\n", twice(i), words[i]);
  return 0;
}
"""


class Unread:
    """A table that nobody may ask."""

    def find(self, address: int) -> SourceLine | None:
        raise AssertionError(f"{address:#x} was asked for")

    def stretches(self) -> Iterator[tuple[Range, SourceLine]]:
        raise AssertionError("the table was read")


class Rows:
    """A table as a damaged file could have it."""

    def __init__(self, *rows: tuple[int, int, int]) -> None:
        self._rows = rows

    def find(self, address: int) -> SourceLine | None:
        raise AssertionError("rows suffice")

    def stretches(self) -> Iterator[tuple[Range, SourceLine]]:
        for start, end, line in self._rows:
            yield Range(start, end), SourceLine("a.c", line)


def kept(program: Program, table: LineTable, directory: Path) -> LineTable:
    return with_kept_lines(replace(program, lines=table), CacheFiles(directory)).lines


@pytest.mark.toolchain
def test_lines_are_read_once(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    program = elf.load(compile_c(SOURCE, ("-g",)))
    expected = list(program.lines.stretches())
    assert expected
    addresses = [a + n for span, _ in expected for a in (span.start, span.end) for n in (-4, 0, 4)]
    for table in (program.lines, Unread()):
        found = kept(program, table, tmp_path)
        assert [found.find(address) for address in addresses] == [
            program.lines.find(address) for address in addresses
        ]
        assert list(found.stretches()) == expected


def test_a_program_without_lines_has_none_twice(
    fixture_elf: Callable[..., Path], tmp_path: Path
) -> None:
    program = elf.load(fixture_elf("switches", "v9"))
    bare = replace(program, lines=Rows())
    for table in (bare.lines, Unread()):
        found = kept(program, table, tmp_path)
        assert found.find(program.entry) is None
        assert list(found.stretches()) == []


@pytest.mark.parametrize("row", [(-8, 4, 1), (0, 1 << 70, 1), (0, 8, -3)])
def test_numbers_beyond_all_sense_are_told_and_not_kept(
    fixture_elf: Callable[..., Path], tmp_path: Path, row: tuple[int, int, int]
) -> None:
    program = elf.load(fixture_elf("switches", "v9"))
    found = kept(program, Rows(row), tmp_path)
    assert found.find(0) == SourceLine("a.c", row[2])
    assert not list(tmp_path.iterdir())


def test_without_a_cache_the_file_is_asked(fixture_elf: Callable[..., Path]) -> None:
    program = elf.load(fixture_elf("switches", "v9"))
    assert with_kept_lines(program, None) is program
