"""Runs in a process of their own, which a crash of the emulator ends instead of the caller's.

The process is asked with a request, and answers with what profile files hold, so that nothing that
a hostile program may have made of it is executed here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from multiprocessing.connection import Connection

from msgspec.structs import replace

from simprof.profiler.profiles import storage
from simprof.profiler.request.request import RunRequest, Setting
from simprof.profiler.session.observation import SchemeComparison
from simprof.profiler.session.pool import Spawned
from simprof.simulator import errors


def compare_isolated(
    request: RunRequest, settings: Sequence[Setting], *, jobs: int = 1
) -> SchemeComparison:
    """Measure several schemes as `session.compare_program` does, in a process of its own.

    Raises SimulatorError: what that process raised, or how it ended if it did not answer.
    """
    guest = request.guest
    asked = replace(request, progress=None)
    process = Spawned(_serve, asked, settings, jobs, files=(guest.stdout, guest.stderr))
    try:
        head = json.loads(process.pipe.recv_bytes())
        if "error" in head:
            raise _error(*head["error"])
        name = f"the measurement of {request.program}"
        measurements = tuple(
            storage.from_bytes(process.pipe.recv_bytes(), name) for _ in range(head["measurements"])
        )
    except (EOFError, OSError):
        how = process.dismiss()
        raise errors.EngineError(f"{request.program}: the process that ran it {how}") from None
    finally:
        process.kill()
    refused = {settings[at]: why for at, why in head["refused"]}
    return SchemeComparison(
        measurements,
        head["emulations"],
        head["whole_emulations"],
        tuple(head["reasons"]),
        refused=refused,
    )


def _error(kind: str, text: str) -> errors.SimulatorError:
    """Return the error of simprof that has this name.

    Examples
    --------
    >>> _error("UsageError", "there is no such file"), _error("KeyError", "a defect")
    (UsageError('there is no such file'), SimulatorError('a defect'))
    """
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, errors.SimulatorError):
        return found(text)
    return errors.SimulatorError(text)


def _serve(pipe: Connection, request: RunRequest, settings: Sequence[Setting], jobs: int) -> None:
    """Measure, and send what comes of it: a head, and then the measurements."""
    from simprof.profiler.session.session import compare_program

    try:
        found = compare_program(request, settings, jobs=jobs)
    except Exception as error:
        kind, text = type(error).__name__, str(error)
        if not isinstance(error, errors.SimulatorError):
            text = f"{request.program}: internal error ({kind}: {text}): please report it"
        pipe.send_bytes(json.dumps({"error": [kind, " ".join(text.split())]}).encode())
        return
    head = {
        "measurements": len(found.measurements),
        "emulations": found.emulations,
        "whole_emulations": found.whole_emulations,
        "reasons": found.reasons,
        "refused": [(settings.index(each), why) for each, why in found.refused.items()],
    }
    pipe.send_bytes(json.dumps(head).encode())
    for measurement in found.measurements:
        pipe.send_bytes(storage.to_bytes(measurement))
