"""Code of the actions of bits plans."""

from __future__ import annotations

from profiler.writer import Generators

GENERATORS: Generators = {}
