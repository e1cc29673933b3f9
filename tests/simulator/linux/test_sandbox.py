"""The sandbox: programs that try to get out."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simprof.simulator.errors import UsageError
from simprof.simulator.linux.files import Host
from simprof.simulator.linux.outside import FileAccess, FileStatus, Special

READ = FileAccess.READ
CREATE = FileAccess.WRITE | FileAccess.CREATE
SECRET = b"secret"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """`outside/secret` beside `root/{file,sub/deep,out/}`, and links that point everywhere."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(SECRET)
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "out").mkdir()
    (root / "file").write_bytes(b"hello")
    (root / "sub" / "deep").write_bytes(b"deep")
    (root / "to_secret").symlink_to(outside / "secret")
    (root / "to_outside").symlink_to("../outside")
    (root / "to_etc").symlink_to("/etc")
    (root / "chain1").symlink_to("sub/../chain2")
    (root / "chain2").symlink_to("to_outside/secret")
    (root / "inside").symlink_to("sub/deep")
    (root / "absolute").symlink_to(root / "sub")
    (root / "loop").symlink_to("loop")
    (root / "out" / "up").symlink_to("../../outside")
    (root / "out" / "dangling").symlink_to("../../outside/new")
    (root / "out" / "to_file").symlink_to("../file")
    return tmp_path


@pytest.fixture(params=[None, b"/", b"/opt/app"], ids=["as on the host", "at /", "elsewhere"])
def host(tree: Path, request: pytest.FixtureRequest) -> Iterator[Host]:
    """A host that may write below root/out; the program sees root at several places."""
    root = tree / "root"
    made = Host(root, writable=root / "out", seen_root=request.param, stdin=b"", stdout=bytearray())
    yield made
    made.dispose()


def fails_with(number: int, call: Callable[[], object]) -> None:
    with pytest.raises(OSError) as caught:
        call()
    assert errno.errorcode[caught.value.errno or 0] == errno.errorcode[number]


def read_file(host: Host, path: bytes) -> bytes:
    handle = host.open(None, path, READ, 0)
    assert isinstance(handle, int)
    try:
        return host.read(handle, 100)
    finally:
        host.close(handle)


def directory(host: Host, path: bytes) -> int:
    handle = host.open(None, path, READ | FileAccess.DIRECTORY, 0)
    assert isinstance(handle, int)
    return handle


def test_what_lies_inside_is_seen(host: Host, tree: Path) -> None:
    root = os.fsencode(tree / "root")
    for path in (b"file", b"./sub/../file", root + b"/file", b"//" + root + b"//file"):
        assert read_file(host, path) == b"hello"
    for path in (b"inside", b"absolute/deep", b"absolute/../sub/deep"):
        assert read_file(host, path) == b"deep"
    assert host.path_of(None) in (root, b"/", b"/opt/app")


@pytest.mark.parametrize(
    "path",
    [
        b"../outside/secret",
        b"/etc/passwd",
        b"to_secret",
        b"to_outside/secret",
        b"to_etc/passwd",
        b"chain1",
        b"chain2",
        b"sub/../../outside/secret",
        b"sub/../../../../../../../../etc/passwd",
        b"/../../etc/passwd",
        b"out/up/secret",
        b"absolute/../../outside/secret",
        b"/proc/self/root/etc/passwd",
        b"/proc/../etc/passwd",
        b"/proc/self/cwd/../outside/secret",
        b"/proc/1/root/etc/passwd",
        b"/proc/self/environ",
        b"/proc/self/mem",
        b"/proc/self/task/1/fd/0",
        b"/proc/cpuinfo",
        b"/sys/kernel/notes",
        b"/dev/mem",
        b"/dev/fd/../../etc/passwd",
        b"/dev/shm/x",
    ],
)
def test_nothing_outside_can_be_read(host: Host, path: bytes) -> None:
    for attempt in (path, path + b"/."):
        for call in (
            lambda attempt=attempt: host.open(None, attempt, READ, 0),
            lambda attempt=attempt: host.status_of(None, attempt, True),
            lambda attempt=attempt: host.check_access(None, attempt, os.R_OK),
        ):
            with pytest.raises(OSError):
                call()


