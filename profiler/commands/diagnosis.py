"""What `simprof doctor` finds, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SystemCheck:
    """One thing looked at. `remedy`: the one command that would make it right."""

    name: str
    ok: bool
    required: bool
    detail: str
    remedy: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    """All checks, in order."""

    checks: tuple[SystemCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether runs work."""
        return all(check.ok for check in self.checks if check.required)
