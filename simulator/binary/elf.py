"""ELF file -> `Program`: the headers are read by hand, bounded by the file's size.

Steps -> functions: a regular file, not absurdly large (`_read_file`); which architecture and kind
of file, everything else is refused by name (`_read_header`); what Linux would map
(`_read_segments`); where instructions and symbols are (`_code_ranges`, `_table_symbols`). Lines are
read when they are first asked for (`dwarf_lines`).
"""

# pyelftools, which reads the debugging information, does not read the headers: every run needs
# them, importing it takes a tenth of a short run (35 to 70 ms of processor time), and it does not
# compare their parts. A file without section headers (`sstrip`) is complete, one whose headers lie
# outside is truncated.

from __future__ import annotations

import hashlib
import itertools
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from simprof.simulator.binary import elf_records as records
from simprof.simulator.binary.debug_info import find_debug_file
from simprof.simulator.binary.elf_records import ElfImage, FileHeader, ProgramHeader, SectionHeader
from simprof.simulator.binary.program import (
    PAGE_SIZE,
    Binding,
    LineRows,
    LineTable,
    MachineKind,
    Platform,
    Program,
    Range,
    Segment,
    Symbol,
    joined,
)
from simprof.simulator.errors import ProgramFileError

MAX_FILE_SIZE = 1 << 30  # largest file read, in bytes

# Load bias of position-independent programs: clear of stack, mappings and break.
PIE_BASE_64 = 0x55_0000_0000
PIE_BASE_32 = 0x5000_0000

# Where LEON processors have their memory; devices begin behind it.
LEON_MEMORY = Range(0x4000_0000, 0x8000_0000)

# Load bias of those with an interpreter: as under qemu-user.
DYNAMIC_BASE_64 = 0x40_0000_0000
DYNAMIC_BASE_32 = 0x4000_0000

_MAX_SPAN = 1 << 34  # bytes from the lowest to the highest segment address
_MOST_COPIES = 4  # of the same bytes, by overlapping parts: linkers overlap pages at most
_MOST_NAMES = 128 << 20  # bytes of the names of all symbols, which may be ends of one long name
_LIMIT_64 = 1 << 43
_LIMIT_32 = 0xF000_0000

_MACHINES = {2: MachineKind.SPARCV8, 18: MachineKind.SPARCV8PLUS, 43: MachineKind.SPARCV9}
_OTHER_MACHINES = {
    3: "x86 (32-bit)", 4: "Motorola 68000", 6: "Intel 80486", 8: "MIPS", 15: "PA-RISC",
    20: "PowerPC", 21: "PowerPC 64", 22: "S/390", 40: "ARM", 42: "SuperH", 50: "Itanium",
    62: "x86-64", 83: "AVR", 92: "OpenRISC", 94: "Xtensa", 183: "AArch64", 189: "MicroBlaze",
    243: "RISC-V", 247: "BPF", 258: "LoongArch", 0x9026: "Alpha",
}  # fmt: skip
_OTHER_SYSTEMS = {2: "NetBSD", 6: "Solaris", 9: "FreeBSD", 12: "OpenBSD"}

_ET_REL, _ET_EXEC, _ET_DYN, _ET_CORE = 1, 2, 3, 4
_DT_NULL, _DT_NEEDED, _DT_FLAGS_1, _DF_1_PIE = 0, 1, 0x6FFFFFFB, 0x08000000
_FUNCTION_TYPES = (records.STT_FUNC, records.STT_GNU_IFUNC)
_SYMBOL_TYPES = (records.STT_NOTYPE, records.STT_OBJECT, *_FUNCTION_TYPES)
_BINDINGS = {0: Binding.LOCAL, 1: Binding.GLOBAL, 2: Binding.WEAK, 10: Binding.GLOBAL}
_BOUND = tuple(_BINDINGS)


_Check = Callable[[ElfImage], None]  # refuses kinds of files


class _Refusal(Exception):  # noqa: N818 - never leaves this module
    """Why the file is refused, without its name."""


def _refuse_if(is_wrong: object, why: str) -> None:
    if is_wrong:
        raise _Refusal(why)


def load(path: Path | str) -> Program:
    """Read a statically linked SPARC program: ET_EXEC, or ET_DYN without interpreter (static-pie).

    Addresses have the load bias added. Raises `ProgramFileError` with one line that says what is
    wrong with the file and what to do.
    """
    return parse(None, Path(path))


