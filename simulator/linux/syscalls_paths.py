"""System calls on names: open, stat in all its forms, directories, links, attributes."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from functools import partial

from simprof.simulator.cpu.address_space import OutOfMemory
from simprof.simulator.isa.sparc import (
    O_ACCMODE,
    O_APPEND,
    O_CLOEXEC,
    O_CREAT,
    O_DIRECTORY,
    O_EXCL,
    O_NOFOLLOW,
    O_PATH,
    O_TMPFILE,
    O_TRUNC,
)
from simprof.simulator.linux import proc_files, structures
from simprof.simulator.linux.descriptors import (
    Device,
    Directory,
    HostFile,
    OpenFile,
    Text,
    device_status,
)
from simprof.simulator.linux.outside import USER, FileAccess, FileStatus, Special
from simprof.simulator.linux.sandbox import failure
from simprof.simulator.linux.task import AT_FDCWD, CallGroup, Perform, Task, failing

_AT_SYMLINK_NOFOLLOW, _AT_REMOVEDIR, _AT_SYMLINK_FOLLOW = 0x100, 0x200, 0x400
_AT_NO_AUTOMOUNT, _AT_EMPTY_PATH, _AT_STATX_SYNC = 0x800, 0x1000, 0x6000
_STAT_FLAGS = _AT_SYMLINK_NOFOLLOW | _AT_NO_AUTOMOUNT | _AT_EMPTY_PATH
_STATX_FLAGS = _STAT_FLAGS | _AT_STATX_SYNC
_ACCESS_FLAGS = _AT_EMPTY_PATH | _AT_SYMLINK_NOFOLLOW | 0x200
_UTIME_NOW, _UTIME_OMIT = 0x3FFFFFFF, 0x3FFFFFFE
_RENAME_NOREPLACE = 1

_ACCESS = (
    (O_CREAT, FileAccess.CREATE),
    (O_EXCL, FileAccess.EXCLUSIVE),
    (O_TRUNC, FileAccess.TRUNCATE),
    (O_APPEND, FileAccess.APPEND),
    (O_DIRECTORY, FileAccess.DIRECTORY),
    (O_NOFOLLOW, FileAccess.NO_FOLLOW),
    (O_PATH, FileAccess.PATH_ONLY),
)


class PathCalls(CallGroup):
    """Everything that takes a path."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._host = task.host

    def declarations(self) -> Mapping[str, Perform]:
        """Return the calls: "NAMES: KINDS" -> what they do."""
        return {**self._opening(), **self._asking(), **self._changing()}

    def _opening(self) -> Mapping[str, Perform]:
        narrow = "dirent/64" if self._task.is64 else "dirent/32"
        return {
            "open: p p p": partial(self._open, AT_FDCWD),
            "creat: p p": lambda at, mode: self._open(AT_FDCWD, at, O_CREAT | O_TRUNC | 1, mode),
            "openat: i p p p": self._open,
            "chdir: s": self._chdir,
            "fchdir: f": self._fchdir,
            "getcwd: p p": self._getcwd,
            "umask: p": self._umask,
            "getdents: f p u": partial(self._list, narrow),
            "getdents64: f p u": partial(self._list, "dirent64"),
        }

    def _asking(self) -> Mapping[str, Perform]:
        narrow, wide = structures.statfs, structures.statfs64
        return {
            "stat: s >": partial(self._stat, True, False),
            "lstat oldlstat: s >": partial(self._stat, False, False),
            "fstat: f >": lambda file: self._encode(file.status(), False),
            "stat64: s >": partial(self._stat, True, True),
            "lstat64: s >": partial(self._stat, False, True),
            "fstat64: f >": lambda file: self._encode(file.status(), True),
            f"fstatat64: i p > {_STAT_FLAGS}": lambda *of: self._encode(self._status(*of), True),
            f"statx: i p {_STATX_FLAGS} - >": lambda *of: structures.statx(self._status(*of)),
            "access: . s 7": self._host.check_access,
            "faccessat: @ s 7": self._host.check_access,
            f"faccessat2: @ s 7 {_ACCESS_FLAGS}": lambda *of: self._host.check_access(*of[:3]),
            "readlink: p p p": partial(self._readlink, AT_FDCWD),
            "readlinkat: i p p p": self._readlink,
            "statfs: s >": partial(self._statfs, narrow),
            "statfs64: s - >": partial(self._statfs, wide),
            "fstatfs: f >": lambda _: narrow(self._task.is64),
            "fstatfs64: f - >": lambda _: wide(self._task.is64),
        }

    def _changing(self) -> Mapping[str, Perform]:
        host, attributes = self._host, ("get", "set", "list", "remove")
        return {
            "mkdir: . s p": self._mkdir,
            "mkdirat: @ s p": self._mkdir,
            "rmdir: . s": lambda base, path: host.remove(base, path, True),
            "unlink: . s": lambda base, path: host.remove(base, path, False),
            f"unlinkat: @ s {_AT_REMOVEDIR}": host.remove,
            "rename: . s . s": self._rename,
            "renameat: @ s @ s": self._rename,
            f"renameat2: @ s @ s {_RENAME_NOREPLACE}": self._rename,
            "link: . s . s": lambda base, old, to, new: host.link(base, old, to, new, False),
            f"linkat: @ s @ s {_AT_SYMLINK_FOLLOW}": host.link,
            "symlink: p p": lambda text, path: self._symlinkat(text, AT_FDCWD, path),
            "symlinkat: p i p": self._symlinkat,
            "mknod mknodat:": failing(errno.EPERM),
            "truncate: p l": self._truncate,
            "truncate64: p q": self._truncate,
            "chmod: . s p": host.change_mode,
            "fchmodat: @ s p": host.change_mode,
            "fchmod: i p": lambda own, mode: host.change_open_mode(self._host_handle(own), mode),
            "chown chown32: s i i": partial(self._chown, True),
            "lchown lchown32: s i i": partial(self._chown, False),
            "fchown fchown32: f i i": lambda file, user, group: self._check_owner(user, group),
            "fchownat: i s i i p": self._fchownat,
            "utime: p p": self._utime,
            "utimes: p p": partial(self._utimes, AT_FDCWD),
            "futimesat: i p p": self._utimes,
            "utimensat utimensat_time64: i p p p": self._utimensat,
            **{
                f"{call}xattr l{call}xattr f{call}xattr:": failing(errno.EOPNOTSUPP)
                for call in attributes
            },
        }

    # Helpers

    def _path(self, address: int) -> bytes:
        return self._memory.read_string(address)

    def _own_descriptor(self, name: str) -> OpenFile:
        # The open file that /proc/self/fd/N names.
        try:
            return self._task.descriptors.get(int(name.removeprefix("fd/")))
        except OSError:
            raise failure(errno.ENOENT) from None

    def _host_handle(self, descriptor: int) -> int:
        file = self._task.file(descriptor)
        if not isinstance(file, HostFile) or file.handle <= 2:
            raise failure(errno.EROFS)
        return file.handle

    # Opening

    def _open(self, base: int, path_address: int, flags: int, mode: int) -> int:
        if flags & O_TMPFILE:
            raise failure(errno.EOPNOTSUPP)
        path = self._path(path_address)
        access = FileAccess.READ if flags & O_ACCMODE in (0, 2) else FileAccess(0)
        if flags & O_ACCMODE in (1, 2):
            access |= FileAccess.WRITE
        for bit, meaning in _ACCESS:
            if flags & bit:
                access |= meaning
        opened = self._host.open(
            self._task.base(base), path, access, mode & 0o7777 & ~self._task.umask
        )
        kept = flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC | O_NOFOLLOW)
        file = self._open_file(opened, kept)
        table = self._task.descriptors
        try:
            number = table.install(file, on_exec=bool(flags & O_CLOEXEC))
        except OSError:
            if not file.references:
                file.close()
            raise
        try:
            table.keep(file)
        except OutOfMemory:
            table.close(number)
            raise
        return number

    def _open_file(self, opened: int | Special, flags: int) -> OpenFile:
        if isinstance(opened, int):
            mode = self._host.status(opened).mode
            kind = Directory if mode & 0o170000 == 0o040000 else HostFile
            return kind(self._host, opened, flags)
        if opened.name.startswith("fd/"):
            return self._own_descriptor(opened.name)
        if opened.name == "tty":
            raise failure(errno.ENXIO)
        if flags & O_DIRECTORY:
            raise failure(errno.ENOTDIR)
        if opened.name in proc_files.FILES:
            if flags & O_ACCMODE:
                raise failure(errno.EACCES)
            return Text(proc_files.FILES[opened.name](self._task), flags)
        return Device(opened.name, flags, self._task.random)

    def _chdir(self, path: bytes) -> None:
        access = FileAccess.READ | FileAccess.DIRECTORY
        opened = self._host.open(self._task.working_directory, path, access, 0)
        if not isinstance(opened, int):
            raise failure(errno.ENOTDIR)
        self._enter(opened)

    def _fchdir(self, file: OpenFile) -> None:
        if not isinstance(file, Directory):
            raise failure(errno.ENOTDIR)
        again = self._host.open(file.handle, b".", FileAccess.READ | FileAccess.DIRECTORY, 0)
        assert isinstance(again, int)
        self._enter(again)

    def _enter(self, handle: int) -> None:
        old, self._task.working_directory = self._task.working_directory, handle
        if old is not None:
            self._host.close(old)

    def _getcwd(self, address: int, size: int) -> int:
        data = self._host.path_of(self._task.working_directory) + b"\0"
        if len(data) > size:
            raise failure(errno.ERANGE)
        self._memory.write(address, data)
        return len(data)

    def _umask(self, mask: int) -> int:
        old, self._task.umask = self._task.umask, mask & 0o777
        return old

    def _list(self, layout: str, file: OpenFile, address: int, size: int) -> int:
        if not isinstance(file, Directory):
            raise failure(errno.ENOTDIR)
        entries = file.entries()
        try:
            self._task.descriptors.keep(file)
        except OutOfMemory:
            file.seek(0, 0)  # the listing is not kept
            raise
        room = min(size, 1 << 20)
        data, position = structures.directory_entries(entries, file.position, room, layout)
        if not data and file.position < len(entries):
            raise failure(errno.EINVAL)
        self._memory.write(address, data)
        file.position = position
        return len(data)

    # Asking

    def _status_at(self, base: int, path: bytes, follow: bool, allow_empty: bool) -> FileStatus:
        if not path and allow_empty:
            if base == AT_FDCWD:
                status = self._host.status_of(self._task.working_directory, b".", True)
                assert isinstance(status, FileStatus)
                return status
            return self._task.file(base).status()
        file = self._host.status_of(self._task.base(base), path, follow)
        if isinstance(file, FileStatus):
            return file
        if file.name.startswith("fd/"):
            return self._own_descriptor(file.name).status()
        return device_status(file.name)

    def _encode(self, status: FileStatus, wide: bool) -> bytes:
        encode = structures.stat64 if wide else structures.stat
        if not self._task.is64 and not wide and status.size >> 31:
            raise failure(errno.EOVERFLOW)
        return encode(status, self._task.is64)

    def _stat(self, follow: bool, wide: bool, path: bytes) -> bytes:
        return self._encode(self._status_at(AT_FDCWD, path, follow, False), wide)

    def _status(self, base: int, path: int, flags: int) -> FileStatus:
        follow = not flags & _AT_SYMLINK_NOFOLLOW
        return self._status_at(base, self._path(path), follow, bool(flags & _AT_EMPTY_PATH))

    def _readlink(self, base: int, path: int, address: int, size: int) -> int:
        if self._task.signed32(size) <= 0:
            raise failure(errno.EINVAL)
        text = self._host.read_link(self._task.base(base), self._path(path))
        if isinstance(text, Special):
            text = self._descriptor_path(text)
        self._memory.write(address, text[:size])
        return len(text[:size])

    def _descriptor_path(self, special: Special) -> bytes:
        if not special.name.startswith("fd/"):
            raise failure(errno.EINVAL)
        file = self._own_descriptor(special.name)
        if isinstance(file, HostFile) and file.handle > 2:
            return self._host.path_of(file.handle)
        if isinstance(file, Device):
            return b"/dev/" + file.name.encode()
        return b"pipe:[%d]" % file.status().inode

    def _statfs(self, encode: structures.StatfsEncoder, path: bytes) -> bytes:
        self._status_at(AT_FDCWD, path, True, False)
        return encode(self._task.is64)

    # Naming

    def _mkdir(self, base: int | None, path: bytes, mode: int) -> None:
        self._host.make_directory(base, path, mode & 0o777 & ~self._task.umask)

    def _rename(
        self, base: int | None, path: bytes, new_base: int | None, new: bytes, flags: int = 0
    ) -> None:
        self._host.rename(base, path, new_base, new, not flags & _RENAME_NOREPLACE)

    def _symlinkat(self, text: int, base: int, path: int) -> None:
        target = self._path(text)
        if not target:
            raise failure(errno.ENOENT)
        self._host.make_link(target, self._task.base(base), self._path(path))

    def _truncate(self, path: int, size: int) -> None:
        if size < 0:
            raise failure(errno.EINVAL)
        opened = self._host.open(
            self._task.working_directory, self._path(path), FileAccess.WRITE, 0
        )
        if not isinstance(opened, int):
            raise failure(errno.EINVAL)
        try:
            self._host.resize(opened, size)
        finally:
            self._host.close(opened)

    # Attributes

    def _chown(self, follow: bool, path: bytes, user: int, group: int) -> None:
        self._status_at(AT_FDCWD, path, follow, False)
        self._check_owner(user, group)

    def _fchownat(self, base: int, path: bytes, user: int, group: int, flags: int) -> None:
        follow = not flags & _AT_SYMLINK_NOFOLLOW
        self._status_at(base, path, follow, bool(flags & _AT_EMPTY_PATH))
        self._check_owner(user, group)

    def _check_owner(self, user: int, group: int) -> None:
        # Every file belongs to the one user, and nobody can be given one.
        if not {user, group} <= {-1, USER, 0xFFFF}:
            raise failure(errno.EPERM)

    def _utime(self, path: int, address: int) -> None:
        times = None
        if address:
            seconds = [self._task.signed(value) for value in self._task.words(address, 2)]
            times = (seconds[0] * structures.SECOND, seconds[1] * structures.SECOND)
        self._set_times(AT_FDCWD, self._path(path), times, True)

    def _utimes(self, base: int, path: int, address: int) -> None:
        times = None
        if address:
            layout = structures.TIMEVAL[self._task.is64]
            values = list(layout.iter_unpack(self._memory.read(address, 2 * layout.size)))
            if not all(0 <= microseconds < 1_000_000 for _, microseconds in values):
                raise failure(errno.EINVAL)
            first, second = (s * structures.SECOND + u * 1000 for s, u in values)
            times = (first, second)
        self._set_times(base, self._path(path), times, True)

    def _utimensat(self, base: int, path_address: int, address: int, flags: int) -> None:
        times = None
        path = self._path(path_address) if path_address else b""
        if address:
            size = structures.TIMESPEC[self._task.is_wide].size
            given = [self._task.timespec(address + at) for at in (0, size)]
            if any(nanoseconds == _UTIME_OMIT for _, nanoseconds in given):
                current = self._status_at(base, path, True, True).modified
                if all(nanoseconds == _UTIME_OMIT for _, nanoseconds in given):
                    return
            else:
                current = 0
            first, second = (self._time_given(pair, current) for pair in given)
            times = (first, second)
        self._set_times(base, path, times, not flags & _AT_SYMLINK_NOFOLLOW)

    def _time_given(self, pair: tuple[int, int], current: int) -> int:
        seconds, nanoseconds = pair
        if nanoseconds == _UTIME_NOW:
            return self._task.now
        if nanoseconds == _UTIME_OMIT:
            return current
        if not 0 <= nanoseconds < structures.SECOND:
            raise failure(errno.EINVAL)
        return seconds * structures.SECOND + nanoseconds

    def _set_times(
        self, base: int, path: bytes, times: tuple[int, int] | None, follow: bool
    ) -> None:
        accessed, modified = times or (self._task.now, self._task.now)
        if path:
            self._host.change_times(self._task.base(base), path, accessed, modified, follow)
        else:
            self._host.change_open_times(self._host_handle(base), accessed, modified)
