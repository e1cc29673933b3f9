"""System calls on names: open, stat in all its forms, directories, links, attributes."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from simprof.simulator.cpu.guest import OutOfMemory
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
from simprof.simulator.linux.task import AT_FDCWD, Arguments, Handler, Task

_AT_SYMLINK_NOFOLLOW, _AT_REMOVEDIR, _AT_SYMLINK_FOLLOW = 0x100, 0x200, 0x400
_AT_NO_AUTOMOUNT, _AT_EMPTY_PATH, _AT_STATX_SYNC = 0x800, 0x1000, 0x6000
_STAT_FLAGS = _AT_SYMLINK_NOFOLLOW | _AT_NO_AUTOMOUNT | _AT_EMPTY_PATH
_UTIME_NOW, _UTIME_OMIT = 0x3FFFFFFF, 0x3FFFFFFE
_RENAME_NOREPLACE = 1
_FDCWD = AT_FDCWD & 0xFFFFFFFF

_ACCESS = (
    (O_CREAT, FileAccess.CREATE),
    (O_EXCL, FileAccess.EXCLUSIVE),
    (O_TRUNC, FileAccess.TRUNCATE),
    (O_APPEND, FileAccess.APPEND),
    (O_DIRECTORY, FileAccess.DIRECTORY),
    (O_NOFOLLOW, FileAccess.NO_FOLLOW),
    (O_PATH, FileAccess.PATH_ONLY),
)


class PathCalls:
    """Everything that takes a path.

    `task`: The process.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._guest = task.guest
        self._host = task.host

    def handlers(self) -> Mapping[str, Handler]:
        """Return the calls by name."""
        return {
            **self._opening(), **self._asking(), **self._naming(), **self._attributes(),
        }  # fmt: skip

    def _opening(self) -> Mapping[str, Handler]:
        return {
            "open": lambda a: self._open(_FDCWD, a[0], a[1], a[2]),
            "creat": lambda a: self._open(_FDCWD, a[0], O_CREAT | O_TRUNC | 1, a[1]),
            "openat": lambda a: self._open(a[0], a[1], a[2], a[3]),
            "chdir": self._chdir,
            "fchdir": self._fchdir,
            "getcwd": self._getcwd,
            "umask": self._umask,
            "getdents": self._getdents,
            "getdents64": self._getdents64,
        }

    def _asking(self) -> Mapping[str, Handler]:
        return {
            "stat": lambda a: self._stat(_FDCWD, a[0], a[1], True, False),
            "lstat": lambda a: self._stat(_FDCWD, a[0], a[1], False, False),
            "fstat": lambda a: self._fstat(a[0], a[1], False),
            "stat64": lambda a: self._stat(_FDCWD, a[0], a[1], True, True),
            "lstat64": lambda a: self._stat(_FDCWD, a[0], a[1], False, True),
            "oldlstat": lambda a: self._stat(_FDCWD, a[0], a[1], False, False),
            "fstat64": lambda a: self._fstat(a[0], a[1], True),
            "fstatat64": self._fstatat,
            "statx": self._statx,
            "access": lambda a: self._access(_FDCWD, a[0], a[1], 0),
            "faccessat": lambda a: self._access(a[0], a[1], a[2], 0),
            "faccessat2": lambda a: self._access(a[0], a[1], a[2], a[3]),
            "readlink": lambda a: self._readlink(_FDCWD, a[0], a[1], a[2]),
            "readlinkat": lambda a: self._readlink(a[0], a[1], a[2], a[3]),
            "statfs": lambda a: self._statfs(a[0], a[1], structures.statfs),
            "statfs64": lambda a: self._statfs(a[0], a[2], structures.statfs64),
            "fstatfs": lambda a: self._fstatfs(a[0], a[1], structures.statfs),
            "fstatfs64": lambda a: self._fstatfs(a[0], a[2], structures.statfs64),
        }

    def _naming(self) -> Mapping[str, Handler]:
        return {
            "mkdir": lambda a: self._mkdir(_FDCWD, a[0], a[1]),
            "mkdirat": lambda a: self._mkdir(a[0], a[1], a[2]),
            "rmdir": lambda a: self._remove(_FDCWD, a[0], True),
            "unlink": lambda a: self._remove(_FDCWD, a[0], False),
            "unlinkat": self._unlinkat,
            "rename": lambda a: self._rename(_FDCWD, a[0], _FDCWD, a[1], 0),
            "renameat": lambda a: self._rename(a[0], a[1], a[2], a[3], 0),
            "renameat2": lambda a: self._rename(a[0], a[1], a[2], a[3], a[4]),
            "link": lambda a: self._link(_FDCWD, a[0], _FDCWD, a[1], 0),
            "linkat": lambda a: self._link(a[0], a[1], a[2], a[3], a[4]),
            "symlink": lambda a: self._symlink(a[0], _FDCWD, a[1]),
            "symlinkat": lambda a: self._symlink(a[0], a[1], a[2]),
            "mknod": _refuse,
            "mknodat": _refuse,
            "truncate": self._truncate,
            "truncate64": self._truncate64,
        }

    def _attributes(self) -> Mapping[str, Handler]:
        return {
            "chmod": lambda a: self._chmod(_FDCWD, a[0], a[1]),
            "fchmodat": lambda a: self._chmod(a[0], a[1], a[2]),
            "fchmod": self._fchmod,
            "chown": lambda a: self._chown(_FDCWD, a[0], a[1], a[2], True),
            "chown32": lambda a: self._chown(_FDCWD, a[0], a[1], a[2], True),
            "lchown": lambda a: self._chown(_FDCWD, a[0], a[1], a[2], False),
            "lchown32": lambda a: self._chown(_FDCWD, a[0], a[1], a[2], False),
            "fchown": self._fchown,
            "fchown32": self._fchown,
            "fchownat": self._fchownat,
            "utime": self._utime,
            "utimes": lambda a: self._utimes(_FDCWD, a[0], a[1]),
            "futimesat": lambda a: self._utimes(a[0], a[1], a[2]),
            "utimensat": self._utimensat,
            "utimensat_time64": self._utimensat,
            **{
                f"{prefix}{call}xattr": _no_attributes
                for prefix in ("", "l", "f")
                for call in ("get", "set", "list", "remove")
            },
        }

    # Helpers

    def _path(self, address: int) -> bytes:
        return self._guest.read_string(address)

    def _own_descriptor(self, name: str) -> OpenFile:
        """Return the open file that /proc/self/fd/N names."""
        try:
            return self._task.descriptors.get(int(name.removeprefix("fd/")))
        except OSError:
            raise failure(errno.ENOENT) from None

    def _host_handle(self, descriptor: int) -> int:
        file = self._task.descriptors.get(self._task.signed32(descriptor))
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
            return Text(proc_files.text_of(opened.name, self._task), flags)
        return Device(opened.name, flags, self._task.random)

    def _chdir(self, arguments: Arguments) -> int:
        access = FileAccess.READ | FileAccess.DIRECTORY
        opened = self._host.open(self._task.working_directory, self._path(arguments[0]), access, 0)
        if not isinstance(opened, int):
            raise failure(errno.ENOTDIR)
        self._enter(opened)
        return 0

    def _fchdir(self, arguments: Arguments) -> int:
        file = self._task.descriptors.get(self._task.signed32(arguments[0]))
        if not isinstance(file, Directory):
            raise failure(errno.ENOTDIR)
        again = self._host.open(file.handle, b".", FileAccess.READ | FileAccess.DIRECTORY, 0)
        assert isinstance(again, int)
        self._enter(again)
        return 0

    def _enter(self, handle: int) -> None:
        old, self._task.working_directory = self._task.working_directory, handle
        if old is not None:
            self._host.close(old)

    def _getcwd(self, arguments: Arguments) -> int:
        data = self._host.path_of(self._task.working_directory) + b"\0"
        if len(data) > arguments[1]:
            raise failure(errno.ERANGE)
        self._guest.write(arguments[0], data)
        return len(data)

    def _umask(self, arguments: Arguments) -> int:
        old, self._task.umask = self._task.umask, arguments[0] & 0o777
        return old

    def _getdents(self, arguments: Arguments) -> int:
        return self._list(arguments, "dirent/64" if self._task.is64 else "dirent/32")

    def _getdents64(self, arguments: Arguments) -> int:
        return self._list(arguments, "dirent64")

    def _list(self, arguments: Arguments, layout: str) -> int:
        file = self._task.descriptors.get(self._task.signed32(arguments[0]))
        if not isinstance(file, Directory):
            raise failure(errno.ENOTDIR)
        entries = file.entries()
        try:
            self._task.descriptors.keep(file)
        except OutOfMemory:
            file.seek(0, 0)  # the listing is not kept
            raise
        room = min(arguments[2] & 0xFFFFFFFF, 1 << 20)
        data, position = structures.directory_entries(entries, file.position, room, layout)
        if not data and file.position < len(entries):
            raise failure(errno.EINVAL)
        self._guest.write(arguments[1], data)
        file.position = position
        return len(data)

    # Asking

    def _status_at(self, base: int, path: bytes, follow: bool, allow_empty: bool) -> FileStatus:
        if not path and allow_empty:
            if self._task.signed32(base) == AT_FDCWD:
                status = self._host.status_of(self._task.working_directory, b".", True)
                assert isinstance(status, FileStatus)
                return status
            return self._task.descriptors.get(self._task.signed32(base)).status()
        return self._special_status(self._host.status_of(self._task.base(base), path, follow))

    def _special_status(self, file: FileStatus | Special) -> FileStatus:
        if isinstance(file, FileStatus):
            return file
        if file.name.startswith("fd/"):
            return self._own_descriptor(file.name).status()
        return device_status(file.name)

    def _put_status(self, address: int, status: FileStatus, wide: bool) -> int:
        encode = structures.stat64 if wide else structures.stat
        if not self._task.is64 and not wide and status.size >> 31:
            raise failure(errno.EOVERFLOW)
        self._guest.write(address, encode(status, self._task.is64))
        return 0

    def _stat(self, base: int, path: int, address: int, follow: bool, wide: bool) -> int:
        status = self._status_at(base, self._path(path), follow, False)
        return self._put_status(address, status, wide)

    def _fstat(self, descriptor: int, address: int, wide: bool) -> int:
        status = self._task.descriptors.get(self._task.signed32(descriptor)).status()
        return self._put_status(address, status, wide)

    def _fstatat(self, arguments: Arguments) -> int:
        base, path, address, flags = arguments[:4]
        if flags & ~_STAT_FLAGS:
            raise failure(errno.EINVAL)
        follow = not flags & _AT_SYMLINK_NOFOLLOW
        empty = bool(flags & _AT_EMPTY_PATH)
        status = self._status_at(base, self._path(path), follow, empty)
        return self._put_status(address, status, True)

    def _statx(self, arguments: Arguments) -> int:
        base, path, flags, _, address = arguments[:5]
        if flags & ~(_STAT_FLAGS | _AT_STATX_SYNC):
            raise failure(errno.EINVAL)
        follow = not flags & _AT_SYMLINK_NOFOLLOW
        empty = bool(flags & _AT_EMPTY_PATH)
        status = self._status_at(base, self._path(path), follow, empty)
        self._guest.write(address, structures.statx(status))
        return 0

    def _access(self, base: int, path: int, rights: int, flags: int) -> int:
        if rights & ~7 or flags & ~(_AT_EMPTY_PATH | _AT_SYMLINK_NOFOLLOW | 0x200):
            raise failure(errno.EINVAL)
        self._host.check_access(self._task.base(base), self._path(path), rights)
        return 0

    def _readlink(self, base: int, path: int, address: int, size: int) -> int:
        if self._task.signed32(size) <= 0:
            raise failure(errno.EINVAL)
        text = self._host.read_link(self._task.base(base), self._path(path))
        if isinstance(text, Special):
            text = self._descriptor_path(text)
        self._guest.write(address, text[:size])
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

    def _statfs(self, path: int, address: int, encode: structures.StatfsEncoder) -> int:
        self._status_at(_FDCWD, self._path(path), True, False)
        self._guest.write(address, encode(self._task.is64))
        return 0

    def _fstatfs(self, descriptor: int, address: int, encode: structures.StatfsEncoder) -> int:
        self._task.descriptors.get(self._task.signed32(descriptor))
        self._guest.write(address, encode(self._task.is64))
        return 0

    # Naming

    def _mkdir(self, base: int, path: int, mode: int) -> int:
        bits = mode & 0o777 & ~self._task.umask
        self._host.make_directory(self._task.base(base), self._path(path), bits)
        return 0

    def _remove(self, base: int, path: int, directory: bool) -> int:
        self._host.remove(self._task.base(base), self._path(path), directory)
        return 0

    def _unlinkat(self, arguments: Arguments) -> int:
        if arguments[2] & ~_AT_REMOVEDIR:
            raise failure(errno.EINVAL)
        return self._remove(arguments[0], arguments[1], bool(arguments[2]))

    def _rename(self, base: int, path: int, new_base: int, new: int, flags: int) -> int:
        if flags & ~_RENAME_NOREPLACE:
            raise failure(errno.EINVAL)
        self._host.rename(
            self._task.base(base),
            self._path(path),
            self._task.base(new_base),
            self._path(new),
            not flags & _RENAME_NOREPLACE,
        )
        return 0

    def _link(self, base: int, path: int, new_base: int, new: int, flags: int) -> int:
        if flags & ~_AT_SYMLINK_FOLLOW:
            raise failure(errno.EINVAL)
        self._host.link(
            self._task.base(base),
            self._path(path),
            self._task.base(new_base),
            self._path(new),
            bool(flags & _AT_SYMLINK_FOLLOW),
        )
        return 0

    def _symlink(self, text: int, base: int, path: int) -> int:
        target = self._path(text)
        if not target:
            raise failure(errno.ENOENT)
        self._host.make_link(target, self._task.base(base), self._path(path))
        return 0

    def _truncate(self, arguments: Arguments) -> int:
        return self._resize(arguments[0], self._task.signed(arguments[1]))

    def _truncate64(self, arguments: Arguments) -> int:
        if self._task.is64:
            return self._truncate(arguments)
        return self._resize(arguments[0], self._task.pair(arguments[1], arguments[2]))

    def _resize(self, path: int, size: int) -> int:
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
        return 0

    # Attributes

    def _chmod(self, base: int, path: int, mode: int) -> int:
        self._host.change_mode(self._task.base(base), self._path(path), mode & 0o7777, True)
        return 0

    def _fchmod(self, arguments: Arguments) -> int:
        self._host.change_open_mode(self._host_handle(arguments[0]), arguments[1] & 0o7777)
        return 0

    def _chown(self, base: int, path: int, user: int, group: int, follow: bool) -> int:
        self._status_at(base, self._path(path), follow, False)
        return self._check_owner(user, group)

    def _fchown(self, arguments: Arguments) -> int:
        self._task.descriptors.get(self._task.signed32(arguments[0]))
        return self._check_owner(arguments[1], arguments[2])

    def _fchownat(self, arguments: Arguments) -> int:
        follow = not arguments[4] & _AT_SYMLINK_NOFOLLOW
        empty = bool(arguments[4] & _AT_EMPTY_PATH)
        self._status_at(arguments[0], self._path(arguments[1]), follow, empty)
        return self._check_owner(arguments[2], arguments[3])

    def _check_owner(self, user: int, group: int) -> int:
        """Every file belongs to the one user, and nobody can be given one."""
        unchanged = {-1, USER, 0xFFFF}
        if not {self._task.signed32(user), self._task.signed32(group)} <= unchanged:
            raise failure(errno.EPERM)
        return 0

    def _utime(self, arguments: Arguments) -> int:
        times = None
        if arguments[1]:
            seconds = [self._task.signed(value) for value in self._task.words(arguments[1], 2)]
            times = (seconds[0] * structures.SECOND, seconds[1] * structures.SECOND)
        return self._set_times(_FDCWD, self._path(arguments[0]), times, True)

    def _utimes(self, base: int, path: int, address: int) -> int:
        times = None
        if address:
            size = structures.timeval_size(self._task.is64)
            data = self._guest.read(address, 2 * size)
            values = [
                structures.parse_timeval(part, self._task.is64)
                for part in (data[:size], data[size:])
            ]
            if not all(0 <= microseconds < 1_000_000 for _, microseconds in values):
                raise failure(errno.EINVAL)
            first, second = (s * structures.SECOND + u * 1000 for s, u in values)
            times = (first, second)
        return self._set_times(base, self._path(path), times, True)

    def _utimensat(self, arguments: Arguments) -> int:
        base, path_address, address, flags = arguments[:4]
        wide = self._task.is64 or self._task.call_name.endswith("time64")
        times = None
        path = self._path(path_address) if path_address else b""
        if address:
            size = structures.timespec_size(wide)
            data = self._guest.read(address, 2 * size)
            given = [structures.parse_timespec(data[i : i + size], wide) for i in (0, size)]
            if any(nanoseconds == _UTIME_OMIT for _, nanoseconds in given):
                current = self._status_at(base, path, True, True).modified
                if all(nanoseconds == _UTIME_OMIT for _, nanoseconds in given):
                    return 0
            else:
                current = 0
            first, second = (self._time_given(pair, current) for pair in given)
            times = (first, second)
        return self._set_times(base, path, times, not flags & _AT_SYMLINK_NOFOLLOW)

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
    ) -> int:
        accessed, modified = times or (self._task.now, self._task.now)
        if path:
            self._host.change_times(self._task.base(base), path, accessed, modified, follow)
        else:
            self._host.change_open_times(self._host_handle(base), accessed, modified)
        return 0


def _refuse(arguments: Arguments) -> int:
    raise failure(errno.EPERM)


def _no_attributes(arguments: Arguments) -> int:
    raise failure(errno.EOPNOTSUPP)