def load_part(path: Path | str, bias: int | None = None) -> Program:
    """Read a file of a dynamically linked program: its own, its interpreter, or a library.

    `bias`: What is added to its addresses, in bytes; None: what programs get (`DYNAMIC_BASE_64`).
    What is in that file alone, with symbols for the stubs of its procedure linkage table. Raises as
    `load`.
    """
    return parse(None, Path(path), _accept, bias)


def load_own(path: Path | str) -> Program:
    """Read a program, linked in either way, without what else it loads; raises as `load`."""
    return parse(None, Path(path), _refuse_without_interpreter)


def parse(
    data: bytes | None, path: Path, check: _Check | None = None, bias: int | None = None
) -> Program:
    """Return the program in `data`, by default the content of `path`; raises as `load` does."""
    try:
        content = _read_file(path) if data is None else data
        return _parse(path, content, check or _refuse_dynamic, bias)
    except _Refusal as refusal:
        raise ProgramFileError(f"{path}: {refusal}") from None


def _read_file(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        _refuse_if(stat.S_ISDIR(mode), "is a directory; give a SPARC ELF program")
        _refuse_if(not stat.S_ISREG(mode), "is not a regular file; give a SPARC ELF program")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_SIZE + 1)
    except FileNotFoundError:
        raise _Refusal("no such file; check the path") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _Refusal(f"cannot be read ({reason}); check its permissions") from None
    _refuse_if(len(data) > MAX_FILE_SIZE, f"is larger than {MAX_FILE_SIZE >> 20} MiB; strip it")
    return data


def _parse(path: Path, data: bytes, check: _Check, given_bias: int | None = None) -> Program:
    image = _read_header(data)
    header, machine = image.header, _MACHINES[image.header.machine]
    check(image)
    interpreter = _interpreter(image)
    bias = given_bias
    if bias is None:
        static = PIE_BASE_64 if image.is64 else PIE_BASE_32
        dynamic = DYNAMIC_BASE_64 if image.is64 else DYNAMIC_BASE_32
        movable = static if interpreter is None else dynamic
        bias = movable if header.kind == _ET_DYN else 0
    segments = _read_segments(image, bias)
    entry = header.entry + bias
    if given_bias is None:
        runs = any(
            each.executable and 0 <= entry - each.address < len(each.data) for each in segments
        )
        _refuse_if(not runs, f"has its entry point {entry:#x} outside its code; it is damaged")
        _refuse_if(entry % 4, f"has a misaligned entry point {entry:#x}; it is damaged")
    for index, section in enumerate(image.sections):
        is_beyond = section.in_file and section.offset + section.size > len(data)
        _refuse_if(is_beyond, f"has section {index} beyond its end; it is truncated or damaged")
    headers_address = headers_end = 0  # where a segment maps the program headers, if one does
    for each in image.program_headers:
        inside = header.program_headers - each.offset
        if each.kind == records.PT_LOAD and 0 <= inside < each.file_size:
            headers_address = each.address + inside + bias
            size = header.program_header_size * header.program_header_count
            headers_end = headers_address + size if headers_address else 0
            break
    code, late_code = _code_ranges(image.sections, segments, bias, headers_end)
    if given_bias is None and not any(entry in span for span in (*code, *late_code)):
        code, late_code = _code_ranges((), segments, bias, headers_end)
    unwinding = _section_named(b".eh_frame", image, bias)
    debug_file, debug = _separate(path, image)
    symbolic = image if debug is None or _has_symbols(image) else debug
    tables = _symbol_tables(symbolic)
    found = {each for table in tables for each in _table_symbols(symbolic, *table, segments, bias)}
    symbols = tuple(
        Symbol(name, address, size, binding, is_function)
        for address, name, binding, size, is_function in sorted(found)
    )
    if check is _accept or interpreter is not None:
        stubs = records.stub_symbols(image, bias, _section_named(b".plt", image, bias))
        symbols = tuple(sorted((*symbols, *stubs), key=lambda s: (s.address, s.name)))
    # A V8 program that begins in LEON's memory is for LEON: no Linux program is linked there.
    is_fixed = machine is MachineKind.SPARCV8 and header.kind == _ET_EXEC
    platform = Platform.LEON3 if is_fixed and header.entry in LEON_MEMORY else Platform.LINUX
    if platform is Platform.LEON3:
        code, late_code = tuple(sorted((*code, *late_code), key=lambda each: each.start)), ()
    return Program(
        path=path,
        sha256=hashlib.sha256(data).hexdigest(),
        machine=machine,
        entry=entry,
        segments=segments,
        code=code,
        late_code=late_code,
        symbols=symbols,
        load_bias=bias,
        program_headers_address=headers_address,
        program_header_size=header.program_header_size,
        program_header_count=header.program_header_count,
        # As Linux: executable where no PT_GNU_STACK says otherwise.
        stack_executable=all(
            each.flags & records.PF_X
            for each in image.program_headers
            if each.kind == records.PT_GNU_STACK
        ),
        lines=LineTable(partial(_read_lines, data if debug is None else debug.data, bias, code)),
        debug_file=debug_file,
        unwinding=() if unwinding is None else (unwinding,),
        interpreter=interpreter,
        platform=platform,
        named_registers=frozenset().union(
            *(
                records.named_registers(
                    symbolic.table(table, symbolic.formats.symbol), symbolic.content(names)
                )
                for table, names in tables
            )
        ),
    )