@pytest.mark.parametrize(
    "path",
    [
        b"new",
        b"sub/new",
        b"../outside/new",
        b"/tmp/simprof-escape",
        b"out/../new",
        b"out/up/new",
        b"out/dangling",
        b"out/../../outside/new",
        b"to_outside/new",
        b"/dev/new",
        b"/new",
    ],
)
def test_nothing_outside_the_writable_directory_is_created(
    host: Host, tree: Path, path: bytes
) -> None:
    before = snapshot(tree)
    parent = os.fsencode(tree / "root" / "out")
    calls: list[Callable[[], object]] = [
        lambda: host.open(None, path, CREATE, 0o644),
        lambda: host.open(None, path, CREATE | FileAccess.EXCLUSIVE, 0o644),
        lambda: host.make_directory(None, path, 0o755),
        lambda: host.make_link(b"x", None, path),
        lambda: host.link(None, parent + b"/to_file", None, path, False),
    ]
    if path != b"out/dangling":  # the link itself may be replaced
        calls.append(lambda: host.rename(None, b"out/to_file", None, path, True))
    for call in calls:
        with pytest.raises(OSError):
            call()
    assert snapshot(tree) == before
    assert not Path("/tmp/simprof-escape").exists()


def snapshot(tree: Path) -> dict[str, tuple[int, bytes]]:
    """Names, modes and contents of everything below `tree`."""
    found = {}
    for path in sorted(tree.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path)] = (status.st_mode, data)
    return found


@pytest.mark.parametrize(
    "path",
    [b"file", b"sub/deep", b"out/to_file", b"to_secret", b"out/up/secret", b"../outside/secret"],
)
def test_files_outside_the_writable_directory_keep_their_content(
    host: Host, tree: Path, path: bytes
) -> None:
    before = snapshot(tree)
    for call in (
        lambda: host.open(None, path, FileAccess.WRITE, 0),
        lambda: host.open(None, path, FileAccess.READ | FileAccess.WRITE, 0),
        lambda: host.open(None, path, FileAccess.READ | FileAccess.TRUNCATE, 0),
        lambda: host.change_mode(None, path, 0o777),
        lambda: host.change_times(None, path, 0, 0, True),
        lambda: host.check_access(None, path, os.W_OK),
        lambda: host.link(None, path, None, b"out/hard", True),
    ):
        with pytest.raises(OSError):
            call()
    if path != b"out/to_file":  # the link itself lies inside
        with pytest.raises(OSError):
            host.remove(None, path, False)
        with pytest.raises(OSError):
            host.rename(None, path, None, b"out/moved", True)
    assert snapshot(tree) == before


def test_a_read_only_open_file_cannot_be_changed(host: Host, tree: Path) -> None:
    handle = host.open(None, b"file", READ, 0)
    assert isinstance(handle, int)
    fails_with(errno.EROFS, lambda: host.change_open_mode(handle, 0o777))
    fails_with(errno.EROFS, lambda: host.change_open_times(handle, 0, 0))
    fails_with(errno.EINVAL, lambda: host.resize(handle, 0))
    with pytest.raises(OSError):
        host.write(handle, b"x")
    assert (tree / "root" / "file").read_bytes() == b"hello"


def test_hard_links_made_before_are_not_written_through(host: Host, tree: Path) -> None:
    os.link(tree / "outside" / "secret", tree / "root" / "out" / "hard")
    fails_with(errno.EACCES, lambda: host.open(None, b"out/hard", FileAccess.WRITE, 0))
    fails_with(
        errno.EACCES, lambda: host.open(None, b"out/hard", FileAccess.READ | FileAccess.TRUNCATE, 0)
    )
    fails_with(errno.EACCES, lambda: host.change_mode(None, b"out/hard", 0o777))
    assert (tree / "outside" / "secret").read_bytes() == SECRET


def test_own_hard_links_work(host: Host, tree: Path) -> None:
    handle = host.open(None, b"out/a", CREATE, 0o644)
    assert isinstance(handle, int)
    host.link(None, b"out/a", None, b"out/b", False)
    again = host.open(None, b"out/b", FileAccess.WRITE, 0)
    assert isinstance(again, int)
    assert host.write(again, b"both") == 4
    assert (tree / "root" / "out" / "a").read_bytes() == b"both"


def test_a_directory_handle_does_not_lead_out(host: Host) -> None:
    handle = host.open(None, b"out", READ | FileAccess.DIRECTORY, 0)
    assert isinstance(handle, int)
    assert read_file(host, b"out/../file") == b"hello"
    for path in (b"../../outside/secret", b"up/secret", b"../../../etc/passwd"):
        with pytest.raises(OSError):
            host.open(handle, path, READ, 0)
    with pytest.raises(OSError):
        host.open(handle, b"../new", CREATE, 0o644)


