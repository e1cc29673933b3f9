"""Which routine owns which word: sizes, overlaps, aliases, gaps, routines without symbols."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from simprof.profiler.recovery.code_image import build_code_image
from simprof.profiler.recovery.exploration_kernel import NO_CODE, NOBODY
from simprof.profiler.recovery.routines import Routine, RoutineMap
from simprof.simulator.binary.program import Binding, Range, Segment, Symbol
from simprof.simulator.isa import assembler as asm
from tests.support.assembled import BASE, program_of

WORDS = 12


def symbol(
    name: str, start: int, words: int, binding: Binding = Binding.GLOBAL, function: bool = True
) -> Symbol:
    return Symbol(name, BASE + 4 * start, 4 * words, binding, function)


def layout_of(
    *symbols: Symbol, starts: Sequence[int] = (), gap: tuple[int, int] = (0, 0)
) -> RoutineMap:
    """A layout of 12 words, without those of `gap`."""
    plain = program_of({"f": [asm.nop()] * WORDS})
    ranges = [Range(BASE, BASE + 4 * WORDS)]
    segments: Sequence[Segment] = plain.segments
    if gap[1]:
        ranges = [Range(BASE, BASE + 4 * gap[0]), Range(BASE + 4 * gap[1], BASE + 4 * WORDS)]
    program = replace(plain, symbols=symbols, code=tuple(ranges), segments=tuple(segments))
    return RoutineMap(program, build_code_image(program)).with_synthetic(starts)


def owners(layout: RoutineMap) -> list[str]:
    """Who owns each word; "-" for nobody, "x" where there is no code."""
    found = [layout.owner(index) for index in range(WORDS)]
    return [{NOBODY: "-", NO_CODE: "x"}.get(each) or layout.routines[each].name for each in found]


def test_symbols_cover_what_they_say_and_nobody_the_rest() -> None:
    layout = layout_of(symbol("f", 1, 3), symbol("g", 6, 2))
    assert "".join(owners(layout)) == "-fff--gg----"
    assert layout.owner(-1) == layout.owner(WORDS) == NO_CODE
    assert layout.region(2) == (1, 4, 0)
    assert layout.region(4) == (4, 6, NOBODY)
    assert sorted(layout.symbol_starts) == [1, 6]


def test_a_size_that_is_no_multiple_of_four_reaches_to_the_word_s_end() -> None:
    odd = replace(symbol("f", 0, 2), size=6)
    assert "".join(owners(layout_of(odd))) == "ff----------"


def test_what_starts_last_owns_the_words() -> None:
    nested = layout_of(symbol("f", 0, 8), symbol("g", 2, 3))
    assert "".join(owners(nested)) == "ffgggfff----"
    overlapping = layout_of(symbol("f", 0, 5), symbol("g", 3, 5))
    assert "".join(owners(overlapping)) == "fffggggg----"
    deeper = layout_of(symbol("f", 0, 10), symbol("g", 2, 6), symbol("h", 4, 2))
    assert "".join(owners(deeper)) == "ffgghhggff--"


def test_of_several_names_the_strongest_is_taken_with_the_largest_size() -> None:
    layout = layout_of(
        symbol("z", 0, 2), symbol("a", 0, 4, Binding.WEAK), symbol("b", 0, 1, Binding.LOCAL)
    )
    assert layout.routines == [Routine("z", 0, 16)]
    layout = layout_of(symbol("y", 0, 2), symbol("x", 0, 2))
    assert [routine.name for routine in layout.routines] == ["x"]


def test_symbols_of_data_and_outside_are_no_routines() -> None:
    layout = layout_of(symbol("d", 0, 4, function=False), symbol("o", WORDS, 2))
    assert layout.routines == []


def test_where_there_is_no_code_nobody_owns_anything() -> None:
    layout = layout_of(symbol("f", 0, 8), gap=(4, 6))
    assert "".join(owners(layout)) == "ffffxxff----"


def test_a_symbol_without_size_reaches_to_the_next_region() -> None:
    layout = layout_of(symbol("f", 0, 2), symbol("u", 3, 0), symbol("g", 6, 2))
    assert "".join(owners(layout)) == "ff-uuugg----"
    assert not layout.is_covered(2) and layout.is_covered(0)
    assert 3 in layout.symbol_starts


def test_a_symbol_without_size_does_not_cut_one_that_has_a_size() -> None:
    layout = layout_of(symbol("f", 0, 6), symbol("u", 3, 0))
    assert [routine.name for routine in layout.routines] == ["f"]


def test_synthetic_routines_are_named_by_label_or_address() -> None:
    layout = layout_of(symbol("f", 0, 2), symbol("label", 4, 0, function=False))
    first, second = layout.add_synthetic(4), layout.add_synthetic(8)
    assert [layout.routines[number].name for number in (first, second)] == [
        "label", f"sub_{BASE + 32:x}",
    ]  # fmt: skip
    assert layout.region(4) == (4, 8, first)
    assert layout.region(9) == (8, 12, second)
    assert 4 not in layout.symbol_starts


def test_synthetic_routines_split_each_other_but_no_symbol() -> None:
    layout = layout_of(symbol("f", 0, 4), starts=[4])
    assert layout.add_synthetic(2) == layout.owner(0)
    assert layout.add_synthetic(4) == layout.owner(5)
    inner = layout.add_synthetic(8)
    assert layout.region(5)[:2] == (4, 8)
    assert layout.owner(9) == inner
    assert len(layout.routines) == 3
