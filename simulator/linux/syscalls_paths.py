"""System calls on names: open, stat in all its forms, directories, links, attributes."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from functools import partial

from simprof.simulator.cpu.address_space import OutOfMemory
from simprof.simulator.isa import sparc
from simprof.simulator.linux import descriptors, proc_files, structures
from simprof.simulator.linux.outside import USER, FileAccess, FileStatus, Special
from simprof.simulator.linux.sandbox import fail_if, failure
from simprof.simulator.linux.task import AT_FDCWD, CallGroup, Perform, Task, failing

_AT_SYMLINK_NOFOLLOW, _AT_REMOVEDIR, _AT_SYMLINK_FOLLOW = 0x100, 0x200, 0x400
_AT_NO_AUTOMOUNT, _AT_EMPTY_PATH, _AT_STATX_SYNC = 0x800, 0x1000, 0x6000
_STAT_FLAGS = _AT_SYMLINK_NOFOLLOW | _AT_NO_AUTOMOUNT | _AT_EMPTY_PATH
_STATX_FLAGS = _STAT_FLAGS | _AT_STATX_SYNC
_ACCESS_FLAGS = _AT_EMPTY_PATH | _AT_SYMLINK_NOFOLLOW | 0x200
_UTIME_NOW, _UTIME_OMIT = 0x3FFFFFFF, 0x3FFFFFFE
_RENAME_NOREPLACE = 1

_MOST_NOT_FOUND = 64  # Paths that are remembered
_ACCESS = (
    (sparc.O_CREAT, FileAccess.CREATE),
    (sparc.O_EXCL, FileAccess.EXCLUSIVE),
    (sparc.O_TRUNC, FileAccess.TRUNCATE),
    (sparc.O_APPEND, FileAccess.APPEND),
    (sparc.O_DIRECTORY, FileAccess.DIRECTORY),
    (sparc.O_NOFOLLOW, FileAccess.NO_FOLLOW),
    (sparc.O_PATH, FileAccess.PATH_ONLY),
)


class PathCalls(CallGroup):
    """Everything that takes a path."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._host = task.host

    def _declarations(self) -> Mapping[str, Perform]:
        return {**self._opening(), **self._asking(), **self._changing()}

    def _opening(self) -> Mapping[str, Perform]:
        narrow = "dirent/64" if self._task.is64 else "dirent/32"
        return {
            "open: s p p": partial(self._open, AT_FDCWD),
            "creat: s p": lambda path, mode: self._open(
                AT_FDCWD, path, sparc.O_CREAT | sparc.O_TRUNC | 1, mode
            ),
            "openat: i s p p": self._open,
            "chdir: . s": self._chdir,
            "fchdir: f": self._fchdir,
            "getcwd: > p": self._getcwd,
            "umask: p": self._umask,
            "getdents: f p u": partial(self._list, narrow),
            "getdents64: f p u": partial(self._list, "dirent64"),
        }

    def _asking(self) -> Mapping[str, Perform]:
        is64 = self._task.is64
        return {
            "stat: s >": partial(self._stat, 0, False),
            "lstat oldlstat: s >": partial(self._stat, _AT_SYMLINK_NOFOLLOW, False),
            "fstat: f >": lambda file: self._encode(file.status(), False),
            "stat64: s >": partial(self._stat, 0, True),
            "lstat64: s >": partial(self._stat, _AT_SYMLINK_NOFOLLOW, True),
            "fstat64: f >": lambda file: self._encode(file.status(), True),
            f"fstatat64: i s > {_STAT_FLAGS}": lambda *of: self._encode(self._status(*of), True),
            f"statx: i s {_STATX_FLAGS} - >": lambda *of: structures.statx(self._status(*of)),
            "access: . s 7": self._host.check_access,
            "faccessat: @ s 7": self._host.check_access,
            f"faccessat2: @ s 7 {_ACCESS_FLAGS}": lambda *of: self._host.check_access(*of[:3]),
            "readlink: s > i": partial(self._readlink, AT_FDCWD),
            "readlinkat: i s > i": self._readlink,
            "statfs: s >": partial(self._statfs, False),
            "statfs64: s - >": partial(self._statfs, True),
            "fstatfs: f >": lambda _: structures.statfs(False, is64),
            "fstatfs64: f - >": lambda _: structures.statfs(True, is64),
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
            "symlink: s . s": self._symlinkat,
            "symlinkat: s @ s": self._symlinkat,
            "mknod mknodat:": failing(errno.EPERM),
            "truncate: . s l": self._truncate,
            "truncate64: . s q": self._truncate,
            "chmod: . s p": host.change_mode,
            "fchmodat: @ s p": host.change_mode,
            "fchmod: i p": lambda own, mode: host.change_open_mode(self._host_handle(own), mode),
            "chown chown32: s i i": partial(self._chown, AT_FDCWD, 0),
            "lchown lchown32: s i i": partial(self._chown, AT_FDCWD, _AT_SYMLINK_NOFOLLOW),
            "fchown fchown32: f i i": lambda file, user, group: self._check_owner(user, group),
            "fchownat: i s i i p": lambda base, path, user, group, flags: self._chown(
                base, flags, path, user, group
            ),
            "utime: s p": self._utime,
            "utimes: s p": partial(self._utimes, AT_FDCWD),
            "futimesat: i s p": self._utimes,
            "utimensat utimensat_time64: i S p p": self._utimensat,
            **{
                f"{call}xattr l{call}xattr f{call}xattr:": failing(errno.EOPNOTSUPP)
                for call in attributes
            },
        }

    # Helpers

    def _own_descriptor(self, name: str) -> descriptors.OpenFile:
        # The open file that /proc/self/fd/N names.
        try:
            return self._task.descriptors.get(int(name.removeprefix("fd/")))
        except OSError:
            raise failure(errno.ENOENT) from None

    def _host_handle(self, descriptor: int) -> int:
        file = self._task.file(descriptor)
        if not isinstance(file, descriptors.HostFile) or file.handle <= 2:
            raise failure(errno.EROFS)
        return file.handle

    # Opening

    def _open(self, base: int, path: bytes, flags: int, mode: int) -> int:
        fail_if(flags & sparc.O_TMPFILE, errno.EOPNOTSUPP)
        access = FileAccess.READ if flags & sparc.O_ACCMODE in (0, 2) else FileAccess(0)
        if flags & sparc.O_ACCMODE in (1, 2):
            access |= FileAccess.WRITE
        for bit, meaning in _ACCESS:
            if flags & bit:
                access |= meaning
        try:
            opened = self._host.open(
                self._task.base(base), path, access, mode & 0o7777 & ~self._task.umask
            )
        except OSError as error:
            missed = {errno.ENOENT: self._task.not_found, errno.EROFS: self._task.not_writable}
            names = missed.get(error.errno or 0)
            if names is not None and len(names) < _MOST_NOT_FOUND:
                names.add(path)
            raise
        kept = flags & ~(
            sparc.O_CREAT | sparc.O_EXCL | sparc.O_TRUNC | sparc.O_CLOEXEC | sparc.O_NOFOLLOW
        )
        file = self._open_file(opened, kept)
        table = self._task.descriptors
        try:
            number = table.install(file, on_exec=bool(flags & sparc.O_CLOEXEC))
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

    def _open_file(self, opened: int | Special, flags: int) -> descriptors.OpenFile:
        if isinstance(opened, int):
            mode = self._host.status(opened).mode
            kind = descriptors.Directory if mode & 0o170000 == 0o040000 else descriptors.HostFile
            return kind(self._host, opened, flags)
        if opened.name.startswith("fd/"):
            return self._own_descriptor(opened.name)
        fail_if(opened.name == "tty", errno.ENXIO)
        fail_if(flags & sparc.O_DIRECTORY, errno.ENOTDIR)
        if opened.name in proc_files.FILES:
            fail_if(flags & sparc.O_ACCMODE, errno.EACCES)
            return descriptors.Text(proc_files.FILES[opened.name](self._task), flags)
        return descriptors.Device(opened.name, flags, self._task.random)

    def _chdir(self, base: int | None, path: bytes) -> None:
        opened = self._host.open(base, path, FileAccess.READ | FileAccess.DIRECTORY, 0)
        if not isinstance(opened, int):
            raise failure(errno.ENOTDIR)
        old, self._task.working_directory = self._task.working_directory, opened
        if old is not None:
            self._host.close(old)

    def _fchdir(self, file: descriptors.OpenFile) -> None:
        if not isinstance(file, descriptors.Directory):
            raise failure(errno.ENOTDIR)
        self._chdir(file.handle, b".")

    def _getcwd(self, size: int) -> tuple[int, bytes]:
        data = self._host.path_of(self._task.working_directory) + b"\0"
        fail_if(len(data) > size, errno.ERANGE)
        return len(data), data

    def _umask(self, mask: int) -> int:
        old, self._task.umask = self._task.umask, mask & 0o777
        return old

    def _list(self, layout: str, file: descriptors.OpenFile, address: int, size: int) -> int:
        if not isinstance(file, descriptors.Directory):
            raise failure(errno.ENOTDIR)
        entries = file.entries()
        try:
            self._task.descriptors.keep(file)
        except OutOfMemory:
            file.seek(0, 0)  # the listing is not kept
            raise
        room = min(size, 1 << 20)
        data, position = structures.directory_entries(entries, file.position, room, layout)
        fail_if(not data and file.position < len(entries), errno.EINVAL)
        self._memory.write(address, data)
        file.position = position
        return len(data)

    # Asking

    def _status(self, base: int, path: bytes, flags: int) -> FileStatus:
        if not path and flags & _AT_EMPTY_PATH:
            if base != AT_FDCWD:
                return self._task.file(base).status()
            path = b"."
        follow = not flags & _AT_SYMLINK_NOFOLLOW
        file = self._host.status_of(self._task.base(base), path, follow)
        if isinstance(file, FileStatus):
            return file
        if file.name.startswith("fd/"):
            return self._own_descriptor(file.name).status()
        return descriptors.device_status(file.name)

    def _encode(self, status: FileStatus, wide: bool) -> bytes:
        encode = structures.stat64 if wide else structures.stat
        fail_if(not self._task.is64 and not wide and status.size >> 31, errno.EOVERFLOW)
        return encode(status, self._task.is64)

    def _stat(self, flags: int, wide: bool, path: bytes) -> bytes:
        return self._encode(self._status(AT_FDCWD, path, flags), wide)

    def _readlink(self, base: int, path: bytes, size: int) -> tuple[int, bytes]:
        fail_if(size <= 0, errno.EINVAL)
        text = self._host.read_link(self._task.base(base), path)
        if isinstance(text, Special):
            text = self._descriptor_path(text)
        return len(text[:size]), text[:size]

    def _descriptor_path(self, special: Special) -> bytes:
        fail_if(not special.name.startswith("fd/"), errno.EINVAL)
        file = self._own_descriptor(special.name)
        if isinstance(file, descriptors.HostFile) and file.handle > 2:
            return self._host.path_of(file.handle)
        if isinstance(file, descriptors.Device):
            return b"/dev/" + file.name.encode()
        return b"pipe:[%d]" % file.status().inode

    def _statfs(self, wide: bool, path: bytes) -> bytes:
        self._status(AT_FDCWD, path, 0)
        return structures.statfs(wide, self._task.is64)

    # Naming

    def _mkdir(self, base: int | None, path: bytes, mode: int) -> None:
        self._host.make_directory(base, path, mode & 0o777 & ~self._task.umask)

    def _rename(
        self, base: int | None, path: bytes, new_base: int | None, new: bytes, flags: int = 0
    ) -> None:
        self._host.rename(base, path, new_base, new, not flags & _RENAME_NOREPLACE)

    def _symlinkat(self, target: bytes, base: int | None, path: bytes) -> None:
        fail_if(not target, errno.ENOENT)
        self._host.make_link(target, base, path)

    def _truncate(self, base: int | None, path: bytes, size: int) -> None:
        fail_if(size < 0, errno.EINVAL)
        opened = self._host.open(base, path, FileAccess.WRITE, 0)
        if not isinstance(opened, int):
            raise failure(errno.EINVAL)
        try:
            self._host.resize(opened, size)
        finally:
            self._host.close(opened)

    # Attributes

    def _chown(self, base: int, flags: int, path: bytes, user: int, group: int) -> None:
        self._status(base, path, flags)
        self._check_owner(user, group)

    def _check_owner(self, user: int, group: int) -> None:
        # Every file belongs to the one user, and nobody can be given one.
        fail_if(not {user, group} <= {-1, USER, 0xFFFF}, errno.EPERM)

    def _utime(self, path: bytes, address: int) -> None:
        given = self._task.words(address, 2) if address else ()
        times = [self._task.signed(seconds) * structures.SECOND for seconds in given]
        self._set_times(AT_FDCWD, path, times, True)

    def _utimes(self, base: int, path: bytes, address: int) -> None:
        layout = structures.TIMEVAL[self._task.is64]
        data = self._memory.read(address, 2 * layout.size) if address else b""
        given = list(layout.iter_unpack(data))
        fail_if(not all(0 <= microseconds < 1_000_000 for _, microseconds in given), errno.EINVAL)
        self._set_times(base, path, [s * structures.SECOND + u * 1000 for s, u in given], True)

    def _utimensat(self, base: int, path: bytes, address: int, flags: int) -> None:
        size = structures.TIMESPEC[self._task.is_wide].size
        places = (address, address + size) if address else ()
        given = [self._task.timespec(place) for place in places]
        omitted = sum(nanoseconds == _UTIME_OMIT for _, nanoseconds in given)
        current = self._status(base, path, _AT_EMPTY_PATH).modified if omitted else 0
        if omitted < 2:
            times = [self._time_given(*each, current) for each in given]
            self._set_times(base, path, times, not flags & _AT_SYMLINK_NOFOLLOW)

    def _time_given(self, seconds: int, nanoseconds: int, current: int) -> int:
        if nanoseconds == _UTIME_NOW:
            return self._task.now
        if nanoseconds == _UTIME_OMIT:
            return current
        fail_if(not 0 <= nanoseconds < structures.SECOND, errno.EINVAL)
        return seconds * structures.SECOND + nanoseconds

    def _set_times(self, base: int, path: bytes, times: Sequence[int], follow: bool) -> None:
        accessed, modified = times or (self._task.now, self._task.now)
        if path:
            self._host.change_times(self._task.base(base), path, accessed, modified, follow)
        else:
            self._host.change_open_times(self._host_handle(base), accessed, modified)
