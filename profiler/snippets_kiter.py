"""Code of the actions of kiter plans."""

from __future__ import annotations

from profiler.writer import Generators

GENERATORS: Generators = {}
