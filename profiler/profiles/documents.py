"""What JSON documents of simprof begin with: format, the format's version, simprof's own version.

`simprof/schemas/FORMAT.json` describes each format in JSON Schema (draft 2020-12). A version counts
up when a key goes, gets another name or another meaning; a new key leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import metadata
from types import MappingProxyType

VERSIONS: Mapping[str, int] = MappingProxyType(
    {
        "run": 3,
        "compare": 3,
        "routines": 2,
        "edges": 2,
        "paths": 2,
        "source": 2,
        "diff": 2,
        "cfg": 2,
        "regenerate": 2,
        "instrument": 2,
        "verify": 2,
        "regress": 2,
        "tables": 2,
        "doctor": 2,
    }
)
"""Format -> its version."""

COST_MODEL = "1-4e51f323d1db"
"""Version of the cost model. `schemes.cost_model` takes a second to make it; a test compares."""


@cache
def own_version() -> str:
    """Return the version of simprof that is installed."""
    return metadata.version("simprof")


def head(name: str) -> dict[str, object]:
    """Return the first keys of a document of the format `name`."""
    return {"format": f"simprof/{name}", "version": VERSIONS[name], "simprof": own_version()}
