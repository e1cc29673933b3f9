"""Code of the actions of logging plans."""

from __future__ import annotations

from profiler.writer import Generators

GENERATORS: Generators = {}
