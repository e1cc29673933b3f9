"""Code of the actions of trace plans."""

from __future__ import annotations

from profiler.writer import Generators

GENERATORS: Generators = {}
