"""The page of the papers' items: what it names exists, and its counts are those of its rows."""

from __future__ import annotations

import re
import shlex
from collections import Counter

import click
import pytest

from simprof.profiler.commands.group import simprof
from simprof.profiler.experiments.tables.results import TABLES
from simprof.profiler.request.weights import Weights
from simprof.profiler.rewriting.draft import Cause
from simprof.profiler.schemes.mode_options import read
from simprof.profiler.schemes.registry import modes
from simprof.simulator.errors import UsageError
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "PAPERS.md").read_text()
STATES = ("whole", "partly", "left out")
PAPERS = {"EPP": 32, "BL94": 33, "TPP": 25, "KITER": 14, "CS6120": 7}
CAUSES = {each.value for each in Cause}
FIELDS = "".join(path.read_text() for path in (ROOT / "simprof" / "schemas").glob("*.json"))


def rows(paper: str) -> list[list[str]]:
    """The items of a paper: section, item, state, where."""
    _, _, rest = PAGE.partition(f"\n## {paper}\n")
    section, _, _ = rest.partition("\n## ")
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def commands() -> dict[str, click.Command]:
    with click.Context(simprof) as context:
        names = simprof.list_commands(context)
        found = {name: simprof.get_command(context, name) for name in names}
    return {name: command for name, command in found.items() if command is not None}


COMMANDS = commands()
OPTIONS = {
    name: {text: each for each in command.params for text in (*each.opts, *each.secondary_opts)}
    for name, command in COMMANDS.items()
}


def check_option(words: list[str], known: dict[str, click.Parameter]) -> None:
    """Check an option and its value, if it has one."""
    option, *value = words
    assert option in known, option
    assert len(value) <= 1, words
    if value and option == "--weights":
        Weights(value[0])
    elif value and option == "--mode":
        read(value[0])
    elif value:
        known[option].type.convert(value[0], known[option], None)


def check(span: str) -> None:
    """Check that what a code span names exists."""
    if span.startswith("simprof "):
        name, *words = shlex.split(span)[1:]
        assert name in COMMANDS, span
        for number, word in enumerate(words):
            if word.startswith("--"):
                value = words[number + 1 : number + 2] if word == "--mode" else []
                check_option([word, *value], OPTIONS[name])
    elif span.startswith("--"):
        every = {text: each for known in OPTIONS.values() for text, each in known.items()}
        check_option(shlex.split(span), every)
    elif "/" in span:
        assert (ROOT / span).exists(), span
    elif span.partition(":")[0] in modes():
        read(span)
    else:
        named = span in TABLES or span in CAUSES or re.search(rf'"{re.escape(span)}"', FIELDS)
        assert named, f"no table, cause or field of a document: {span}"


@pytest.mark.parametrize("span", sorted(set(re.findall(r"`([^`\n]+)`", PAGE))))
def test_what_is_named_exists(span: str) -> None:
    check(span)


@pytest.mark.parametrize(
    "span",
    [
        "tpp:cld=5", "pp:exit-entry=none", "simprof instrumented", "simprof run --no-such",
        "--layout sideways", "--weights wal", "profiler/no/such.py", "tpp9", "path_coverages",
    ],
)  # fmt: skip
def test_what_does_not_exist_is_found(span: str) -> None:
    with pytest.raises((AssertionError, click.ClickException, UsageError, ValueError)):
        check(span)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_item_has_a_state_and_a_place_or_a_reason(paper: str) -> None:
    found = rows(paper)
    assert len(found) == PAPERS[paper]
    for section, item, state, where in found:
        assert section and item and state in STATES and where, item
    states = Counter(state for _, _, state, _ in found)
    counts = " | ".join(str(states[state]) for state in STATES)
    assert f"\n| {paper} | {counts} |\n" in PAGE, f"| {paper} | {counts} |"
