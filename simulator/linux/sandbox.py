"""Paths of the emulated program, resolved below one directory only."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path

from msgspec import Struct

from simprof.simulator.errors import UsageError

Parts = tuple[bytes, ...]  # components of a canonical absolute path; () is "/"
PROCESS_ID = 1000  # the emulated program's process number
_MAX_LINKS = 40
_MAX_PATH = 4096
_SEARCH = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", 0)
SPECIAL_TOPS = frozenset({b"dev", b"proc", b"sys"})
_TOPS = frozenset((name,) for name in SPECIAL_TOPS)
_DEVICES = frozenset({b"null", b"zero", b"full", b"random", b"urandom", b"tty"})
_STREAMS = {b"stdin": "fd/0", b"stdout": "fd/1", b"stderr": "fd/2"}
_PROCESS_FILES = frozenset({b"exe", b"maps", b"cmdline", b"status", b"stat"})


def failure(number: int) -> OSError:
    """Return the OSError of a host errno."""
    return OSError(number, os.strerror(number))


def fail_if(condition: object, number: int) -> None:
    """Raise the OSError of a host errno where something is so."""
    if condition:
        raise failure(number)


class Realm(Enum):
    """Which part of the visible file tree a place is in."""

    REAL = auto()
    SKELETON = auto()
    SPECIAL = auto()


class ResolvedPath(Struct, frozen=True):
    """The end of a walk. Use as a context manager: it owns `directory`."""

    parts: Parts  # canonical path; the last component may be missing
    realm: Realm  # which tree it is in
    # directory, name: in the real tree: descriptor of the directory that holds it, and its name
    # there (b"." for the directory itself).
    directory: int = -1
    name: bytes = b""
    # Its lstat result in the real tree; None where it does not exist (or is not real).
    status: os.stat_result | None = None
    special: str | None = None  # name of a special file ("null", "fd/0", "exe", ...), else None
    exists: bool = True  # whether there is such a file

    def close(self) -> None:
        """Close the directory that it owns."""
        if self.directory >= 0:
            os.close(self.directory)

    def __enter__(self) -> ResolvedPath:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


# The program sees *root*, and nothing beside it, at a path that is the same on every host: at "/",
# or where `seen_at` says. Above there is a *skeleton*: each ancestor is a directory that holds the
# next component and nothing else, so that `getcwd`, `realpath` and `..` behave. The host's own path
# of root is another name of root, for arguments and links that are absolute. `/dev` and `/proc` are
# *special*: a few names that the emulated kernel itself provides; the host's are never touched.
class Sandbox:
    """Resolves paths below `root`; raises `UsageError` where a directory cannot be used."""

    def __init__(
        self,
        root: Path,  # the directory that the program may see
        # A directory at or below `root` in which it may create, change and remove files.
        writable: Path | None = None,
        *,
        option: str = "--root",  # which option names `root`
        seen_at: bytes | None = None,  # path at which the program sees `root`; None: the host's
        # A file that it sees somewhere else: the directories above are there, too.
        file: Parts = (),
    ) -> None:
        real = canonical_parts(_real_directory(root, option))
        # That path as the program sees it.
        self.root = real if seen_at is None else canonical_parts(seen_at)
        self._real_root = real
        self._other_roots = (canonical_parts(os.fsencode(root.absolute())), real)
        self._file = file
        self.hides_special = not real  # of the host's "/", /dev, /proc and /sys are never seen
        self.writable: Parts | None = None
        if writable is not None:
            below = self.seen(_real_directory(writable, "--writable"))
            if below is None:
                raise UsageError(
                    f"--writable {writable}: not below --root {root}; give a directory inside it"
                )
            self.writable = below
        self._root_descriptor = os.open(b"/" + b"/".join(real), _SEARCH & ~os.O_NOFOLLOW)
        self._forbidden_devices = _pseudo_devices()

    def seen(self, path: bytes) -> Parts | None:
        """Return how the program sees a real path of the host, None where it does not."""
        parts = canonical_parts(path)
        if parts[: len(self._real_root)] != self._real_root:
            return None
        return (*self.root, *parts[len(self._real_root) :])

    def close(self) -> None:
        """Release the descriptor of root."""
        if self._root_descriptor >= 0:
            os.close(self._root_descriptor)
            self._root_descriptor = -1

    def may_change(self, parts: Parts) -> bool:
        """Whether the file at canonical `parts` may be written to."""
        allowed = self.writable
        return allowed is not None and parts[: len(allowed)] == allowed

    def resolve(self, start: Parts, path: bytes, *, follow: bool) -> ResolvedPath:
        """Walk `path` from the canonical directory `start`; raises OSError as openat would."""
        walk = _Walk(self, start, path, follow)
        try:
            return walk.run()
        except BaseException:
            walk.close()
            raise

    def open_directory(self, parts: Parts) -> int:
        """Open the real directory at canonical `parts`; -1 where that is not a real one."""
        # All of /dev, /proc and /sys is special if root is "/".
        is_special = parts[:1] in _TOPS if self.hides_special else bool(_special_names(parts))
        if parts[: len(self.root)] != self.root or (not self.root and is_special):
            return -1
        try:
            return self._open_real(parts)
        except FileNotFoundError:
            if self.is_ancestor(parts) or parts[:1] in _TOPS:
                return -1
            raise

    def open_below_special(self, parts: Parts) -> int:
        """Open the real directory that a special one stands before, -1 where there is none."""
        if self.root or self.hides_special or parts[:1] not in _TOPS:
            return -1
        try:
            return self._open_real(parts)
        except OSError:
            return -1

    def _open_real(self, parts: Parts) -> int:
        descriptor = os.dup(self._root_descriptor)
        for name in parts[len(self.root) :]:
            descriptor = self.enter(descriptor, name)
        return descriptor

    def enter(self, descriptor: int, name: bytes) -> int:
        """Replace an open directory by its subdirectory `name`; closes `descriptor`."""
        try:
            entered = os.open(name, _SEARCH, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        if os.fstat(entered).st_dev in self._forbidden_devices:
            os.close(entered)
            raise failure(errno.EACCES)
        return entered

    def names(self, parts: Parts) -> list[bytes]:
        """Return what a skeleton or special directory holds."""
        names = set(_special_names(parts))
        if parts == self.root[: len(parts)] and len(parts) < len(self.root):
            names.add(self.root[len(parts)])
        return sorted(names)

    def is_ancestor(self, parts: Parts) -> bool:
        """Whether `parts` is a strict ancestor of root, under any of its names, or of `file`."""
        return any(
            len(parts) < len(path) and path[: len(parts)] == parts
            for path in (self.root, *self._other_roots, self._file)
        )

    def is_root(self, parts: Parts) -> bool:
        """Whether `parts` is a name of root."""
        return parts in (self.root, *self._other_roots)

    def unspell(self, components: Parts) -> Parts:
        """Replace root as it is called on the host by its canonical parts."""
        if self.root and components[: len(self.root)] == self.root:
            return components
        for other in self._other_roots:
            if other and components[: len(other)] == other:
                return (*self.root, *components[len(other) :])
        return components


# Paths are walked one component at a time from a held descriptor of root, each component opened
# with O_NOFOLLOW; symbolic links are read and followed by hand, so neither links nor `..` nor a
# directory renamed meanwhile can lead out. A walk ends in a `ResolvedPath`, whose canonical parts
# contain no link: whether it may be written is decided by them.
class _Walk:
    # A canonical position and the components still to go.

    def __init__(self, sandbox: Sandbox, start: Parts, path: bytes, follow: bool) -> None:
        fail_if(not path, errno.ENOENT)
        fail_if(len(path) >= _MAX_PATH, errno.ENAMETOOLONG)
        self._sandbox = sandbox
        self._follow = follow
        self._links = 0
        self._must_be_directory = path.endswith((b"/", b"/."))
        self._todo: deque[bytes] = deque()
        self._at: Parts = start
        self._descriptor = -1
        self._queue(path, start)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def run(self) -> ResolvedPath:
        while self._todo:
            name = self._todo.popleft()
            if name == b".":
                continue
            if name == b"..":
                self._move(self._at[:-1])
            elif (place := self._step(name)) is not None:
                return place
        return self._here()

    def _queue(self, path: bytes, start: Parts) -> None:
        components = canonical_parts(path)
        if path.startswith(b"/"):
            components = self._sandbox.unspell(components)
            start = ()
        self._todo.extendleft(reversed(components))
        self._move(start)

    def _move(self, parts: Parts) -> None:
        self.close()
        self._at = parts
        self._descriptor = self._sandbox.open_directory(parts)

    def _enter(self, parts: Parts) -> None:
        self._move(self._sandbox.root if self._sandbox.is_root(parts) else parts)

    def _here(self) -> ResolvedPath:
        if self._descriptor < 0:
            realm = Realm.SKELETON if self._sandbox.is_ancestor(self._at) else Realm.SPECIAL
            return ResolvedPath(self._at, realm)
        return self._place(self._at, b".", os.fstat(self._descriptor))

    def _place(self, parts: Parts, name: bytes, status: os.stat_result | None) -> ResolvedPath:
        if self._must_be_directory and status is not None and not stat.S_ISDIR(status.st_mode):
            raise failure(errno.ENOTDIR)
        descriptor, self._descriptor = self._descriptor, -1
        return ResolvedPath(parts, Realm.REAL, descriptor, name, status, exists=status is not None)

    def _step(self, name: bytes) -> ResolvedPath | None:
        fail_if(len(name) > 255, errno.ENAMETOOLONG)
        if self._descriptor < 0 or (not self._at and name in SPECIAL_TOPS and self._is_top(name)):
            return self._step_unreal(name)
        return self._step_real(name)

    def _is_top(self, name: bytes) -> bool:
        # A name in "/" may be the user's own file.
        try:
            status = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return True
        is_link = stat.S_ISLNK(status.st_mode) and not _special_names((name,))
        return self._sandbox.hides_special or not (stat.S_ISREG(status.st_mode) or is_link)

    def _step_real(self, name: bytes) -> ResolvedPath | None:
        parts = (*self._at, name)
        try:
            status = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            if self._sandbox.is_root(parts) or self._sandbox.is_ancestor(parts):
                self._enter(parts)
                return None
            if self._todo:
                raise
            return self._place(parts, name, None)
        if stat.S_ISLNK(status.st_mode) and (self._todo or self._follow or self._must_be_directory):
            self._follow_link(name)
            return None
        if not self._todo:
            return self._place(parts, name, status)
        fail_if(not stat.S_ISDIR(status.st_mode), errno.ENOTDIR)
        descriptor, self._descriptor = self._descriptor, -1
        self._descriptor = self._sandbox.enter(descriptor, name)
        self._at = parts
        return None

    def _follow_link(self, name: bytes) -> None:
        self._links += 1
        fail_if(self._links > _MAX_LINKS, errno.ELOOP)
        text = os.readlink(name, dir_fd=self._descriptor)
        if not self._todo and text.endswith(b"/"):
            self._must_be_directory = True
        self._queue(text, self._at)

    def _step_unreal(self, name: bytes) -> ResolvedPath | None:
        parts = (*self._at, name)
        if self._sandbox.is_root(parts) or self._sandbox.is_ancestor(parts):
            self._enter(parts)
            return None
        if _special_names(parts) or (not self._at and name in SPECIAL_TOPS):
            self._move(parts)
            return None
        special = _special_file(parts)
        if special is None:
            self._descriptor = self._sandbox.open_below_special(self._at)
            if self._descriptor >= 0:
                return self._step_real(name)
        fail_if(self._todo, errno.ENOENT if special is None else errno.ENOTDIR)
        realm = Realm.SPECIAL if special is not None else Realm.SKELETON
        self.close()
        return ResolvedPath(parts, realm, special=special, exists=special is not None)


def _special_names(parts: Parts) -> Iterable[bytes]:
    # Names in a special directory; empty where `parts` is none.
    own = _below_self(parts)
    if parts == (b"dev",):
        return (*_DEVICES, *_STREAMS, b"fd")
    if parts == (b"proc",):
        return (b"self",)
    if own == ():
        return (*_PROCESS_FILES, b"fd")
    return (b"0", b"1", b"2") if parts == (b"dev", b"fd") or own == (b"fd",) else ()


def _special_file(parts: Parts) -> str | None:
    own = _below_self(parts) or ()
    if len(parts) == 2 and parts[0] == b"dev":
        name = parts[1]
        return name.decode() if name in _DEVICES else _STREAMS.get(name)
    if parts[:-1] == (b"dev", b"fd") or (len(own) == 2 and own[0] == b"fd"):
        return f"fd/{int(parts[-1])}" if parts[-1].isdigit() and len(parts[-1]) < 10 else None
    return own[0].decode() if len(own) == 1 and own[0] in _PROCESS_FILES else None


def _below_self(parts: Parts) -> Parts | None:
    # Return what follows /proc/self, or the same by number; None: it is elsewhere.
    is_own = len(parts) >= 2 and parts[1] in (b"self", str(PROCESS_ID).encode())
    return parts[2:] if parts[:1] == (b"proc",) and is_own else None


def canonical_parts(path: bytes) -> Parts:
    """Split an absolute path into its components."""
    return tuple(part for part in path.split(b"/") if part)


def _real_directory(path: Path, option: str) -> bytes:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise UsageError(f"{option} {path}: no such directory; give one that exists") from None
    if not real.is_dir():
        raise UsageError(f"{option} {path}: not a directory; give one")
    return os.fsencode(real)


def _pseudo_devices() -> frozenset[int]:
    # The host's /proc and /sys are never entered, whatever root is.
    devices = set()
    for name in ("/proc", "/sys"):
        with suppress(OSError):
            devices.add(Path(name).stat().st_dev)
    return frozenset(devices - {Path("/").stat().st_dev})
