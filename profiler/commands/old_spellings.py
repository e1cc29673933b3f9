"""Options that were called otherwise: the old words still work, and a line on stderr says the new.

Commands that have such options take a class made by `keeping` as their `cls`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from simprof.profiler.commands import streams
from simprof.profiler.commands.program_words import END


@dataclass(frozen=True)
class Renamed:
    """What an old option became.

    Attributes
    ----------
    option
        The option that is given its value now; None: the value is given without an option.
    value
        Makes the new value of the old one.
    """

    option: str | None
    value: Callable[[str], str] = str

    @property
    def note(self) -> str:
        """How the new spelling is described."""
        return "given without an option" if self.option is None else f"called {self.option}"


MODES = {"--modes": Renamed("--mode")}


def keeping(
    old: Mapping[str, Renamed], base: type[click.Command] = click.Command
) -> type[click.Command]:
    """Return a class of commands, derived from `base`, that takes old spellings, too."""

    class Keeping(base):  # type: ignore[misc, valid-type]
        """A command that takes old spellings of its options."""

        old_spellings = tuple(old)

        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            """Put the new spellings in place of the old ones, then parse."""
            parsed: list[str] = super().parse_args(ctx, list(renew(args, old)))
            return parsed

    return Keeping


def renew(arguments: Sequence[str], old: Mapping[str, Renamed]) -> Iterator[str]:
    """Yield arguments with old spellings replaced; say so on stderr, once for each."""
    told: set[str] = set()
    left = iter(arguments)
    for argument in left:
        if argument == END:
            yield argument
            yield from left
            return
        name, equals, value = argument.partition("=")
        renamed = old.get(name)
        if renamed is None:
            yield argument
            continue
        if name not in told:
            streams.write(streams.STDERR, f"simprof: note: {name} is now {renamed.note}\n")
            told.add(name)
        given = value if equals else next(left, None)
        if renamed.option is not None:
            yield renamed.option
        if given is not None:
            yield renamed.value(given)
