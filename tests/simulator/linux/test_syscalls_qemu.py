"""System calls of real programs: the same answers and instruction counts as under qemu-user."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from simprof.simulator.binary import elf
from simprof.simulator.binary.program import Program
from simprof.simulator.linux.files import Host
from simprof.simulator.machine.machine import Machine
from simprof.simulator.machine.running import RunResult
from tests.support.turns import turns

EMULATORS = {"v9": "qemu-sparc64", "v8plus": "qemu-sparc32plus"}
WIDTHS = [
    pytest.param("v9", (), id="v9"),
    pytest.param("v8plus", (), id="v8plus"),
    pytest.param("v8plus", ("-D_FILE_OFFSET_BITS=64", "-D_TIME_BITS=64"), id="v8plus-64-bit-files"),
]

PRELUDE = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>
#define T(x) do { errno = 0; long r = (long)(x); \
  printf("%s = %ld %s\n", #x, r, r == -1 ? strerrorname_np(errno) : ""); } while (0)
#define MTIME printf("mtime %ld.%ld\n", (long)st.st_mtim.tv_sec, (long)st.st_mtim.tv_nsec)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
static char b[5000];
static struct stat st;
static volatile int got;
static void handler(int s) { got = s; }
"""

FILES = r"""
int main(void) {
  int fd, dfd, p[2];
  T(fd = open("w/a", O_RDWR | O_CREAT | O_TRUNC, 0644)); T(write(fd, "hello world\n", 12));
  T(fstat(fd, &st)); T(st.st_mode); T(st.st_size); T(st.st_nlink); T(st.st_blksize);
  T(lseek(fd, 6, SEEK_SET)); T(read(fd, b, 100)); T(pread(fd, b, 5, 0)); T(b[0]);
  T(pwrite(fd, "J", 1, 0)); T(lseek(fd, -3, SEEK_END)); T(lseek(fd, -30, SEEK_CUR));
  struct iovec v[2] = {{b, 3}, {b + 10, 20}};
  T(lseek(fd, 0, 0)); T(readv(fd, v, 2)); T(b[10]); T(writev(fd, v, 2));
  v[1].iov_len = -1; T(readv(fd, v, 2)); T(writev(fd, v, 2)); v[1].iov_len = 20;
  T(preadv(fd, v, 2, 1)); T(pwritev(fd, v, 1, 30));
  T(ftruncate(fd, 5)); T(fstat(fd, &st)); T(st.st_size);
  T(truncate("w/a", 8)); T(stat("w/a", &st)); T(st.st_size);
  T(fchmod(fd, 0600)); T(chmod("w/a", 0640)); T(stat("w/a", &st)); T(st.st_mode);
  struct timespec ts[2] = {{1000, 5}, {2000, 7}}; T(futimens(fd, ts)); T(stat("w/a", &st)); MTIME;
  struct timeval tv[2] = {{1, 2}, {3, 4}}; T(utimes("w/a", tv)); T(lstat("w/a", &st)); MTIME;
  struct utimbuf ub = {5, 6}; T(utime("w/a", &ub)); T(stat("w/a", &st)); MTIME;
  T(link("w/a", "w/l")); T(stat("w/l", &st)); T(st.st_nlink); T(rename("w/l", "w/m"));
  T(symlink("a", "w/s")); T(readlink("w/s", b, 50)); T(lstat("w/s", &st)); T(S_ISLNK(st.st_mode));
  T(access("w/s", R_OK | W_OK)); T(access("w/no", F_OK));
  T(faccessat(AT_FDCWD, "w/s", R_OK, AT_EACCESS));
  T(mkdir("w/d", 0755)); T(mkdir("w/d", 0755)); T(rmdir("w/no")); T(open("w/d", O_WRONLY));
  T(unlink("w/d")); T(dfd = open("w", O_RDONLY | O_DIRECTORY)); T(openat(dfd, "a", O_RDONLY));
  T(unlinkat(dfd, "d", AT_REMOVEDIR)); T(fchdir(dfd)); T(access("a", F_OK)); T(chdir(".."));
  T(open("w/x", O_RDONLY)); T(open("w/a", O_CREAT | O_EXCL | O_RDWR, 0600));
  T(open("w/s", O_RDONLY | O_NOFOLLOW)); T(open("w/a/", O_RDONLY)); T(open("w/a/x", O_RDONLY));
  T(open("", O_RDONLY)); T(creat("w/c", 0666)); T(stat("w/c", &st)); T(st.st_mode);
  T(dup(fd)); T(dup2(fd, 20)); T(dup3(fd, 21, O_CLOEXEC)); T(dup3(fd, fd, 0));
  T(fcntl(21, F_GETFD)); T(fcntl(20, F_GETFD)); T(fcntl(fd, F_DUPFD, 30));
  T(fcntl(fd, F_GETFL) & O_ACCMODE); T(fcntl(fd, F_SETFL, O_APPEND)); T(write(fd, "ap", 2));
  struct flock fl = {.l_type = F_WRLCK};
  T(fcntl(fd, F_SETLK, &fl)); T(fcntl(fd, F_GETLK, &fl)); T(fl.l_type == F_UNLCK);
  T(close(20)); T(close(20)); T(read(99, b, 1)); T(write(-1, b, 1));
  T(read(fd, (void *)8, 1)); T(write(fd, (void *)8, 1)); T(isatty(1));
  T(pipe(p)); T(write(p[1], "abc", 3));
  struct pollfd pf[3] = {{p[0], POLLIN}, {p[1], POLLOUT}, {77, POLLIN}};
  T(poll(pf, 3, 0)); T(pf[0].revents); T(pf[1].revents); T(pf[2].revents);
  fd_set rs; FD_ZERO(&rs); FD_SET(p[0], &rs); struct timeval z = {0, 0};
  T(select(p[0] + 1, &rs, 0, 0, &z)); T(FD_ISSET(p[0], &rs)); T(read(p[0], b, 10));
  close(p[1]); T(read(p[0], b, 10)); T(pipe2(p, O_NONBLOCK)); T(read(p[0], b, 1));
  close(p[0]); signal(SIGPIPE, SIG_IGN); T(write(p[1], "x", 1));
  char *f; T((f = mmap(0, 100, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) != MAP_FAILED);
  f[0] = 'Z'; T(msync(f, 100, MS_SYNC)); T(pread(fd, b, 1, 0)); T(b[0]); T(munmap(f, 100));
  T((f = mmap(0, 100, PROT_READ, MAP_PRIVATE, fd, 0)) != MAP_FAILED); T(f[0]); T(f[99]);
  struct statfs sf; T(statfs("w", &sf)); T(statfs("w/zz", &sf)); T(umask(077)); T(umask(022));
  T(rename("w/m", "w/no/x")); T(rename("w/no", "w/q")); T(link("w/no", "w/q"));
  T(symlink("x", "w/s")); T(posix_fallocate(fd, 0, 100)); T(fstat(fd, &st)); T(st.st_size);
  T(fsync(fd)); T(chown("w", -1, -1)); T(unlink("w/c")); T(unlink("w/c")); T(chdir("w/no"));
  T(read(open("/dev/zero", O_RDONLY), b, 10)); T(write(open("/dev/full", O_WRONLY), b, 1));
  return 0;
}
"""

