"""The address space: mapping, rights, the break, reuse, limits."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simprof.simulator.binary.program import PAGE_SIZE
from simprof.simulator.cpu.address_space import (
    AddressSpace,
    GuestFault,
    Mapping,
    OutOfMemory,
    Protection,
)

READ_WRITE = Protection.READ | Protection.WRITE
BASE = 0x10000
LIMIT = 1 << 30


@pytest.fixture
def space() -> AddressSpace:
    return AddressSpace(is64=True, limit=LIMIT)


def test_mapped_pages_are_zero_and_remapping_clears_them(space: AddressSpace) -> None:
    space.map(BASE, PAGE_SIZE, READ_WRITE)
    space.write(BASE, b"abc")
    assert space.read(BASE, 4) == b"abc\0"
    space.map(BASE, PAGE_SIZE, READ_WRITE)
    assert space.read(BASE, 4) == bytes(4)


@pytest.mark.parametrize(
    ("rights", "readable", "writable"),
    [(Protection.NONE, False, False), (Protection.READ, True, False), (READ_WRITE, True, True)],
)
def test_rights_hold(
    space: AddressSpace, rights: Protection, readable: bool, writable: bool
) -> None:
    space.map(BASE, 2 * PAGE_SIZE, READ_WRITE)
    space.protect(BASE + PAGE_SIZE, PAGE_SIZE, rights)
    at = BASE + PAGE_SIZE - 2
    for allowed, action in (
        (readable, lambda: space.read(at, 4)),
        (writable, lambda: space.write(at, b"1234")),
    ):
        if allowed:
            action()
        else:
            with pytest.raises(GuestFault) as caught:
                action()
            assert caught.value.address == BASE + PAGE_SIZE


def test_a_write_that_faults_writes_nothing(space: AddressSpace) -> None:
    space.map(BASE, PAGE_SIZE, READ_WRITE)
    with pytest.raises(GuestFault):
        space.write(BASE + PAGE_SIZE - 2, b"1234")
    assert space.read(BASE + PAGE_SIZE - 2, 2) == b"\0\0"


def test_protecting_unmapped_pages_changes_nothing(space: AddressSpace) -> None:
    space.map(BASE, PAGE_SIZE, READ_WRITE)
    with pytest.raises(GuestFault) as caught:
        space.protect(BASE, 2 * PAGE_SIZE, Protection.READ)
    assert caught.value.address == BASE + PAGE_SIZE
    space.write(BASE, b"x")


def test_memory_across_a_region_boundary_is_one(space: AddressSpace) -> None:
    at = (1 << 32) - PAGE_SIZE
    space.map(at, 2 * PAGE_SIZE, READ_WRITE)
    space.write((1 << 32) - 3, b"across")
    assert space.read((1 << 32) - 3, 6) == b"across"
    assert list(space.mappings()) == [Mapping(at, at + 2 * PAGE_SIZE, READ_WRITE)]


def test_the_limit_counts_accessible_pages_only(space: AddressSpace) -> None:
    space.map(BASE, LIMIT, Protection.NONE)
    with pytest.raises(OutOfMemory):
        space.map(1 << 33, LIMIT + PAGE_SIZE, READ_WRITE)
    space.map(1 << 33, LIMIT, READ_WRITE)
    with pytest.raises(OutOfMemory):
        space.protect(BASE, PAGE_SIZE, Protection.READ)
    space.unmap(1 << 33, PAGE_SIZE)
    space.protect(BASE, PAGE_SIZE, Protection.READ)


def test_nothing_maps_beyond_the_limit_address() -> None:
    space = AddressSpace(is64=False, limit=LIMIT)
    with pytest.raises(OutOfMemory):
        space.map(space.limit_address, PAGE_SIZE, READ_WRITE)


def test_freed_ranges_are_used_again() -> None:
    space = AddressSpace(is64=False, limit=LIMIT)
    size = 256 << 20
    seen = set()
    for _ in range(40):  # 10 GiB in all, in a space of 4 GiB
        address = space.find_free(size)
        space.map(address, size, READ_WRITE)
        seen.add(address)
        space.unmap(address, size)
    assert len(seen) < 20


@pytest.mark.parametrize("is64", [True, False])
def test_free_ranges_are_found_as_qemu_finds_them(is64: bool) -> None:
    space = AddressSpace(is64, LIMIT)
    first, second = (space.find_free(3 * PAGE_SIZE), 0)
    space.map(first, 3 * PAGE_SIZE, READ_WRITE)
    second = space.find_free(PAGE_SIZE)
    assert second == (first + 3 * PAGE_SIZE if is64 else first - PAGE_SIZE)
    assert space.find_free(PAGE_SIZE, hint=0x5000000) == 0x5000000


def test_the_break_grows_and_shrinks(space: AddressSpace) -> None:
    space.start_break(BASE + 5)
    start = BASE + PAGE_SIZE
    assert space.program_break == start
    assert space.set_break(start + 100) == start + 100
    space.write(start, b"\1" * 100)
    assert space.set_break(start + 10) == start + 10
    assert space.set_break(start + 200) == start + 200
    assert space.read(start, 100) == b"\1" * 10 + bytes(90)
    assert space.set_break(BASE) == start + 200
    space.map(start + PAGE_SIZE, PAGE_SIZE, READ_WRITE)
    assert space.set_break(start + 2 * PAGE_SIZE) == start + 200


def test_code_pages_report_changes_from_outside(space: AddressSpace) -> None:
    reports = []
    space.on_code_change = lambda start, end: reports.append((start, end))
    space.map(BASE, PAGE_SIZE, READ_WRITE)
    space.write(BASE, b"x")
    assert not reports
    space.set_page_bits(BASE, space.page_bits(BASE) | 8)
    space.write(BASE + 4, b"xy")
    space.unmap(BASE, PAGE_SIZE)
    assert reports == [(BASE + 4, BASE + 6), (BASE, BASE + PAGE_SIZE)]


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["map", "unmap", "protect"]),
        st.integers(0, 15),
        st.integers(1, 6),
        st.sampled_from([Protection.NONE, Protection.READ, READ_WRITE]),
    ),
    max_size=25,
)


@pytest.mark.long
@given(OPERATIONS)
def test_behaves_like_a_dictionary_of_pages(
    operations: list[tuple[str, int, int, Protection]],
) -> None:
    space = AddressSpace(is64=True, limit=LIMIT)
    model: dict[int, Protection] = {}
    held: set[int] = set()  # pages that have had a right since they were mapped
    for name, first, count, rights in operations:
        address, pages = BASE + first * PAGE_SIZE, range(first, first + count)
        if name == "map":
            space.map(address, count * PAGE_SIZE, rights)
            held -= set(pages)
            model.update(dict.fromkeys(pages, rights))
        elif name == "unmap":
            space.unmap(address, count * PAGE_SIZE)
            held -= set(pages)
            for page in pages:
                model.pop(page, None)
        elif all(page in model for page in pages):
            space.protect(address, count * PAGE_SIZE, rights)
            model.update(dict.fromkeys(pages, rights))
        held |= {page for page, rights in model.items() if rights}
    found = {
        (each.start - BASE) // PAGE_SIZE + offset: each.protection
        for each in space.mappings()
        for offset in range((each.end - each.start) // PAGE_SIZE)
    }
    assert found == model
    assert space.used == PAGE_SIZE * len(held)


def test_free_ranges_are_searched_on_from_the_last_one(space: AddressSpace) -> None:
    """What has just been unmapped is not reused at once: stale pointers into it fault."""
    first = space.find_free(PAGE_SIZE)
    space.map(first, PAGE_SIZE, READ_WRITE)
    space.unmap(first, PAGE_SIZE)
    assert space.find_free(PAGE_SIZE) == first + PAGE_SIZE


@pytest.mark.parametrize(("first", "pages"), [(0, 3), (0, 1), (2, 1), (1, 1)])
def test_memory_that_was_a_files_is_its_own_again(
    space: AddressSpace, first: int, pages: int
) -> None:
    """Whatever part of the window goes: it is zero, the file is not written, the rest stays."""
    descriptor = os.memfd_create("window")
    try:
        os.write(descriptor, b"file" * (3 * PAGE_SIZE // 4))
        space.map(BASE, 3 * PAGE_SIZE, READ_WRITE)
        space.share(BASE, 3 * PAGE_SIZE, descriptor, 0)
        assert space.read(BASE, 4) == b"file"
        start = BASE + first * PAGE_SIZE
        space.unmap(start, pages * PAGE_SIZE)
        space.map(start, pages * PAGE_SIZE, READ_WRITE)
        assert space.read(start, pages * PAGE_SIZE) == bytes(pages * PAGE_SIZE)
        space.write(start, b"mine")
        assert os.pread(descriptor, 4, first * PAGE_SIZE) == b"file"
        others = set(range(3)) - set(range(first, first + pages))
        assert all(space.read(BASE + page * PAGE_SIZE, 4) == b"file" for page in others)
    finally:
        os.close(descriptor)