def _interpreter(image: ElfImage) -> str | None:
    for entry in image.program_headers:
        if entry.kind == records.PT_INTERP:
            text = image.data[entry.offset :][: entry.file_size].split(b"\0")[0]
            _refuse_if(text[:1] != b"/", "does not name its interpreter; it is damaged")
            return text.decode("utf-8", "surrogateescape")
    return None


def _read_header(data: bytes) -> ElfImage:
    truncated = "is truncated inside its ELF header; copy or link it again"
    _refuse_if(data[:4] != b"\x7fELF", "is not an ELF file; give a SPARC ELF program")
    _refuse_if(len(data) < 52, truncated)
    little = data[5] == 1
    machine_number = int.from_bytes(data[18:20], "little" if little else "big")
    machine = _MACHINES.get(machine_number)
    if machine is None and little and int.from_bytes(data[18:20], "big") in _MACHINES:
        raise _Refusal("is marked as little-endian; SPARC Linux is big-endian")
    if machine is None:
        name = _OTHER_MACHINES.get(machine_number, f"machine number {machine_number}")
        raise _Refusal(f"is a program for {name}, not SPARC; build it for SPARC")
    wrong_order = "is little-endian or of unknown byte order; SPARC Linux is big-endian"
    _refuse_if(data[5] != 2, wrong_order)
    contradicts = data[4] != (2 if machine is MachineKind.SPARCV9 else 1)
    _refuse_if(contradicts, "has an ELF class that contradicts its machine; link it again")
    _refuse_if(data[6] != 1, f"has unknown ELF version {data[6]}; link it again")
    other_system = _OTHER_SYSTEMS.get(data[7])
    _refuse_if(other_system, f"is a program for {other_system}; build it for Linux")
    formats = records.FORMATS_64 if machine is MachineKind.SPARCV9 else records.FORMATS_32
    _refuse_if(len(data) < formats.header.size, truncated)
    header = FileHeader(*formats.header.unpack_from(data))
    kind, version = header.kind, header.version
    _refuse_if(kind == _ET_REL, 'is a relocatable object; link it ("gcc -static")')
    _refuse_if(kind == _ET_CORE, "is a core dump; give the program itself")
    is_other = kind not in (_ET_EXEC, _ET_DYN)
    _refuse_if(is_other, f"is not a program (ELF type {kind}); link it again")
    _refuse_if(version != 1, f"has unknown ELF version {version}; link it again")
    _refuse_if(header.program_header_count == 0, "has no program headers; link it again")
    each, end = header.program_header_size, header.program_headers
    end += header.program_header_count * each
    is_odd = each != formats.program_header.size
    _refuse_if(is_odd, f"has program headers of {each} bytes; its header is damaged")
    _refuse_if(end > len(data), "has program headers beyond its end; it is truncated or damaged")
    if header.sections and header.section_count:
        each, end = header.section_size, header.sections
        end += header.section_count * each
        is_odd = each != formats.section_header.size
        _refuse_if(is_odd, f"has section headers of {each} bytes; its header is damaged")
        _refuse_if(
            end > len(data), "has section headers beyond its end; it is truncated or damaged"
        )
    return records.read_image(data)


def _accept(image: ElfImage) -> None:
    """Accept what is linked in any way."""


def _refuse_without_interpreter(image: ElfImage) -> None:
    # What is dynamically linked, and names nothing that would link it.
    if all(entry.kind != records.PT_INTERP for entry in image.program_headers):
        _refuse_dynamic(image)


