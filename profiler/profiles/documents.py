"""Heads of simprof's JSON documents: `head`, and of results `result_head`.

`simprof/schemas/FORMAT.json` describes each format in JSON Schema (draft 2020-12). A version counts
up when a key goes, gets another name or another meaning; a new key leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import asdict

from simprof.profiler import OWN_VERSION as OWN_VERSION
from simprof.profiler.profiles.profile import Origin

# Format -> its version.
VERSIONS: Mapping[str, int] = MappingProxyType({
    "run": 4, "compare": 4, "routines": 2, "edges": 2, "paths": 2, "source": 2, "tree": 1,
    "diff": 2, "cfg": 2, "read": 3, "subpaths": 1, "instrument": 3, "verify": 2, "regress": 2,
    "tables": 2,
    "doctor": 2,
})  # fmt: skip


def head(name: str) -> dict[str, object]:
    """Return the first keys of a document of the format `name`."""
    return {"format": f"simprof/{name}", "version": VERSIONS[name], "simprof": OWN_VERSION}


def result_head(
    name: str | None,  # Of the format; None for an object inside a document, which has a format.
    program: Mapping[str, object],
    input_sha256: str | None,  # Of the file that was its standard input, as far as it is known
    # Of one mode: what `schemes.mode_options.setting_object` returns
    setting: Mapping[str, object] | None = None,
    *,
    measured_by: Origin | None,  # None where an old profile does not say it
) -> dict[str, object]:
    """Return the first keys of a document about a program: who measured what."""
    return {
        **({} if name is None else head(name)),
        "measured_by": measured_by and asdict(measured_by),
        "program": program,
        "input_sha256": input_sha256,
        **(setting or {}),
    }
