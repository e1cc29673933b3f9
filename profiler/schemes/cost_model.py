"""The version of what the instructions of a scheme cost: a digest of source files."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from simprof.profiler.profiles.documents import OWN_VERSION
from simprof.profiler.profiles.profile import Origin
from simprof.profiler.schemes import registry

# A cost is counted in generated code, which follows from a plan and from what generates it. So the
# version changes with every edit there, though most change no cost: baselines tell which do.
GENERATION = 2  # Counts revisions of what a version means
_DIGITS = 12
_SCHEMES = "simprof.profiler.schemes"  # A module right in it is a scheme (`pp`)
# Packages that generate the code of every scheme. All of `isa` is among them, as liveness decides
# which registers are free, and reads instructions for that.
_SHARED = ("simprof.profiler.code", "simprof.simulator.isa")
# What a scheme's file says where it takes code from another scheme, as `ppp` does from `tpp`.
_SCHEME = re.compile(rb"simprof\.profiler\.schemes\.\w+")


def this_simprof() -> Origin:
    """Return which simprof measures now."""
    return Origin(OWN_VERSION, own_cost_version())


@cache
def own_cost_version() -> str:
    """Return the version of simprof's own schemes together, "2-0123456789ab".

    Schemes of other distributions are not part of it: it is the same wherever simprof is installed.
    """
    return _version(scheme.mode for scheme in registry.OWN)


@cache
def cost_version(mode: str) -> str:
    """Return the version of one mode; UsageError if none is there that can be used."""
    return _version([mode])


def _version(modes: Iterable[str]) -> str:
    digests: dict[str, bytes] = {}
    for mode in modes:
        digests |= files_of(mode)
    digest = hashlib.sha256()
    for name in sorted(digests):
        digest.update(f"{name}\0".encode() + digests[name])
    return f"{GENERATION}-{digest.hexdigest()[:_DIGITS]}"


def files_of(mode: str) -> Mapping[str, bytes]:
    """Return the digests of the files that generate a mode's code, none if it has none."""
    home = registry.home(mode)
    if home is None:
        return {}
    digests: dict[str, bytes] = {}
    packages = [*_SHARED, home]
    for package in packages:  # which grows by the schemes that files of these name
        found, schemes = _digests(package)
        digests |= found
        packages += [name for name in schemes if name not in packages]
    return digests


@cache
def _digests(module: str) -> tuple[Mapping[str, bytes], tuple[str, ...]]:
    """Return the digests of a module's files by name, and the packages of schemes they name."""
    digests, schemes = {}, set[str]()
    for name, path in _sources(module):
        content = path.read_bytes()
        digests[name] = hashlib.sha256(content).digest()
        schemes.update(map(bytes.decode, _SCHEME.findall(content)))
    return digests, tuple(sorted(filter(_is_package, schemes)))


def _sources(module: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of the package that a module is or lies in, or its own, as far as found.

    Names are those of modules, so that they are the same wherever a package is installed.
    """
    spec = _spec(module)
    is_file = spec is not None and spec.submodule_search_locations is None
    if spec is not None and is_file and spec.parent and spec.parent != _SCHEMES:
        spec = _spec(spec.parent)
    if spec is None:
        return
    name, places = spec.name.replace(".", "/"), spec.submodule_search_locations
    found = [(f"{name}.py", Path(spec.origin or ""))] if places is None else []
    for place in places or ():
        for directory, _, files in os.walk(place):  # twice as fast as `rglob`
            below = f"{name}{directory.removeprefix(place)}".replace(os.sep, "/")
            found += ((f"{below}/{file}", Path(directory, file)) for file in files)
    # Not among them: modules in archives, in machine code, and locks of editors that end in .py
    yield from ((name, path) for name, path in found if path.suffix == ".py" and path.is_file())


def _is_package(module: str) -> bool:
    spec = _spec(module)
    return spec is not None and spec.submodule_search_locations is not None


def _spec(module: str) -> ModuleSpec | None:
    try:
        return find_spec(module)
    except (ImportError, ValueError):  # ValueError: it was not imported from anywhere
        return None