OTHERS = r"""
int main(void) {
  char *m; T((m = mmap(0, 20000, PROT_READ | PROT_WRITE, ANON, -1, 0)) != MAP_FAILED);
  m[19999] = 1; T(mprotect(m, 8192, PROT_READ)); T(munmap(m + 8192, 8192));
  T((char *)mmap(m + 8192, 8192, 3, MAP_FIXED | ANON, -1, 0) == m + 8192); T(m[19999]);
  T(mmap(m, 0, 3, ANON, -1, 0) == MAP_FAILED);
  T(mmap(0, 8192, 3, MAP_PRIVATE, -1, 0) == MAP_FAILED);
  T(munmap(m + 1, 5)); T(madvise(m, 8192, MADV_DONTNEED));
  T((m = mremap(m + 16384, 8192, 1 << 20, MREMAP_MAYMOVE)) != MAP_FAILED); T(m[3615]);
  struct rlimit rl; T(getrlimit(RLIMIT_NOFILE, &rl)); struct rusage ru; T(getrusage(0, &ru));
  struct tms tm; T(times(&tm) != -1); struct utsname un; T(uname(&un)); puts(un.machine);
  struct timespec t; T(clock_gettime(0, &t)); T(clock_gettime(1, &t)); T(clock_gettime(2, &t));
  T(clock_gettime(99, &t)); T(clock_getres(0, &t)); t.tv_sec = 0; t.tv_nsec = 1000;
  T(nanosleep(&t, 0)); t.tv_nsec = 2000000000; T(nanosleep(&t, 0));
  struct timeval tv; T(gettimeofday(&tv, 0)); T(time(0) > 1000000000); T(usleep(10));
  T(kill(getpid(), 0)); T(kill(99999999, 0)); signal(SIGUSR1, handler); T(raise(SIGUSR1));
  T(got == SIGUSR1); sigset_t ss, os; sigemptyset(&ss); sigaddset(&ss, SIGUSR2);
  T(sigprocmask(SIG_BLOCK, &ss, &os)); signal(SIGUSR2, handler); T(raise(SIGUSR2));
  T(got == SIGUSR1); T(sigpending(&os)); T(sigismember(&os, SIGUSR2)); sigemptyset(&ss);
  T(sigsuspend(&ss)); T(got == SIGUSR2); T(sigprocmask(SIG_SETMASK, &ss, &os));
  T(sigismember(&os, SIGUSR2)); struct sigaction sa; T(sigaction(SIGUSR1, 0, &sa));
  T(sa.sa_handler == handler); T(sigaction(SIGKILL, &sa, 0));
  stack_t sk = {.ss_sp = malloc(16384), .ss_size = 16384}; T(sigaltstack(&sk, 0));
  T(sigaltstack(0, &sk)); T(sk.ss_size); T(getrandom(b, 10, 0)); T(prctl(PR_SET_NAME, "abc"));
  T(prctl(PR_GET_NAME, b)); puts(b); T(sched_yield()); T(getcwd(b, 3) == 0); T(alarm(0));
  int fx = 1; struct timespec ft = {0, 1000}; T(syscall(SYS_futex, &fx, FUTEX_WAKE, 1, 0, 0, 0));
  T(syscall(SYS_futex, &fx, FUTEX_WAIT, 0, 0, 0, 0));
  T(syscall(SYS_set_robust_list, b, sizeof(void *) * 3)); T(getpriority(PRIO_PROCESS, 0));
  return 0;
}
"""

