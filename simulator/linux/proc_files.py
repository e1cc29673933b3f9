"""Files of /proc/self, as Linux would write them of a process that has a processor of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from simprof.simulator.binary.program import PAGE_SIZE
from simprof.simulator.cpu.address_space import Protection
from simprof.simulator.linux.outside import USER
from simprof.simulator.linux.process import CLOCK_TICKS, PARENT_ID
from simprof.simulator.linux.sandbox import PROCESS_ID
from simprof.simulator.linux.signals import MOST_QUEUED
from simprof.simulator.linux.structures import SECOND
from simprof.simulator.linux.task import UPTIME, Task

_IGNORED: Final = 1  # the handler of an ignored signal
_SIGNALS: Final = 64
_SIGCHLD: Final = 20
_USUAL_PRIORITY: Final = 20
_NO_LIMIT: Final = (1 << 64) - 1
_DESCRIPTORS: Final = 64  # that the kernel makes room for at first


# What depends on the machine there follows from the program's run here, so that it is the same
# everywhere: every page that is mapped counts as resident, of the stack those that have been
# reached.
def _maps(task: Task) -> bytes:
    lines = []
    stack = task.guest.stack_pointer()
    program = task.host.read_link(None, b"/proc/self/exe")
    for mapping in task.guest.memory.mappings():
        rights = mapping.protection
        letters = "".join(
            letter if rights & bit else "-" for letter, bit in zip("rwx", Protection, strict=True)
        )
        line = f"{mapping.start:08x}-{mapping.end:08x} {letters}p 00000000 00:00 0"
        name = b""
        if mapping.start <= stack < mapping.end:
            name = b" [stack]"
        elif mapping.start < task.guest.memory.program_break <= mapping.end + PAGE_SIZE:
            name = b" [heap]"
        elif rights & Protection.EXECUTE:
            name = b" " + program if isinstance(program, bytes) else b""
        lines.append(line.encode() + name + b"\n")
    return b"".join(lines)


class _Sizes:
    def __init__(self, task: Task) -> None:
        pointer = task.guest.stack_pointer()
        self.code = self.data = self.stack = self.all = 0
        self.code_start = self.code_end = 0
        for mapping in task.guest.memory.mappings():
            size = mapping.end - mapping.start
            if mapping.start <= pointer < mapping.end:
                self.stack = size = mapping.end - pointer // PAGE_SIZE * PAGE_SIZE
            elif mapping.protection & Protection.EXECUTE:
                self.code_start = self.code_start or mapping.start
                self.code_end = self.code_end or mapping.end
                self.code += size
            elif mapping.protection & Protection.WRITE:
                self.data += size
            self.all += size


def _signal_masks(task: Task) -> tuple[int, int, int]:
    signals, ignored, caught = task.guest.signals, 0, 0
    for number in range(1, _SIGNALS + 1):
        handler = signals.action(number).handler
        if handler == _IGNORED:
            ignored |= 1 << (number - 1)
        elif handler:
            caught |= 1 << (number - 1)
    return signals.blocked, ignored, caught


def _status(task: Task) -> bytes:
    sizes = _Sizes(task)
    signals, (blocked, ignored, caught) = task.guest.signals, _signal_masks(task)
    users = "\t".join([str(USER)] * 4)
    memory = {
        **dict.fromkeys(("VmPeak", "VmSize"), sizes.all),
        **dict.fromkeys(("VmLck", "VmPin"), 0),
        **dict.fromkeys(("VmHWM", "VmRSS", "RssAnon"), sizes.all),
        **dict.fromkeys(("RssFile", "RssShmem"), 0),
        "VmData": sizes.data,
        "VmStk": sizes.stack,
        "VmExe": sizes.code,
        **dict.fromkeys(("VmLib", "VmPTE", "VmSwap"), 0),
    }
    rows = {
        "Name": _name(task).decode("latin-1"),
        "Umask": f"{task.umask:04o}",
        "State": "R (running)",
        "Tgid": PROCESS_ID,
        "Ngid": 0,
        "Pid": PROCESS_ID,
        "PPid": PARENT_ID,
        "TracerPid": 0,
        "Uid": users,
        "Gid": users,
        "FDSize": max(_DESCRIPTORS, *(number + 1 for number in (0, *task.descriptors.numbers()))),
        "Groups": " ",
        **{name: f"{size // 1024:8} kB" for name, size in memory.items()},
        "Threads": len(task.guest.threads.alive),
        "SigQ": f"{signals.queued}/{MOST_QUEUED}",
        "SigPnd": f"{signals.own_pending:016x}",
        "ShdPnd": f"{signals.shared_pending:016x}",
        "SigBlk": f"{blocked:016x}",
        "SigIgn": f"{ignored:016x}",
        "SigCgt": f"{caught:016x}",
        **{f"Cap{name}": f"{0:016x}" for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")},
        "NoNewPrivs": 0,
        "Seccomp": 0,
        "Cpus_allowed": 1,
        "Cpus_allowed_list": 0,
        "voluntary_ctxt_switches": 0,
        "nonvoluntary_ctxt_switches": 0,
    }
    return "".join(f"{name}:\t{value}\n" for name, value in rows.items()).encode("latin-1")


def _stat(task: Task) -> bytes:
    sizes = _Sizes(task)
    masks = (mask & 0x7FFFFFFF for mask in (task.guest.signals.pending, *_signal_masks(task)))
    ticks = task.cpu_time // (SECOND // CLOCK_TICKS)
    started = UPTIME // (SECOND // CLOCK_TICKS)
    fields = (
        PARENT_ID,
        *(PROCESS_ID, PROCESS_ID, 0, -1),  # group, session, no terminal
        *(0, 0, 0, 0, 0),  # flags, page faults
        *(ticks, 0, 0, 0),
        *(_USUAL_PRIORITY, 0, len(task.guest.threads.alive), 0, started),
        *(sizes.all, sizes.all // PAGE_SIZE, _NO_LIMIT),
        *(sizes.code_start, sizes.code_end, task.stack_top),
        *(task.guest.stack_pointer(), task.guest.pc),
        *masks,
        *(0, 0, 0, _SIGCHLD, 0, 0, 0, 0, 0, 0),  # from the wait channel to the guests' time
        *(0, 0, task.guest.memory.program_break, 0, 0, 0, 0, 0),
    )
    head = b"%d (%s) R " % (PROCESS_ID, _name(task))
    return head + " ".join(map(str, fields)).encode() + b"\n"


def _name(task: Task) -> bytes:
    return task.name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")


# What is in a file, by its name in /proc/self.
FILES: Final[dict[str, Callable[[Task], bytes]]] = {
    "maps": _maps,
    "cmdline": lambda task: b"".join(argument + b"\0" for argument in task.arguments),
    "status": _status,
    "stat": _stat,
}
