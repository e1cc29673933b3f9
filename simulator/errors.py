"""Errors a user can act on.

Every error that simprof raises on purpose descends from `SimulatorError`. Its message is one
line: what went wrong, where, and what to do about it. The command line prints that line and
exits with `exit_status`; it never shows a traceback for these.
"""


class SimulatorError(Exception):
    """Root of all deliberate errors; the message is one line for the user."""

    exit_status = 125


class ProgramFileError(SimulatorError):
    """The file is not a SPARC ELF program that can be run."""


class EngineError(SimulatorError):
    """The emulator is missing, of an unknown build, or failed its self-test."""


class UnsupportedError(SimulatorError):
    """The program asks for something that simprof does not emulate (threads, sockets, ...)."""


class UsageError(SimulatorError):
    """An option, or a file named by one, cannot be used."""


class RewritingError(SimulatorError):
    """A program that cannot be rewritten with certainty."""
