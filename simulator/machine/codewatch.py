"""Watching what the program executes: code of its file that it has changed cannot be profiled."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from simprof.simulator.binary.dynamic import loaded_part
from simprof.simulator.binary.program import PAGE_SIZE, Module, Program, Range, Segment
from simprof.simulator.cpu.address_space import EXECUTED, SHADOWED, AddressSpace, Protection
from simprof.simulator.cpu.cpu import Cpu
from simprof.simulator.cpu.cpu_state import SHADOWS
from simprof.simulator.cpu.operations import as_executed
from simprof.simulator.cpu.traps import MAX_CODE_RANGES
from simprof.simulator.errors import UnsupportedError
from simprof.simulator.machine.running import CodeBlock

_UNIMP_MASK = 0xC1C00000  # op and op2 of `unimp` are zero


class LoadedCode(Struct, frozen=True):
    """What a dynamically linked program has executed that its own file does not have."""

    modules: frozenset[Module]  # Its interpreter and its libraries
    # (address, words) of blocks of late code, as they were when they were executed
    blocks: frozenset[tuple[int, tuple[int, ...]]]
    # (address, word) of late code, as it was when it was last translated
    late_words: frozenset[tuple[int, int]]
    # (address, words) of blocks of late code as they were before these words were written
    earlier: frozenset[tuple[int, tuple[int, ...]]]


# The graphs of a program are made from its file. Code of the file that the program changes would be
# profiled wrongly, so it is noticed and refused. Code that the program makes elsewhere (trampolines
# on the stack, compilers' output on the heap) is in no graph, and told to the observer, which needs
# its words to follow control through it. Nothing of this costs anything
# while blocks execute: the engine reports each block when it translates it (`traps.check_code`
# passes the plain cases), and translates a block again after its bytes have changed.
#
# Code in writable segments that is only valid after start-up (`Program.late_code`) counts as it is
# when it is first executed.
class CodeWatch:
    """Decides about code that the engine is about to translate."""

    # Late code of a dynamically linked program may change. `on_late_block` is called when a block
    # of it is new or another one than before, and for each block that the program has generated.

    def __init__(
        self,
        program: Program,
        cpu: Cpu,
        memory: AddressSpace,
        shadows: Shadows,
        on_late_block: Callable[[CodeBlock], None] = lambda block: None,
    ) -> None:
        self._program = program
        self._is_dynamic = bool(program.parts)
        self._code, self._late_code = program.code, program.late_code
        self._segments: tuple[Segment, ...] = program.segments
        self._modules: set[Module] = set()
        # Late blocks: (address, size) -> the words that they have had.
        self._versions: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        self._on_late_block = on_late_block
        self._cpu = cpu
        self._memory = memory
        self._shadows = shadows
        self.patched: set[int] = set()  # addresses of instructions that `patch` has replaced
        self._late: dict[int, int] = {}  # address -> word when it was first executed

    def plain_ranges(self) -> list[Range]:
        """Ranges whose code is known from the file."""
        late = self._program.late_code
        return [
            each
            for each in self._program.code
            if not any(each.start < other.end and other.start < each.end for other in late)
        ][:MAX_CODE_RANGES]

    def patch(self, pc: int, word: int) -> None:
        """Replace an instruction by one that does the same on this engine."""
        self.patched.add(pc)
        if pc in self._late and not self._is_dynamic:
            self._late[pc] = word
        self._memory.load(pc, word.to_bytes(4, "big"))

    def forget(self, start: int, end: int) -> None:
        """Drop translations from pages of [start, end), which change behind the engine's back."""
        # The engine finds them only while the pages can be executed.
        memory, cpu = self._memory, self._cpu
        for page in range(start // PAGE_SIZE * PAGE_SIZE, end, PAGE_SIZE):
            bits = memory.page_bits(page)
            if not bits & EXECUTED:
                continue
            self._shadows.refresh(page)
            memory.set_page_bits(page, bits | Protection.EXECUTE)
            cpu.flush_translations()
            cpu.forget_code(page, page + PAGE_SIZE)
            memory.set_page_bits(page, bits)
            cpu.flush_translations()

    def check(self, address: int, size: int) -> None:
        """Look at a block about to be translated; raises `UnsupportedError`."""
        code = self._memory.peek(address, size)
        if _inside(self._late_code, address, address + size):
            if self._is_dynamic:
                self._note_late(address, code)
                return
            for place, word in enumerate(_words(code)):
                if self._late.setdefault(address + 4 * place, word) != word:
                    raise self._refusal("changes its own code at", address + 4 * place)
            return
        if _inside(self._code, address, address + size):
            if self._differs(address, code):
                raise self._refusal("changes its own code at", address)
            return
        if int.from_bytes(code[:4], "big") & _UNIMP_MASK:
            self._on_late_block(CodeBlock(address, _words(code), is_generated=True))

    def add_module(self, module: Module) -> None:
        """Take note of a module that the program has loaded."""
        self._modules.add(module)
        if module not in self._program.modules:
            part = loaded_part(module)
            self._code += part.code
            self._late_code += part.late_code
            self._segments += part.segments

    @property
    def loaded(self) -> LoadedCode:
        """What a dynamically linked program has executed that its own file does not have."""
        versions = self._versions.items()
        blocks = frozenset((address, words) for (address, _), each in versions for words in each)
        earlier = frozenset(
            (address, words)
            for address, words in blocks
            if any(self._late[address + 4 * n] != word for n, word in enumerate(words))
        )
        late_words = frozenset(self._late.items())
        return LoadedCode(frozenset(self._modules), blocks, late_words, earlier)

    def _note_late(self, address: int, code: bytes) -> None:
        # The interpreter of a dynamically linked program writes stubs anew when it binds them.
        words = _words(code)
        versions = self._versions.setdefault((address, len(code)), [])
        if not versions or versions[-1] != words:
            if words in versions:
                raise self._refusal("changes its own code to and fro at", address)
            versions.append(words)
            self._on_late_block(CodeBlock(address, words, is_generated=False))
        self._late.update((address + 4 * number, word) for number, word in enumerate(words))

    def _refusal(self, what: str, address: int) -> UnsupportedError:
        return UnsupportedError(
            f"{self._program.path}: the program {what} {address:#x}; "
            "simprof cannot profile self-modified code"
        )

    def _differs(self, address: int, code: bytes) -> bool:
        # Whether code differs from the file's (our own patches aside).
        original = bytearray(len(code))
        for segment in self._segments:
            low = max(address, segment.address)
            high = min(address + len(code), segment.address + len(segment.data))
            if low < high:
                part = segment.data[low - segment.address : high - segment.address]
                original[low - address : high - address] = part
        for offset in range(0, len(code), 4):
            if address + offset in self.patched:
                original[offset : offset + 4] = code[offset : offset + 4]
        return bytes(original) != code


def _words(code: bytes) -> tuple[int, ...]:
    return tuple(int.from_bytes(code[at : at + 4], "big") for at in range(0, len(code), 4))


def _inside(ranges: tuple[Range, ...], start: int, end: int) -> bool:
    return any(span.start <= start and end <= span.end for span in ranges)


# Some pages are executed from a copy. SPARC V9 reserves two conditions of instructions that test a
# register (`traps.is_reserved`). A processor raises an illegal instruction; the engine has no
# translation for them, and ends the whole process. A page that holds such words may hold them as
# data, too, so that they stay where they are: the page's *shadow* has `illtrap` in their place, and
# code is fetched from there. Instructions that the engine computes wrongly have others in their
# place (`operations.as_executed`).
class Shadows:
    """The shadows of a program's pages; `are_others`: what else is not for the engine."""

    def __init__(
        self,
        cpu: Cpu,
        memory: AddressSpace,
        are_others: Callable[[NDArray[np.uint32]], NDArray[np.bool_]] | None = None,
    ) -> None:
        self._cpu = cpu
        self._memory = memory
        self._are_others = are_others
        self._pages: dict[int, tuple[mmap.mmap, int]] = {}  # address -> copy, its host address

    def make(self, page: int) -> None:
        """Execute the page at `page` from a shadow from now on."""
        if page not in self._pages:
            copy = mmap.mmap(-1, PAGE_SIZE)
            host = ctypes.addressof(ctypes.c_char.from_buffer(copy))
            self._pages[page] = copy, host
            self._cpu.map(page + SHADOWS, PAGE_SIZE, host)
        self._memory.set_page_bits(page, self._memory.page_bits(page) | SHADOWED)
        self.refresh(page)

    def refresh(self, page: int) -> None:
        """Bring the shadow of the page at `page` up to date, if it has one."""
        if page not in self._pages:
            return
        words = np.frombuffer(self._memory.peek(page, PAGE_SIZE), ">u4")
        removed, executed = are_reserved(words), words
        if self._are_others is None:
            executed = as_executed(words)
        else:
            removed |= self._are_others(words)
        self._pages[page][0][:] = np.where(removed, 0, executed).astype(">u4").tobytes()


def are_reserved(words: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Say of each of `words` whether it is reserved (`traps.is_reserved` in native code)."""
    size = words >> 5 & 31
    of_floats = (words & 0xC1F82C00 == 0x81A80000) & (size >= 5) & (size <= 7)
    branches = (words & 0xC7C00000 == 0x00C00000) | (words & 0xD1C00000 == 0x10C00000)
    result: NDArray[np.bool_] = branches | (words & 0xC1F80C00 == 0x81780000) | of_floats
    return result


def is_reserved(word: int) -> bool:
    """Say whether one word is reserved."""
    return bool(are_reserved(np.array([word], np.uint32))[0])