def _refuse_dynamic(image: ElfImage) -> None:
    headers, data = image.program_headers, image.data
    has_interpreter = any(entry.kind == records.PT_INTERP for entry in headers)
    _refuse_if(has_interpreter, 'is dynamically linked; link with "-static"')
    dynamic = [entry for entry in headers if entry.kind == records.PT_DYNAMIC]
    sizes = [entry.file_size for entry in dynamic]
    _check_room("dynamic sections", [size for size in sizes if size <= len(data)], data)
    tags = [pair for entry in dynamic for pair in _dynamic_tags(image, entry)]
    is_library = any(tag == _DT_NEEDED for tag, _ in tags)
    _refuse_if(is_library, "is a shared library, or names no interpreter; give a program")
    pie = any(tag == _DT_FLAGS_1 and value & _DF_1_PIE for tag, value in tags)
    is_library = image.header.kind == _ET_DYN and not pie
    _refuse_if(is_library, "is a shared library; give a program")


def _check_room(what: str, sizes: Sequence[int], data: bytes) -> None:
    # Parts that overlap so often that they are larger than the file, all together.
    is_large = sum(sizes) > _MOST_COPIES * len(data)
    _refuse_if(is_large, f"has {what} larger than the file; it is damaged")


def _dynamic_tags(image: ElfImage, entry: ProgramHeader) -> Iterator[tuple[int, int]]:
    record, data = image.formats.dynamic, image.data
    is_beyond = entry.offset + entry.file_size > len(data)
    _refuse_if(is_beyond, "has a dynamic section beyond its end; it is truncated or damaged")
    for offset in range(0, entry.file_size - record.size + 1, record.size):
        tag, value = record.unpack_from(data, entry.offset + offset)
        if tag == _DT_NULL:
            return
        yield tag, value


def _read_segments(image: ElfImage, bias: int) -> tuple[Segment, ...]:
    data, limit = image.data, _LIMIT_64 if image.is64 else _LIMIT_32
    headers = image.program_headers
    loaded = [each for each in headers if each.kind == records.PT_LOAD and each.memory_size]
    inside = [e.file_size for e in loaded if e.offset + e.file_size <= len(data)]
    _check_room("segments", inside, data)
    segments = []
    for entry in loaded:
        end = entry.offset + entry.file_size
        # `strip` leaves segments without content (.bss alone) beyond the file's end.
        is_beyond = entry.file_size and end > len(data)
        _refuse_if(is_beyond, "has a segment beyond its end; it is truncated or damaged")
        is_larger = entry.file_size > entry.memory_size
        _refuse_if(is_larger, "has a segment larger in the file than in memory; it is damaged")
        is_misplaced = (entry.address - entry.offset) % 4
        _refuse_if(is_misplaced, f"has a misplaced segment at {entry.address:#x}; it is damaged")
        start = entry.address + bias
        is_outside = start + entry.memory_size > limit or (start < PAGE_SIZE and not bias)
        where = f"at the impossible address {start:#x}"
        _refuse_if(is_outside, f"has a segment {where}; it is damaged")
        rights = (bool(entry.flags & each) for each in (records.PF_R, records.PF_W, records.PF_X))
        segments.append(Segment(start, data[entry.offset : end], entry.memory_size, *rights))
    segments.sort(key=lambda segment: segment.address)
    is_runnable = any(segment.executable for segment in segments)
    _refuse_if(not is_runnable, "has no executable segment; link it again")
    for lower, upper in itertools.pairwise(segments):
        overlaps = lower.address + lower.memory_size > upper.address
        _refuse_if(overlaps, f"has segments that overlap at {upper.address:#x}; it is damaged")
    span = segments[-1].address + segments[-1].memory_size - segments[0].address
    most = f"{_MAX_SPAN >> 30} GiB"
    _refuse_if(span > _MAX_SPAN, f"spreads its segments over more than {most}; it is damaged")
    return tuple(segments)


def _read_lines(data: bytes, bias: int, code: Sequence[Range]) -> LineRows:
    if b"debug_line" not in data:  # No section can have the name.
        return LineRows()
    from simprof.simulator.binary.dwarf_lines import read_rows  # what is kept of a run has them

    return read_rows(data, bias, code)


def _section_named(name: bytes, image: ElfImage, bias: int) -> Range | None:
    for section in image.sections:
        is_loaded = section.flags & records.SHF_ALLOC and section.kind != records.SHT_NOBITS
        if is_loaded and image.section_name(section) == name:
            return Range(section.address + bias, section.address + bias + section.size)
    return None


