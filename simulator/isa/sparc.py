"""SPARC and Linux/SPARC as data: registers, ABI, system call, errno and signal numbers.

Numbers are those of Linux's `arch/sparc/include/uapi/asm` headers.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

STACK_BIAS_64 = 2047  # 64-bit frames lie at %sp + 2047 (SPARC V9 ABI)

# Number of the software trap of Linux's system calls, by whether the program has 64 bits.
SYSTEM_CALL_TRAP: Mapping[bool, int] = MappingProxyType({True: 0x6D, False: 0x10})

WINDOW_SAVE_WORDS = 16  # words of the register save area at the bottom of every frame


class LoadStore(NamedTuple):
    """A load or store instruction."""

    name: str  # GNU's mnemonic, that of floating-point registers with an f
    size: int  # bytes; 0: none that a program sees
    loads: bool = True
    stores: bool = False
    signed: bool = False
    floating: bool = False


def _load(name: str, size: int, *, signed: bool = False) -> LoadStore:
    return LoadStore(name, size, signed=signed, floating="f" in name)


def _store(name: str, size: int) -> LoadStore:
    return LoadStore(name, size, loads=False, stores=True, floating="f" in name)


# op3 of format 3 with op = 3 -> what it does. Alternate spaces (all but %fsr's) have bit 4 set.
LOADS_AND_STORES: Mapping[int, LoadStore] = {
    0x00: _load("ld", 4), 0x01: _load("ldub", 1), 0x02: _load("lduh", 2), 0x03: _load("ldd", 8),
    0x04: _store("st", 4), 0x05: _store("stb", 1), 0x06: _store("sth", 2), 0x07: _store("std", 8),
    0x08: _load("ldsw", 4, signed=True), 0x09: _load("ldsb", 1, signed=True),
    0x0A: _load("ldsh", 2, signed=True), 0x0B: _load("ldx", 8),
    0x0D: LoadStore("ldstub", 1, stores=True), 0x0E: _store("stx", 8),
    0x0F: LoadStore("swap", 4, stores=True),
    0x20: _load("ldf", 4), 0x21: _load("ldfsr", 4), 0x22: _load("ldqf", 16),
    0x23: _load("lddf", 8), 0x24: _store("stf", 4), 0x25: _store("stfsr", 8),
    0x26: _store("stqf", 16), 0x27: _store("stdf", 8), 0x2D: LoadStore("prefetch", 0),
    0x3C: LoadStore("casa", 4, stores=True), 0x3E: LoadStore("casxa", 8, stores=True),
}  # fmt: skip


def _table(text: str) -> dict[str, str]:
    return dict(item.split(":") for item in text.split())


def _calls(*texts: str) -> Mapping[int, str]:
    return MappingProxyType({int(k): v for text in texts for k, v in _table(text).items()})


# Both widths share most system call numbers; where they differ, a name here is the name in that
# width's `unistd` header.
_COMMON_CALLS = """
    0:restart_syscall 1:exit 2:fork 3:read 4:write 5:open 6:close 7:wait4 8:creat 9:link
    10:unlink 11:execv 12:chdir 13:chown 14:mknod 15:chmod 16:lchown 17:brk 18:perfctr 19:lseek
    20:getpid 21:capget 22:capset 23:setuid 24:getuid 25:vmsplice 26:ptrace 27:alarm
    28:sigaltstack 29:pause 30:utime 33:access 34:nice 36:sync 37:kill 38:stat 39:sendfile
    40:lstat 41:dup 42:pipe 43:times 45:umount2 46:setgid 47:getgid 48:signal 49:geteuid
    50:getegid 51:acct 54:ioctl 55:reboot 57:symlink 58:readlink 59:execve 60:umask 61:chroot
    62:fstat 63:fstat64 64:getpagesize 65:msync 66:vfork 67:pread64 68:pwrite64 71:mmap
    73:munmap 74:mprotect 75:madvise 76:vhangup 78:mincore 79:getgroups 80:setgroups 81:getpgrp
    83:setitimer 85:swapon 86:getitimer 88:sethostname 90:dup2 92:fcntl 93:select 95:fsync
    96:setpriority 97:socket 98:connect 99:accept 100:getpriority 101:rt_sigreturn
    102:rt_sigaction 103:rt_sigprocmask 104:rt_sigpending 105:rt_sigtimedwait
    106:rt_sigqueueinfo 107:rt_sigsuspend 113:recvmsg 114:sendmsg 116:gettimeofday 117:getrusage
    118:getsockopt 119:getcwd 120:readv 121:writev 122:settimeofday 123:fchown 124:fchmod
    125:recvfrom 126:setreuid 127:setregid 128:rename 129:truncate 130:ftruncate 131:flock
    132:lstat64 133:sendto 134:shutdown 135:socketpair 136:mkdir 137:rmdir 138:utimes 139:stat64
    140:sendfile64 141:getpeername 142:futex 143:gettid 144:getrlimit 145:setrlimit
    146:pivot_root 147:prctl 148:pciconfig_read 149:pciconfig_write 150:getsockname
    151:inotify_init 152:inotify_add_watch 153:poll 154:getdents64 156:inotify_rm_watch
    157:statfs 158:fstatfs 159:umount 160:sched_set_affinity 161:sched_get_affinity
    162:getdomainname 163:setdomainname 165:quotactl 166:set_tid_address 167:mount 168:ustat
    169:setxattr 170:lsetxattr 171:fsetxattr 172:getxattr 173:lgetxattr 174:getdents 175:setsid
    176:fchdir 177:fgetxattr 178:listxattr 179:llistxattr 180:flistxattr 181:removexattr
    182:lremovexattr 183:sigpending 184:query_module 185:setpgid 186:fremovexattr 187:tkill
    188:exit_group 189:uname 190:init_module 191:personality 192:remap_file_pages
    193:epoll_create 194:epoll_ctl 195:epoll_wait 196:ioprio_set 197:getppid 198:sigaction
    199:sgetmask 200:ssetmask 201:sigsuspend 202:oldlstat 203:uselib 204:readdir 205:readahead
    206:socketcall 207:syslog 208:lookup_dcookie 209:fadvise64 210:fadvise64_64 211:tgkill
    212:waitpid 213:swapoff 214:sysinfo 215:ipc 216:sigreturn 217:clone 218:ioprio_get
    219:adjtimex 220:sigprocmask 221:create_module 222:delete_module 223:get_kernel_syms
    224:getpgid 225:bdflush 226:sysfs 227:afs_syscall 228:setfsuid 229:setfsgid 230:_newselect
    232:splice 233:stime 234:statfs64 235:fstatfs64 236:_llseek 237:mlock 238:munlock
    239:mlockall 240:munlockall 241:sched_setparam 242:sched_getparam 243:sched_setscheduler
    244:sched_getscheduler 245:sched_yield 246:sched_get_priority_max 247:sched_get_priority_min
    248:sched_rr_get_interval 249:nanosleep 250:mremap 251:_sysctl 252:getsid 253:fdatasync
    254:nfsservctl 255:sync_file_range 256:clock_settime 257:clock_gettime 258:clock_getres
    259:clock_nanosleep 260:sched_getaffinity 261:sched_setaffinity 262:timer_settime
    263:timer_gettime 264:timer_getoverrun 265:timer_delete 266:timer_create 267:vserver
    268:io_setup 269:io_destroy 270:io_submit 271:io_cancel 272:io_getevents 273:mq_open
    274:mq_unlink 275:mq_timedsend 276:mq_timedreceive 277:mq_notify 278:mq_getsetattr
    279:waitid 280:tee 281:add_key 282:request_key 283:keyctl 284:openat 285:mkdirat 286:mknodat
    287:fchownat 288:futimesat 289:fstatat64 290:unlinkat 291:renameat 292:linkat 293:symlinkat
    294:readlinkat 295:fchmodat 296:faccessat 297:pselect6 298:ppoll 299:unshare
    300:set_robust_list 301:get_robust_list 302:migrate_pages 303:mbind 304:get_mempolicy
    305:set_mempolicy 306:kexec_load 307:move_pages 308:getcpu 309:epoll_pwait 310:utimensat
    311:signalfd 312:timerfd_create 313:eventfd 314:fallocate 315:timerfd_settime
    316:timerfd_gettime 317:signalfd4 318:eventfd2 319:epoll_create1 320:dup3 321:pipe2
    322:inotify_init1 323:accept4 324:preadv 325:pwritev 326:rt_tgsigqueueinfo
    327:perf_event_open 328:recvmmsg 329:fanotify_init 330:fanotify_mark 331:prlimit64
    332:name_to_handle_at 333:open_by_handle_at 334:clock_adjtime 335:syncfs 336:sendmmsg
    337:setns 338:process_vm_readv 339:process_vm_writev 340:kern_features 341:kcmp
    342:finit_module 343:sched_setattr 344:sched_getattr 345:renameat2 346:seccomp 347:getrandom
    348:memfd_create 349:bpf 350:execveat 351:membarrier 352:userfaultfd 353:bind 354:listen
    355:setsockopt 356:mlock2 357:copy_file_range 358:preadv2 359:pwritev2 360:statx
    361:io_pgetevents 362:pkey_mprotect 363:pkey_alloc 364:pkey_free 365:rseq 393:semget
    394:semctl 395:shmget 396:shmctl 397:shmat 398:shmdt 399:msgget 400:msgsnd 401:msgrcv
    402:msgctl 424:pidfd_send_signal 425:io_uring_setup 426:io_uring_enter 427:io_uring_register
    428:open_tree 429:move_mount 430:fsopen 431:fsconfig 432:fsmount 433:fspick 434:pidfd_open
    436:close_range 437:openat2 438:pidfd_getfd 439:faccessat2 440:process_madvise
    441:epoll_pwait2 442:mount_setattr 443:quotactl_fd 444:landlock_create_ruleset
    445:landlock_add_rule 446:landlock_restrict_self 448:process_mrelease 449:futex_waitv
    450:set_mempolicy_home_node
