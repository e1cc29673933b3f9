"""Errors of the profiler."""

from simprof.simulator.errors import SimulatorError, UsageError


class CountError(SimulatorError):
    """Two derivations of one count disagree: a defect of simprof."""


class SelfCheckError(SimulatorError):
    """A validator of `--self-check` failed: a defect of simprof."""


class CounterRoomError(UsageError):
    """The counters of a scheme do not fit their memory."""


class ProfileMismatchError(SimulatorError):
    """A profile belongs to another program."""