def _code_ranges(
    sections: Sequence[SectionHeader], segments: Sequence[Segment], bias: int, header_end: int
) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    """Split what holds instructions into (code, late code); see `Program`."""
    wanted = records.SHF_ALLOC | records.SHF_EXECINSTR
    spans = [
        Range(each.address + bias, each.address + bias + each.size)
        for each in sections
        if each.flags & wanted == wanted and each.kind == records.SHT_PROGBITS and each.size
    ]
    sorted_spans = joined([_words(span.start, span.end) for span in spans])
    code: list[Range] = []
    late: list[Range] = []
    first = 0  # of the spans that end behind the segments so far
    for segment in segments:
        start, end = segment.address, segment.address + len(segment.data)
        while first < len(sorted_spans) and sorted_spans[first].end <= start:
            first += 1
        if not segment.executable:
            continue
        inside = list(_within(sorted_spans, first, start, end))
        if not spans:
            inside = [_words(max(start, header_end) if header_end <= end else start, end)]
        (late if segment.writable else code).extend(s for s in inside if s.start < s.end)
    return tuple(joined(code)), tuple(joined(late))


def _words(start: int, end: int) -> Range:
    return Range((start + 3) & ~3, end & ~3)


def _within(spans: Sequence[Range], first: int, start: int, end: int) -> Iterator[Range]:
    for span in itertools.islice(spans, first, None):
        if span.start >= end:
            return
        yield _words(max(span.start, start), min(span.end, end))


def _separate(path: Path, image: ElfImage) -> tuple[Path | None, ElfImage | None]:
    """Return the debug file of a program without lines, and what it says; None where it has them.

    A file that cannot be used is none: the program can be.
    """
    if b"debug_line" in image.data or (place := find_debug_file(path, image)) is None:
        return None, None
    try:
        debug = _read_header(_read_file(place))
    except _Refusal:
        return None, None
    return place, debug


def _has_symbols(image: ElfImage) -> bool:
    return any(section.kind == records.SHT_SYMTAB for section in image.sections)


def _symbol_tables(image: ElfImage) -> list[tuple[SectionHeader, SectionHeader]]:
    sections = image.sections
    tables = [s for s in sections if s.kind == records.SHT_SYMTAB]
    tables = tables or [s for s in sections if s.kind == records.SHT_DYNSYM]
    _check_room("symbol tables", [table.size for table in tables], image.data)
    return [(table, sections[table.link]) for table in tables if table.link < len(sections)]


def _table_symbols(
    image: ElfImage,
    table: SectionHeader,
    names: SectionHeader,
    segments: Sequence[Segment],
    bias: int,
) -> Iterator[tuple[int, str, Binding, int, bool]]:
    """Yield address, name, binding, size and whether it is a function of each symbol."""
    strings = image.content(names)
    found = image.table(table, image.formats.symbol)
    is_wanted = np.isin(found["info"] & 15, _SYMBOL_TYPES) & np.isin(found["info"] >> 4, _BOUND)
    # Without values that would wrap around: segments end below the limit.
    is_wanted &= (found["section"] != 0) & (found["value"] < _LIMIT_64)
    found = found[is_wanted & (found["name"] < len(strings))]
    addresses = found["value"].astype(np.int64) + bias
    places = np.searchsorted([each.address for each in segments], addresses, "right") - 1
    ends = np.array([each.address + each.memory_size for each in segments], np.int64)
    is_inside = (places >= 0) & (addresses < ends[places])
    found, addresses, places = found[is_inside], addresses[is_inside], places[is_inside]
    sizes = np.minimum(found["size"], (ends[places] - addresses).astype(np.uint64))
    columns = (addresses, places, sizes, found["name"], found["info"] & 15, found["info"] >> 4)
    room_for_names = _MOST_NAMES
    for address, place, size, start, kind, binding in zip(
        *(each.tolist() for each in columns), strict=True
    ):
        end = strings.find(b"\0", start)
        name = strings[start : end if end >= 0 else None]
        room_for_names -= len(name)
        if room_for_names < 0:
            raise _Refusal(f"has symbols with names of {_MOST_NAMES >> 20} MiB; strip it")
        if name:
            is_function = kind in _FUNCTION_TYPES and segments[place].executable
            text = name.decode("utf-8", "backslashreplace")
            yield address, text, _BINDINGS[binding], size, is_function