"""

_CALLS_64 = """
    52:memory_ordering 108:setresuid 109:getresuid 110:setresgid 111:getresgid 164:utrap_install
    392:semtimedop
"""

_CALLS_32 = """
    31:lchown32 32:fchown32 35:chown32 44:getuid32 53:getgid32 56:mmap2 69:geteuid32
    70:getegid32 72:setreuid32 77:truncate64 82:setgroups32 84:ftruncate64 87:setuid32
    89:setgid32 91:setfsuid32 94:setfsgid32 108:setresuid32 109:getresuid32 110:setresgid32
    111:getresgid32 112:setregid32 115:getgroups32 155:fcntl64 231:time 403:clock_gettime64
    404:clock_settime64 405:clock_adjtime64 406:clock_getres_time64 407:clock_nanosleep_time64
    408:timer_gettime64 409:timer_settime64 410:timerfd_gettime64 411:timerfd_settime64
    412:utimensat_time64 413:pselect6_time64 414:ppoll_time64 416:io_pgetevents_time64
    417:recvmmsg_time64 418:mq_timedsend_time64 419:mq_timedreceive_time64 420:semtimedop_time64
    421:rt_sigtimedwait_time64 422:futex_time64 423:sched_rr_get_interval_time64
"""

SYSTEM_CALLS_64 = _calls(_COMMON_CALLS, _CALLS_64)  # name by number, 64-bit programs

SYSTEM_CALLS_32 = _calls(_COMMON_CALLS, _CALLS_32)  # name by number, 32-bit programs

_ERRNO = """
    EPERM:1 ENOENT:2 ESRCH:3 EINTR:4 EIO:5 ENXIO:6 E2BIG:7 ENOEXEC:8 EBADF:9 ECHILD:10 EAGAIN:11
    ENOMEM:12 EACCES:13 EFAULT:14 ENOTBLK:15 EBUSY:16 EEXIST:17 EXDEV:18 ENODEV:19 ENOTDIR:20
    EISDIR:21 EINVAL:22 ENFILE:23 EMFILE:24 ENOTTY:25 ETXTBSY:26 EFBIG:27 ENOSPC:28 ESPIPE:29
    EROFS:30 EMLINK:31 EPIPE:32 EDOM:33 ERANGE:34 EINPROGRESS:36 EALREADY:37 ENOTSOCK:38
    EDESTADDRREQ:39 EMSGSIZE:40 EPROTOTYPE:41 ENOPROTOOPT:42 EPROTONOSUPPORT:43
    ESOCKTNOSUPPORT:44 EOPNOTSUPP:45 EPFNOSUPPORT:46 EAFNOSUPPORT:47 EADDRINUSE:48
    EADDRNOTAVAIL:49 ENETDOWN:50 ENETUNREACH:51 ENETRESET:52 ECONNABORTED:53 ECONNRESET:54
    ENOBUFS:55 EISCONN:56 ENOTCONN:57 ESHUTDOWN:58 ETOOMANYREFS:59 ETIMEDOUT:60 ECONNREFUSED:61
    ELOOP:62 ENAMETOOLONG:63 EHOSTDOWN:64 EHOSTUNREACH:65 ENOTEMPTY:66 EPROCLIM:67 EUSERS:68
    EDQUOT:69 ESTALE:70 EREMOTE:71 ENOSTR:72 ETIME:73 ENOSR:74 ENOMSG:75 EBADMSG:76 EIDRM:77
    EDEADLK:78 ENOLCK:79 ENONET:80 ERREMOTE:81 ENOLINK:82 EADV:83 ESRMNT:84 ECOMM:85 EPROTO:86
    EMULTIHOP:87 EDOTDOT:88 EREMCHG:89 ENOSYS:90 ESTRPIPE:91 EOVERFLOW:92 EBADFD:93 ECHRNG:94
    EL2NSYNC:95 EL3HLT:96 EL3RST:97 ELNRNG:98 EUNATCH:99 ENOCSI:100 EL2HLT:101 EBADE:102
    EBADR:103 EXFULL:104 ENOANO:105 EBADRQC:106 EBADSLT:107 EDEADLOCK:108 EBFONT:109
    ELIBEXEC:110 ENODATA:111 ELIBBAD:112 ENOPKG:113 ELIBACC:114 ENOTUNIQ:115 ERESTART:116
    EUCLEAN:117 ENOTNAM:118 ENAVAIL:119 EISNAM:120 EREMOTEIO:121 EILSEQ:122 ELIBMAX:123
    ELIBSCN:124 ENOMEDIUM:125 EMEDIUMTYPE:126 ECANCELED:127 ENOKEY:128 EKEYEXPIRED:129
    EKEYREVOKED:130 EKEYREJECTED:131 EOWNERDEAD:132 ENOTRECOVERABLE:133 ERFKILL:134
    EHWPOISON:135