def test_a_renamed_directory_stays_inside(host: Host, tree: Path) -> None:
    """`..` from a directory that was moved leads to its new parent, still inside."""
    host.make_directory(None, b"out/a", 0o755)
    host.make_directory(None, b"out/a/b", 0o755)
    handle = host.open(None, b"out/a/b", READ | FileAccess.DIRECTORY, 0)
    assert isinstance(handle, int)
    host.rename(None, b"out/a/b", None, b"out/b", True)
    assert host.path_of(handle) == (host.path_of(None) + b"/out/b").replace(b"//", b"/")
    created = host.open(handle, b"x", CREATE, 0o640)
    assert isinstance(created, int)
    assert (tree / "root" / "out" / "b" / "x").is_file()
    with pytest.raises(OSError):
        host.open(handle, b"../../../outside/secret", READ, 0)


def test_a_directory_swapped_for_a_link_is_not_followed(host: Host, tree: Path) -> None:
    """The walk opens each component itself: what the path meant earlier does not matter."""
    handle = host.open(None, b"out", READ | FileAccess.DIRECTORY, 0)
    assert isinstance(handle, int)
    (tree / "root" / "out").rename(tree / "root" / "was_out")
    (tree / "root" / "out").symlink_to(tree / "outside")
    with pytest.raises(OSError):
        host.open(handle, b"secret", READ, 0)
    with pytest.raises(OSError):
        host.open(handle, b"new", CREATE, 0o644)
    assert not (tree / "outside" / "new").exists()


def test_devices_pipes_and_sockets_of_the_host_stay_closed(host: Host, tree: Path) -> None:
    os.mkfifo(tree / "root" / "out" / "fifo")
    fails_with(errno.EACCES, lambda: host.open(None, b"out/fifo", READ, 0))
    fails_with(errno.EACCES, lambda: host.open(None, b"out/fifo", FileAccess.WRITE, 0))
    status = host.status_of(None, b"out/fifo", True)
    assert isinstance(status, FileStatus)
    assert stat.S_ISFIFO(status.mode)


def test_special_files_belong_to_the_emulated_kernel(host: Host, tree: Path) -> None:
    (tree / "root" / "null").symlink_to("/dev/null")
    for path, name in (
        (b"/dev/null", "null"),
        (b"null", "null"),
        (b"/dev/stdin", "fd/0"),
        (b"/proc/self/fd/1", "fd/1"),
        (b"/proc/1000/maps", "maps"),
        (b"/dev/../dev/urandom", "urandom"),
    ):
        assert host.open(None, path, READ, 0) == Special(name)
    fails_with(errno.ENOTDIR, lambda: host.open(None, b"/dev/null/x", READ, 0))


def test_the_program_itself_can_be_opened(tree: Path) -> None:
    program = tree / "outside" / "secret"
    (tree / "outside" / "other").touch()
    host = Host(tree / "root", program=program, stdin=b"")
    try:
        assert read_file(host, b"/proc/self/exe") == SECRET
        assert host.read_link(None, b"/proc/self/exe") == os.fsencode(program)
        fails_with(errno.ETXTBSY, lambda: host.open(None, b"/proc/self/exe", FileAccess.WRITE, 0))
        assert read_file(host, os.fsencode(program)) == SECRET
        fails_with(errno.EROFS, lambda: host.check_access(None, os.fsencode(program), os.W_OK))
        assert host.list_directory(directory(host, os.fsencode(program.parent)))[2:] == ()
        with pytest.raises(OSError):
            host.open(None, os.fsencode(tree / "outside" / "other"), READ, 0)
    finally:
        host.dispose()


def test_the_way_down_to_root_can_be_walked(host: Host, tree: Path) -> None:
    """Ancestors of root are directories that hold one name: realpath and getcwd work."""
    parent = os.fsencode(tree)
    status = host.status_of(None, parent, True)
    assert isinstance(status, FileStatus)
    assert stat.S_ISDIR(status.mode)
    fails_with(errno.EINVAL, lambda: host.read_link(None, parent))
    handle = host.open(None, b"..", READ | FileAccess.DIRECTORY, 0)
    assert isinstance(handle, int)
    above, _, name = host.path_of(None).rpartition(b"/")
    assert host.path_of(handle) == (above or b"/")
    if name:
        assert [entry.name for entry in host.list_directory(handle)] == [b".", b"..", name]
    fails_with(errno.EROFS, lambda: host.make_directory(None, b"../x", 0o755))


def walk(host: Host, path: bytes) -> None:
    """Look at all directories on the way to a path, as realpath and `mkdir -p` do."""
    parts = path.split(b"/")[1:]
    for count in range(1, len(parts)):
        status = host.status_of(None, b"/" + b"/".join(parts[:count]), False)
        assert isinstance(status, FileStatus)
        assert stat.S_ISDIR(status.mode)


