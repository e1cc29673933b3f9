"""A target that executes changed programs: each in a process of its own, as users do.

What native code does with damaged instructions shows here only: it may crash, or never return.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Hashable
from pathlib import Path
from random import Random

from elftools.elf.elffile import ELFFile

from simprof.simulator.errors import UsageError
from tools.fuzzing import commands, corpus
from tools.fuzzing.programs import word_of_code
from tools.fuzzing.trial import MEMORY_LIMIT
from tools.fuzzing.worker import Target

BUDGET = 2_000_000
"""Instructions that a program may execute."""
SECONDS = 50
"""Of wall-clock time until a command must have ended, whose run may last a tenth of that: what
watches workers is more patient still (`campaign.PATIENCE`), and the machine may be busy."""
_START = """\
import resource, sys
_, most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (most, most))  # that of the worker is for its own inputs
from simprof.profiler.cli import main
sys.exit(main())
"""
_LIMITS = f"--max-instructions={BUDGET}"


def read_running(data: bytes, where: Path) -> Hashable:
    """Run a program; a message must be one line, an answer whole or absent."""
    program, answer = where / "fuzzed.elf", where / "answer.json"
    program.write_bytes(data)
    answer.unlink(missing_ok=True)
    options = [_LIMITS, f"--timeout={SECONDS / 10}", "--no-cache", "--mode=pp", f"--json={answer}"]
    errors = where / "errors"
    command = [sys.executable, "-c", _START, "run", *options, str(program)]
    with errors.open("wb") as written:
        process = subprocess.Popen(
            command, cwd=commands.ROOT, stderr=written,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    status = _watched(process)
    told = errors.read_text(errors="replace").splitlines()
    message = next((line for line in reversed(told) if line.startswith("simprof: ")), "")
    if status < 0:
        raise RuntimeError(f"simprof ended by signal {-status}: {told[-1:]}")
    if any(line.startswith("Traceback") for line in told):
        raise RuntimeError("\n".join(told[-30:]))
    if not answer.exists():
        if status != 125 or not message:
            raise RuntimeError(f"status {status}, no answer and no message: {told[-5:]}")
        raise UsageError(message)
    ended = json.loads(answer.read_text())["exit"]
    return ended["reason"], ended.get("signal"), status == 125


def _watched(process: subprocess.Popen[bytes]) -> int:
    """Return the exit status of a process that takes neither too long nor too much memory."""
    from simprof.profiler.experiments.cells.run import peak_memory

    deadline = time.monotonic() + SECONDS
    try:
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"more than {SECONDS} seconds")
            if peak_memory(process.pid) > MEMORY_LIMIT:
                raise MemoryError(f"more than {MEMORY_LIMIT >> 20} MiB of memory")
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    return process.returncode


def mutate_words(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change words of a program's code in the ways of code."""
    result = bytearray(data)
    text = ELFFile(io.BytesIO(data)).get_section_by_name(".text")
    assert text is not None
    start, end = text["sh_offset"], text["sh_offset"] + text["sh_size"]
    for _ in range(1 + int(rng.expovariate(0.3))):
        at = rng.randrange(start, end) & ~3
        result[at : at + 4] = word_of_code(rng, data, at).to_bytes(4, "big")
    return bytes(result)


TARGETS = (
    Target("emulator", "changed programs, executed", read_running, mutate_words,
           commands.prepare, example=corpus.reader("emulator", "v9.elf")),
)  # fmt: skip