"""

# SPARC errno numbers by name.
ERRNO: Mapping[str, int] = MappingProxyType({k: int(v) for k, v in _table(_ERRNO).items()})


def guest_errno(host_errno: int | None) -> int:
    """Return the SPARC number of the host's errno `host_errno` (EIO for unknown ones)."""
    name = errno.errorcode.get(host_errno or 0, "EIO")
    if name == "ENOTSUP":
        name = "EOPNOTSUPP"
    return ERRNO.get(name, ERRNO["EIO"])


_SIGNALS = """
    HUP INT QUIT ILL TRAP ABRT EMT FPE KILL BUS SEGV SYS PIPE ALRM TERM URG STOP TSTP CONT CHLD TTIN
    TTOU IO XCPU XFSZ VTALRM PROF WINCH LOST USR1 USR2
"""

# Signal names by SPARC signal number.
SIGNALS: Mapping[int, str] = MappingProxyType(
    {number: f"SIG{name}" for number, name in enumerate(_SIGNALS.split(), 1)}
)

# Signals whose default action does nothing here (SIGCONT: nothing is ever stopped).
IGNORED_SIGNALS = frozenset({16, 20, 28, 19})

STOP_SIGNALS = frozenset({17, 18, 21, 22})  # signals whose default action stops the process

# System calls that install handlers: rt_sigaction, and in 32-bit programs sigaction.
SIGNAL_ACTION_CALLS = frozenset({102, 198})

# open(2) flags; names as in asm/fcntl.h
O_ACCMODE = 0x3
O_APPEND = 0x8
O_CREAT = 0x200
O_TRUNC = 0x400
O_EXCL = 0x800
O_NONBLOCK = 0x4000
O_NOCTTY = 0x8000
O_DIRECTORY = 0x10000
O_NOFOLLOW = 0x20000
O_CLOEXEC = 0x400000
O_PATH = 0x1000000
O_TMPFILE = 0x2000000

# ioctl requests
FIONREAD = 0x4004667F
FIOCLEX = 0x20006601
FIONCLEX = 0x20006602

# mmap(2), mremap(2)
MAP_SHARED = 0x1
MAP_PRIVATE = 0x2
MAP_TYPE = 0xF
MAP_FIXED = 0x10
MAP_ANONYMOUS = 0x20
MAP_FIXED_NOREPLACE = 0x100000
MREMAP_MAYMOVE = 1
MREMAP_FIXED = 2