WORK = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(int argc, char **argv) {
  int n = 300, *a = malloc(n * sizeof *a), lines = 0;
  unsigned s = 1;
  for (int i = 0; i < n; i++) { s = s * 1103515245 + 12345; a[i] = s >> 8; }
  qsort(a, n, sizeof *a, compare);
  char *big = malloc(500000), line[100];
  memset(big, 1, 500000);
  big = realloc(big, 2000000);
  while (fgets(line, sizeof line, stdin)) lines += strlen(line);
  FILE *f = fopen("data", "r");
  double x = 0;
  while (f && fgets(line, sizeof line, f)) x += sqrt(atoi(line));
  fprintf(stderr, "%d lines\n", lines);
  printf("%d %.6f %d %s\n", a[5], x, argc, getenv("HOME"));
  free(big);
  return 7;
}
"""


def run_here(
    program: Program, root: Path, arguments: list[str], stdin: bytes
) -> tuple[RunResult, bytes, bytes]:
    """Run on the machine in a directory, with HOME=/home."""
    out, err = bytearray(), bytearray()
    reader, writer = os.pipe()
    os.write(writer, stdin)
    os.close(writer)
    host = Host(root, writable=root, program=program.path, stdin=reader, stdout=out, stderr=err)
    machine = Machine(
        program,
        arguments=[os.fsencode(argument) for argument in arguments],
        environment=[b"HOME=/home"],
        host=host,
    )
    try:
        return machine.run(), bytes(out), bytes(err)
    finally:
        host.dispose()
        os.close(reader)


def run_qemu(
    emulator: str, options: list[str], path: Path, root: Path, arguments: list[str], stdin: bytes
) -> subprocess.CompletedProcess[bytes]:
    command = ["env", "-i", "HOME=/home", emulator, *options, str(path), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, cwd=root, check=False)


@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(("width", "flags"), WIDTHS)
@pytest.mark.parametrize("body", [FILES, OTHERS], ids=["files", "others"])
def test_calls_answer_as_under_qemu(
    compile_c: Callable[..., Path],
    tmp_path: Path,
    width: str,
    flags: tuple[str, ...],
    body: str,
) -> None:
    path = compile_c(PRELUDE + body, flags=("-O1", "-w", *flags), width=width)
    roots = [tmp_path / "qemu", tmp_path / "here"]
    for root in roots:
        (root / "w").mkdir(parents=True)
    expected = run_qemu(EMULATORS[width], [], path, roots[0], [], b"")
    result, output, errors = run_here(elf.load(path), roots[1], [], b"")
    assert expected.returncode == result.status == 0
    assert errors == b""
    assert output.decode().splitlines() == expected.stdout.decode().splitlines()
    assert output.count(b"\n") > 50


TRACE = re.compile(rb"^Trace \d+: 0x[0-9a-f]+ \[([0-9a-f]+)/([0-9a-f]+)/")


def count_under_qemu(log: Path, program: Program) -> int:
    """Instructions in a single-step log; a window trap makes qemu log an instruction twice."""
    total = 0
    previous = None
    with log.open("rb") as lines:
        for line in lines:
            found = TRACE.match(line)
            if found is None:
                continue
            position = found.groups()
            if position == previous and is_window_instruction(program, int(position[1], 16)):
                continue
            total += 1
            previous = position
    return total


def is_window_instruction(program: Program, pc: int) -> bool:
    """Whether the word at `pc` is save, restore or return."""
    for segment in program.segments:
        offset = pc - segment.address
        if 0 <= offset < len(segment.data):
            word = int.from_bytes(segment.data[offset : offset + 4], "big")
            return word >> 30 == 2 and (word >> 19) & 0x3F in (0x39, 0x3C, 0x3D)
    return False


@pytest.mark.long
@pytest.mark.toolchain
@pytest.mark.qemu
@pytest.mark.parametrize(("width", "arguments"), turns(EMULATORS, [[], ["one", "two words"]]))
def test_instruction_counts_are_qemus(
    compile_c: Callable[..., Path], tmp_path: Path, width: str, arguments: list[str]
) -> None:
    """Start-up, qsort, malloc, stdio and printf of the C library, to the last instruction."""
    path = compile_c(WORK, flags=("-O1", "-lm"), width=width)
    (tmp_path / "data").write_text("".join(f"{n}\n" for n in range(40)))
    program = elf.load(path)
    log = tmp_path.parent / f"{tmp_path.name}.log"
    options = ["-singlestep", "-d", "exec,nochain", "-D", str(log)]
    stdin = b"some\nlines of\ninput\n"
    expected = run_qemu(EMULATORS[width], options, path, tmp_path, arguments, stdin)
    result, output, errors = run_here(program, tmp_path, arguments, stdin)
    assert (result.status, output, errors) == (7, expected.stdout, expected.stderr)
    assert b"lines" in errors
    assert result.instructions == count_under_qemu(log, program)
