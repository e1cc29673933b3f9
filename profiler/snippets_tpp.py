"""Code of the actions of tpp plans."""

from __future__ import annotations

from profiler.writer import Generators

GENERATORS: Generators = {}
