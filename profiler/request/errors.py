"""Errors of the profiler."""

from simprof.simulator.errors import SimulatorError


class CountError(SimulatorError):
    """Two derivations of one count disagree: a defect of simprof."""


class SelfCheckError(SimulatorError):
    """A validator of `--self-check` failed: a defect of simprof."""


class ProfileMismatchError(SimulatorError):
    """A profile belongs to another program."""