def test_root_is_found_under_its_path_on_the_host(host: Host, tree: Path) -> None:
    """Whatever else it is called: absolute arguments and links lead there, in steps, too."""
    path = os.fsencode(tree / "root" / "sub" / "deep")
    walk(host, path)
    assert read_file(host, path) == b"deep"
    top = path.split(b"/")[1]
    fails_with(errno.EEXIST, lambda: host.make_directory(None, b"/" + top, 0o755))
    handle = host.open(None, b"/" + top, READ | FileAccess.DIRECTORY, 0)
    assert isinstance(handle, int)
    opened = host.open(handle, b"/".join(path.split(b"/")[2:]), READ, 0)
    assert isinstance(opened, int)
    assert host.path_of(opened) == (host.path_of(None) + b"/sub/deep").replace(b"//", b"/")


def test_own_directories_that_are_called_as_special_ones(tree: Path) -> None:
    """With root at /, the user's `dev`, `proc` and `sys` stay readable beside /dev/null."""
    root = tree / "root"
    for name in ("dev", "proc", "sys"):
        (root / name).mkdir()
        (root / name / "own").write_bytes(name.encode())
    host = Host(root, writable=root, working=root / "dev", seen_root=b"/", stdin=b"")
    try:
        for path in (b"own", b"/dev/own", b"../dev/own"):
            assert read_file(host, path) == b"dev"
        assert (read_file(host, b"/proc/own"), read_file(host, b"../sys/own")) == (b"proc", b"sys")
        assert host.open(None, b"/dev/null", READ, 0) == Special("null")
        assert host.open(None, b"/proc/self/maps", READ, 0) == Special("maps")
        made = host.open(None, b"/dev/new", CREATE, 0o644)
        assert isinstance(made, int)
        assert (root / "dev" / "new").is_file()
    finally:
        host.dispose()


def test_the_hosts_special_directories_are_never_seen() -> None:
    host = Host(Path("/"), seen_root=b"/", stdin=b"")
    try:
        for path in (b"/dev/mem", b"/proc/1/environ", b"/sys/kernel", b"/proc/stat"):
            with pytest.raises(OSError):
                host.open(None, path, READ, 0)
    finally:
        host.dispose()


def test_link_loops_and_long_names(host: Host) -> None:
    fails_with(errno.ELOOP, lambda: host.open(None, b"loop", READ, 0))
    fails_with(errno.ELOOP, lambda: host.open(None, b"inside", READ | FileAccess.NO_FOLLOW, 0))
    fails_with(errno.ENAMETOOLONG, lambda: host.open(None, b"a" * 300, READ, 0))
    fails_with(errno.ENAMETOOLONG, lambda: host.open(None, b"a/" * 3000, READ, 0))
    fails_with(errno.ENOENT, lambda: host.open(None, b"", READ, 0))


def test_the_writable_directory_itself_stays(host: Host) -> None:
    fails_with(errno.EROFS, lambda: host.remove(None, b"out", True))
    fails_with(errno.EROFS, lambda: host.rename(None, b"out", None, b"out/x", True))


def test_set_user_bits_are_dropped(host: Host, tree: Path) -> None:
    handle = host.open(None, b"out/s", CREATE, 0o6755)
    assert isinstance(handle, int)
    host.change_mode(None, b"out/s", 0o6711)
    assert stat.S_IMODE((tree / "root" / "out" / "s").stat().st_mode) == 0o711


def test_directories_that_cannot_be_used(tree: Path) -> None:
    with pytest.raises(UsageError, match=r"--root .*no such directory"):
        Host(tree / "nowhere")
    with pytest.raises(UsageError, match="not a directory"):
        Host(tree / "root" / "file")
    with pytest.raises(UsageError, match="not below --root"):
        Host(tree / "root", writable=tree / "outside")
    with pytest.raises(UsageError, match="not below --root"):
        Host(tree / "root", writable=tree / "root" / "to_outside")


def test_root_given_through_a_link(tree: Path) -> None:
    (tree / "link").symlink_to("root")
    host = Host(tree / "link", stdin=b"")
    try:
        assert read_file(host, os.fsencode(tree / "link" / "file")) == b"hello"
        assert read_file(host, os.fsencode(tree / "root" / "file")) == b"hello"
    finally:
        host.dispose()


def test_the_whole_tree_as_root(tree: Path) -> None:
    """With `--root /` everything can be read, but not the host's processes and devices."""
    host = Host(Path("/"), stdin=b"")
    try:
        assert read_file(host, os.fsencode(tree / "outside" / "secret")) == SECRET
        for path in (b"/proc/self/environ", b"/proc/1/maps", b"/dev/mem", b"/sys/kernel"):
            with pytest.raises(OSError):
                host.open(None, path, READ, 0)
        fails_with(
            errno.EROFS,
            lambda: host.open(None, os.fsencode(tree / "outside" / "new"), CREATE, 0o644),
        )
    finally:
        host.dispose()
