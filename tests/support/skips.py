"""`--strict-skips`: a test that was skipped has shown nothing, so it counts as failed.

What may be skipped all the same is in `allowed_skips.txt`, by its reason.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from pathlib import Path

import pytest

ALLOWED = Path(__file__).resolve().parents[1] / "allowed_skips.txt"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--strict-skips`."""
    parser.addoption(
        "--strict-skips",
        action="store_true",
        help="fail if a test is skipped for a reason that is not in allowed_skips.txt",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Watch for skips, in the process that reports; pytest-xdist's workers only run tests."""
    if config.getoption("--strict-skips") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipWatch(allowed_reasons(ALLOWED.read_text())))


def allowed_reasons(text: str) -> tuple[str, ...]:
    """Return the patterns of a list, without its empty lines and comments."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


class SkipWatch:
    """Collects what is skipped for other reasons than those allowed, and fails the run for it."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allowed = allowed
        self._found: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Look at one test's outcome."""
        self._look(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Look at one file's outcome: it may be skipped as a whole."""
        self._look(report)

    def _look(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped:
            return
        reason = reason_of(report)
        if not any(fnmatch.fnmatchcase(reason, pattern) for pattern in self._allowed):
            self._found[reason] += 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Make a run that passed with such skips one that failed."""
        if self._found and session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List them."""
        if self._found:
            terminalreporter.section("skipped, but must not be (--strict-skips)", red=True)
            for reason, count in self._found.most_common():
                terminalreporter.line(f"{count} skipped: {reason}")


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why something was skipped; an expected failure is told as one."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return f"expected to fail: {getattr(report, 'wasxfail', '')}"
