"""The real outside world: files below the sandbox's root, and three standard streams."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from simprof.simulator.linux.guest import RunInterrupted
from simprof.simulator.linux.outside import (
    DirectoryEntry,
    FileAccess,
    FileStatus,
    RecordingHost,
    Special,
)
from simprof.simulator.linux.sandbox import (
    SPECIAL_TOPS,
    Parts,
    Realm,
    ResolvedPath,
    Sandbox,
    canonical_parts,
    fail_if,
    failure,
)
from simprof.simulator.linux.streams import StandardStreams

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN_FILE = ("exe", "program")  # special names of the program's own file


class _Open(Struct):
    """An open handle. `descriptor` is -1 for directories that only the sandbox shows."""

    descriptor: int
    parts: Parts
    writable: bool
    is_directory: bool = False


# The public methods are the calls that `outside.RecordingHost` records. Handles are ints; 0, 1 and
# 2 are the standard streams. `base` is the handle of the directory where a relative `path` starts,
# None for the initial working directory. Every method raises OSError with the host's errno where
# the call fails. Only regular files and directories are ever opened; devices, sockets and named
# pipes of the host are refused with EACCES.
class Host:
    """Files below `root`, read-only but for `writable`, and the standard streams."""

    def __init__(
        self,
        # The directory that the program may see; also its working directory where `working` is
        # None.
        root: Path,
        *,
        # Directory at or below `root` where it may create, change and remove files.
        writable: Path | None = None,
        working: Path | None = None,  # initial working directory, at or below `root`
        # The program's own file, for /proc/self/exe; readable wherever it lies.
        program: Path | None = None,
        seen_program: bytes | None = None,  # its path as the program sees it; None: the host's
        seen_root: bytes | None = None,  # path at which the program sees `root`; None: the host's
        # Directory in which absolute paths are looked up first, read-only; None: nowhere.
        sysroot: Path | None = None,
        stdin: int | bytes = 0,  # a file descriptor, or the input itself
        # stdout, stderr: file descriptors, or buffers that collect the output.
        stdout: int | bytearray = 1,
        stderr: int | bytearray = 2,
        before_output: Callable[[bytes], None] | None = None,  # see `StandardStreams`
    ) -> None:
        # Asked while a call waits; the machine sets it.
        self.interrupted: Callable[[], bool] = lambda: False
        self._program = program
        if program is not None and seen_program is None:
            seen_program = os.fsencode(program.resolve())
        self._seen_program = canonical_parts(seen_program or b"")
        self._sandbox = Sandbox(root, writable, seen_at=seen_root, file=self._seen_program)
        self._sysroot = None if sysroot is None else Sandbox(sysroot, option="--sysroot")
        self._working = self._sandbox.root
        if working is not None:
            parts = self._sandbox.seen(os.fsencode(working.resolve()))
            if working.is_dir() and parts is not None:
                self._working = parts
        self._streams = StandardStreams(stdin, stdout, stderr, before_output)
        self._handles: dict[int, _Open] = {}
        self._inodes: dict[tuple[int, int], int] = {}
        self._own_links: set[tuple[int, int]] = set()
        self.opened: set[Path] = set()  # the program's files, where they are on the host
        self._next_handle = 3

    @property
    def output_digest(self) -> str:
        """SHA-256 of what has been written to standard output."""
        return self._streams.output.hexdigest()

    def dispose(self) -> None:
        """Close everything that the program left open."""
        for handle in list(self._handles):
            self.close(handle)
        self._sandbox.close()
        if self._sysroot is not None:
            self._sysroot.close()

    def check_time(self) -> None:
        """Raise `RunInterrupted` if the run is to end; to be called where a call takes long."""
        if self.interrupted():
            raise RunInterrupted

    # Walking

    def _start(self, base: int | None) -> Parts:
        if base is None:
            return self._working
        entry = self._entry(base)
        fail_if(not entry.is_directory, errno.ENOTDIR)
        return entry.parts

    def _resolve(self, base: int | None, path: bytes, follow: bool) -> ResolvedPath:
        start = () if path.startswith(b"/") else self._start(base)
        if self._sysroot is not None:
            place = _resolve_below(self._sysroot, start, path, follow)
            if place is not None:
                return place
        parts = canonical_parts(path) if path.startswith(b"/") else ()
        is_own = self._program is not None and parts == self._seen_program
        beside = None if is_own or not parts else self._beside_program(parts)
        tries = [path] if is_own else [path, beside] if beside is not None else []
        for each in tries:
            with suppress(OSError):
                place = self._sandbox.resolve(start, each, follow=follow)
                if place.exists:
                    return place
                place.close()
        if is_own:
            return ResolvedPath(parts, Realm.SPECIAL, special="program")
        return self._sandbox.resolve(start, path, follow=follow)

    def _beside_program(self, parts: Parts) -> bytes | None:
        # Where a file is that a dynamically linked program looks for beside its own: its
        # interpreter looks for libraries there ($ORIGIN). The path of its file as it sees it is not
        # always the one below root, where that directory is.
        seen = self._seen_program[:-1]
        if self._sysroot is None or self._program is None or parts[: len(seen)] != seen:
            return None
        directory = self._sandbox.seen(os.fsencode(self._program.resolve().parent))
        if directory is None or directory == seen:
            return None
        return b"/" + b"/".join((*directory, *parts[len(seen) :]))

    def _entry(self, handle: int) -> _Open:
        fail_if(handle not in self._handles, errno.EBADF)
        return self._handles[handle]

    def _changeable(self, place: ResolvedPath) -> None:
        # The writable directory itself is an entry of one that is not.
        is_inside = self._sandbox.may_change(place.parts) and self._sandbox.writable != place.parts
        fail_if(place.realm is not Realm.REAL or not is_inside, errno.EROFS)

    def _check_new(self, place: ResolvedPath) -> None:
        fail_if(place.exists, errno.EEXIST)
        self._changeable(place)

    def _owned(self, place: ResolvedPath) -> os.stat_result:
        fail_if(not place.exists, errno.ENOENT)
        if place.status is None or not self._sandbox.may_change(place.parts):
            raise failure(errno.EROFS)
        self._refuse_foreign_link(place.status)
        return place.status

    def _refuse_foreign_link(self, status: os.stat_result) -> None:
        # A file with other names than the program's own: one may lie outside.
        identity = (status.st_dev, status.st_ino)
        linked = stat.S_ISREG(status.st_mode) and status.st_nlink > 1
        fail_if(linked and identity not in self._own_links, errno.EACCES)

    # Opening

    def open(self, base: int | None, path: bytes, access: FileAccess, mode: int) -> int | Special:
        """Open a file; return its handle, or which special file it is."""
        is_new = bool(access & FileAccess.CREATE and access & FileAccess.EXCLUSIVE)
        follow = not access & FileAccess.NO_FOLLOW and not is_new
        with self._resolve(base, path, follow) as place:
            fail_if(is_new and place.exists, errno.EEXIST)
            if place.realm is not Realm.REAL:
                return self._open_unreal(place, access)
            if place.status is None:
                return self._create(place, path, access, mode)
            return self._open_existing(place, place.status, access)

    def _open_unreal(self, place: ResolvedPath, access: FileAccess) -> int | Special:
        if place.special in _OWN_FILE and self._program is not None:
            fail_if(access & FileAccess.WRITE, errno.ETXTBSY)
            opened = os.open(self._program, os.O_RDONLY | os.O_CLOEXEC)
            return self._keep(opened, self._seen_program)
        if place.special is not None:
            return Special(place.special)
        fail_if(not place.exists, errno.EROFS if access & FileAccess.CREATE else errno.ENOENT)
        fail_if(access & FileAccess.WRITE, errno.EISDIR)
        return self._keep(-1, place.parts, is_directory=True)

    def _create(self, place: ResolvedPath, path: bytes, access: FileAccess, mode: int) -> int:
        fail_if(not access & FileAccess.CREATE, errno.ENOENT)
        fail_if(path.endswith(b"/"), errno.EISDIR)
        self._changeable(place)
        flags = _host_flags(access) | os.O_CREAT | os.O_EXCL
        descriptor = os.open(place.name, flags, 0o600, dir_fd=place.directory)
        os.fchmod(descriptor, mode & 0o777)
        return self._keep(descriptor, place.parts, bool(access & FileAccess.WRITE))

    def _open_existing(
        self, place: ResolvedPath, status: os.stat_result, access: FileAccess
    ) -> int:
        writing = bool(access & (FileAccess.WRITE | FileAccess.TRUNCATE))
        fail_if(stat.S_ISLNK(status.st_mode), errno.ELOOP)
        if stat.S_ISDIR(status.st_mode):
            fail_if(writing or access & FileAccess.CREATE, errno.EISDIR)
            descriptor = os.open(place.name, _DIRECTORY, dir_fd=place.directory)
            return self._keep(descriptor, place.parts, is_directory=True)
        fail_if(access & FileAccess.DIRECTORY, errno.ENOTDIR)
        fail_if(not stat.S_ISREG(status.st_mode), errno.EACCES)
        if writing:
            self._owned(place)
        descriptor = os.open(place.name, _host_flags(access), dir_fd=place.directory)
        try:
            # Judge again what was really opened: names may have changed since the walk.
            opened = os.fstat(descriptor)
            fail_if(not stat.S_ISREG(opened.st_mode), errno.EACCES)
            if writing:
                self._refuse_foreign_link(opened)
            if access & FileAccess.TRUNCATE:
                os.ftruncate(descriptor, 0)
        except BaseException:
            os.close(descriptor)
            raise
        self.opened.add(Path(f"/proc/self/fd/{descriptor}").readlink())
        return self._keep(descriptor, place.parts, bool(access & FileAccess.WRITE))

    def _keep(
        self, descriptor: int, parts: Parts, writable: bool = False, is_directory: bool = False
    ) -> int:
        handle = self._next_handle
        self._next_handle += 1
        self._handles[handle] = _Open(descriptor, parts, writable, is_directory)
        return handle

    def close(self, handle: int) -> None:
        """Close a handle."""
        entry = self._handles.pop(handle, None)
        if entry is not None and entry.descriptor >= 0:
            os.close(entry.descriptor)

    # Reading and writing

    def _descriptor(self, handle: int) -> int:
        if (entry := self._entry(handle)).is_directory:
            raise failure(errno.EISDIR)
        return entry.descriptor

    def read(self, handle: int, size: int) -> bytes:
        """Read at most `size` bytes at the file's offset."""
        if handle in self._streams:
            return self._streams.read(handle, size, self.interrupted)
        return os.read(self._descriptor(handle), size)

    def write(self, handle: int, data: bytes) -> int:
        """Write at the file's offset; return how many bytes were written."""
        if handle in self._streams:
            return self._streams.write(handle, data, self.interrupted)
        return os.write(self._descriptor(handle), data)

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        """Read at `offset`, leaving the file's offset alone."""
        if handle in self._streams:
            return self._streams.read_at(handle, size, offset)
        return os.pread(self._descriptor(handle), size, offset)

    def write_at(self, handle: int, data: bytes, offset: int) -> int:
        """Write at `offset`, leaving the file's offset alone."""
        fail_if(handle in self._streams, errno.ESPIPE)
        return os.pwrite(self._descriptor(handle), data, offset)

    def seek(self, handle: int, offset: int, whence: int) -> int:
        """Move the file's offset (whence 0, 1, 2 as lseek); return it."""
        if handle in self._streams:
            return self._streams.seek(handle, offset, whence)
        return os.lseek(self._descriptor(handle), offset, whence)

    def resize(self, handle: int, size: int) -> None:
        """Truncate or extend an open file."""
        fail_if(handle in self._streams or not self._entry(handle).writable, errno.EINVAL)
        os.ftruncate(self._descriptor(handle), size)

    # Status

    def status(self, handle: int) -> FileStatus:
        """Status of an open file."""
        if handle in self._streams:
            status = self._streams.status(handle)
            if isinstance(status, FileStatus):
                return replace(status, inode=self._inode((-1, handle)))
            return self._translate(status)
        entry = self._entry(handle)
        if entry.descriptor < 0:
            return self._shown_directory(entry.parts)
        return self._translate(os.fstat(entry.descriptor))

    def _inode(self, identity: tuple[int, int]) -> int:
        return self._inodes.setdefault(identity, len(self._inodes) + 1)

    def _translate(self, status: os.stat_result) -> FileStatus:
        inode, mode = self._inode((status.st_dev, status.st_ino)), status.st_mode
        links, size = status.st_nlink, status.st_size
        if stat.S_ISDIR(mode):
            links, size = 1, 4096
        return FileStatus(inode, mode, links, size, status.st_mtime_ns)

    def _shown_directory(self, parts: Parts) -> FileStatus:
        inode = self._inode((-2, _path_number(parts)))
        return FileStatus(inode, stat.S_IFDIR | 0o555, 1, 4096, 0)

    def status_of(self, base: int | None, path: bytes, follow: bool) -> FileStatus | Special:
        """Status of a named file, or which special file it is."""
        with self._resolve(base, path, follow) as place:
            own = place.special == "program" or (place.special == "exe" and follow)
            if own and self._program is not None:
                return self._translate(self._program.stat())
            if place.special is not None:
                return Special(place.special)
            fail_if(not place.exists, errno.ENOENT)
            if place.status is None:
                return self._shown_directory(place.parts)
            return self._translate(place.status)

    def check_access(self, base: int | None, path: bytes, rights: int) -> None:
        """Raise OSError unless the file exists and has `rights` (R 4, W 2, X 1)."""
        with self._resolve(base, path, True) as place:
            fail_if(not place.exists, errno.ENOENT)
            if place.special is not None and place.special != "program":
                return
            fail_if(rights & os.W_OK and not self._sandbox.may_change(place.parts), errno.EROFS)
            is_real = place.status is not None
            if is_real and not os.access(place.name, rights, dir_fd=place.directory):
                raise failure(errno.EACCES)

    def read_link(self, base: int | None, path: bytes) -> bytes | Special:
        """Text of a symbolic link, or the special file that the path is."""
        with self._resolve(base, path, False) as place:
            if place.special == "exe" and self._program is not None:
                return b"/" + b"/".join(self._seen_program)
            fail_if(place.special == "program", errno.EINVAL)
            if place.special is not None:
                return Special(place.special)
            fail_if(not place.exists, errno.ENOENT)
            if place.status is None or not stat.S_ISLNK(place.status.st_mode):
                raise failure(errno.EINVAL)
            return os.readlink(place.name, dir_fd=place.directory)

    def path_of(self, handle: int | None) -> bytes:
        """Canonical absolute path of an open file (None: the initial working directory)."""
        parts = self._working if handle is None else self._entry(handle).parts
        return b"/" + b"/".join(parts)

    def real_path_of(self, handle: int) -> bytes:
        """Path of an open file on the host, for simprof itself."""
        return os.fsencode(Path(f"/proc/self/fd/{self._descriptor(handle)}").readlink())

    def list_directory(self, handle: int) -> tuple[DirectoryEntry, ...]:
        """Return the entries of an open directory, "." and ".." first, then sorted."""
        entry = self._entry(handle)
        fail_if(not entry.is_directory, errno.ENOTDIR)
        own = self.status(handle).inode
        entries = [DirectoryEntry(b".", own, 4), DirectoryEntry(b"..", own, 4)]
        if entry.descriptor < 0:
            names = self._sandbox.names(entry.parts)
            entries += [DirectoryEntry(n, self._inode((-3, _path_number((n,)))), 0) for n in names]
            return tuple(entries)
        with os.scandir(entry.descriptor) as found:
            names = sorted(os.fsencode(each.name) for each in found)
        for name in names:
            self.check_time()
            try:
                status = os.stat(name, dir_fd=entry.descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            inode = self._inode((status.st_dev, status.st_ino))
            entries.append(DirectoryEntry(name, inode, stat.S_IFMT(status.st_mode) >> 12))
        return tuple(entries)

    # Changing names

    def make_directory(self, base: int | None, path: bytes, mode: int) -> None:
        """Create a directory."""
        with self._resolve(base, path, False) as place:
            self._check_new(place)
            os.mkdir(place.name, mode & 0o777, dir_fd=place.directory)
            self._set_mode(place, mode)

    def remove(self, base: int | None, path: bytes, directory: bool) -> None:
        """Remove a file, or an empty directory."""
        with self._resolve(base, path, False) as place:
            fail_if(not place.exists, errno.ENOENT)
            self._changeable(place)
            fail_if(place.name == b".", errno.EINVAL)
            if directory:
                os.rmdir(place.name, dir_fd=place.directory)
            elif place.status is not None and stat.S_ISDIR(place.status.st_mode):
                raise failure(errno.EISDIR)
            else:
                os.unlink(place.name, dir_fd=place.directory)

    def rename(
        self, base: int | None, path: bytes, new_base: int | None, new: bytes, replace: bool
    ) -> None:
        """Rename; without `replace` an existing target is an error."""
        with (
            self._resolve(base, path, False) as source,
            self._resolve(new_base, new, False) as target,
        ):
            fail_if(not source.exists, errno.ENOENT)
            self._changeable(source)
            self._changeable(target)
            fail_if(b"." in (source.name, target.name), errno.EBUSY)
            fail_if(target.exists and not replace, errno.EEXIST)
            os.rename(
                source.name, target.name, src_dir_fd=source.directory, dst_dir_fd=target.directory
            )
            # Open directories keep their place in the tree when a directory above is renamed.
            old, depth = source.parts, len(source.parts)
            for entry in self._handles.values():
                if entry.parts[:depth] == old:
                    entry.parts = target.parts + entry.parts[depth:]

    def link(
        self, base: int | None, path: bytes, new_base: int | None, new: bytes, follow: bool
    ) -> None:
        """Create a hard link."""
        with (
            self._resolve(base, path, follow) as source,
            self._resolve(new_base, new, False) as target,
        ):
            if source.exists and source.status is not None and stat.S_ISDIR(source.status.st_mode):
                raise failure(errno.EPERM)
            status = self._owned(source)
            self._check_new(target)
            places = {"src_dir_fd": source.directory, "dst_dir_fd": target.directory}
            os.link(source.name, target.name, **places, follow_symlinks=False)
            self._own_links.add((status.st_dev, status.st_ino))

    def make_link(self, text: bytes, base: int | None, path: bytes) -> None:
        """Create a symbolic link."""
        with self._resolve(base, path, False) as place:
            self._check_new(place)
            os.symlink(text, place.name, dir_fd=place.directory)

    # Changing attributes

    def _set_mode(self, place: ResolvedPath, mode: int) -> None:
        # The bits of exactly the file that was found, even if its name moves on.
        flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_PATH
        descriptor = os.open(place.name, flags, dir_fd=place.directory)
        try:
            fail_if(stat.S_ISLNK(os.fstat(descriptor).st_mode), errno.EOPNOTSUPP)
            Path(f"/proc/self/fd/{descriptor}").chmod(mode & 0o777)
        finally:
            os.close(descriptor)

    def change_mode(self, base: int | None, path: bytes, mode: int) -> None:
        """Set the permission bits of a named file."""
        with self._resolve(base, path, True) as place:
            self._owned(place)
            self._set_mode(place, mode)

    def change_open_mode(self, handle: int, mode: int) -> None:
        """Set the permission bits of an open file."""
        os.fchmod(self._changeable_handle(handle), mode & 0o777)

    def change_times(
        self, base: int | None, path: bytes, accessed: int, modified: int, follow: bool
    ) -> None:
        """Set a named file's times, in nanoseconds."""
        with self._resolve(base, path, follow) as place:
            self._owned(place)
            times = accessed, modified
            os.utime(place.name, ns=times, dir_fd=place.directory, follow_symlinks=False)

    def change_open_times(self, handle: int, accessed: int, modified: int) -> None:
        """Set an open file's times, in nanoseconds."""
        os.utime(self._changeable_handle(handle), ns=(accessed, modified))

    def _changeable_handle(self, handle: int) -> int:
        entry = self._entry(handle)
        fail_if(entry.descriptor < 0 or not self._sandbox.may_change(entry.parts), errno.EROFS)
        self._refuse_foreign_link(os.fstat(entry.descriptor))
        return entry.descriptor


def _resolve_below(
    sysroot: Sandbox, start: Parts, path: bytes, follow: bool
) -> ResolvedPath | None:
    root = sysroot.root
    if path.startswith(b"/"):
        if path.split(b"/", 2)[1] in SPECIAL_TOPS:
            return None
        path = b"/" + b"/".join(root) + path
    elif start[: len(root)] != root:
        return None
    try:
        place = sysroot.resolve(start, path, follow=follow)
    except OSError:
        return None
    if place.realm is Realm.REAL and place.exists:
        return place
    place.close()
    return None


def _path_number(parts: Parts) -> int:
    return int.from_bytes(b"/".join(parts)[-64:], "big")


def _host_flags(access: FileAccess) -> int:
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    if access & FileAccess.WRITE:
        flags |= os.O_RDWR if access & FileAccess.READ else os.O_WRONLY
    if access & FileAccess.APPEND:
        flags |= os.O_APPEND
    return flags


# The outside world, as the emulated system asks for it: the real one, or a recorded one.
HostCalls = Host | RecordingHost
