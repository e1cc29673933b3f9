"""What the outside says of files: answers to calls, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_OFFSET = (1 << 63) - 1
"""In a file, in bytes."""

BLOCK_SIZE = 4096
"""st_blksize of everything, in bytes."""


@dataclass(frozen=True)
class FileStatus:
    """What stat tells; sizes in bytes, times in nanoseconds since 1970."""

    inode: int
    mode: int
    links: int
    size: int
    modified: int
    special_device: int = 0
    device: int = 1

    @property
    def blocks(self) -> int:
        """Blocks of 512 bytes."""
        return -(-self.size // BLOCK_SIZE) * (BLOCK_SIZE // 512)


@dataclass(frozen=True)
class Special:
    """A file that the emulated kernel itself provides: "null", "fd/1", "exe", "maps", ..."""

    name: str


@dataclass(frozen=True)
class DirectoryEntry:
    """One name in a directory; `kind` is a DT_* number."""

    name: bytes
    inode: int
    kind: int
