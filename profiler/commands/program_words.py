"""Words of a command line that runs a program: which are simprof's, which the program's own.

Behind the program's file, options that simprof knows are its own up to the first word that is none.
From that word on everything is the program's, options that simprof knows, too; ``--`` ends it at
once. Where several programs may be named, or none is run, arguments stand behind ``--`` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import click

from simprof.profiler.commands import streams
from simprof.profiler.request.likeness import alike

END = "--"  # What stands behind it are arguments of the program.
_ARGUMENTS = "simprof.arguments"


def with_program(base: type[click.Command] = click.Command) -> type[click.Command]:
    """Return a class of commands, derived from `base`, whose first argument is a program."""

    class WithProgram(base):  # type: ignore[misc, valid-type]
        """A command that leaves the words behind its program to that."""

        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            """Set the program's arguments apart, then parse."""
            known = _options(self.get_params(ctx))
            try:
                words, taken = set_apart(args, known, refuses=not ctx.resilient_parsing)
            except click.UsageError as error:
                error.ctx = ctx  # names the command in the message
                raise
            try:
                parsed: list[str] = super().parse_args(ctx, words)
            except click.UsageError as error:
                error.ctx = error.ctx or ctx
                if not taken or isinstance(error, click.NoSuchOption):
                    raise
                said, word = error.format_message().rstrip("."), taken[-1].split()[0]
                said += f"; put -- before {word} if it is the program's own"
                raise click.UsageError(said, error.ctx) from error
            if taken and not ctx.resilient_parsing:
                note = f"took {' '.join(taken)} for itself; put -- before the program's own"
                streams.write(streams.STDERR, f"simprof: {note}\n")
            return parsed

    return WithProgram


class WithArguments(click.Command):
    """A command whose arguments behind ``--`` are the programs' (`arguments_of`)."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set the programs' arguments apart."""
        if END in args:
            place = args.index(END)
            ctx.meta[_ARGUMENTS] = tuple(args[place + 1 :])
            args = args[:place]
        return super().parse_args(ctx, args)


def arguments_of(ctx: click.Context) -> tuple[str, ...]:
    """Return what stood behind ``--``."""
    found: tuple[str, ...] = ctx.meta.get(_ARGUMENTS, ())
    return found


def set_apart(
    words: Sequence[str], known: Mapping[str, bool], *, refuses: bool = True
) -> tuple[list[str], list[str]]:
    """Put ``--`` before the program's arguments.

    - `known`: simprof's options, with their dashes, and whether each takes a value.
    - `refuses`: Whether an unknown option behind the program that is nearly one of simprof's is
      refused, by click.UsageError.

    Returns the words, and those short options among simprof's, with their values, that stand behind
    the program.

    Examples
    --------
    >>> known = {"--mode": True, "-k": True}
    >>> set_apart(["a.elf", "--mode", "pp", "-k", "3", "f", "-k", "4"], known)
    (['a.elf', '--mode', 'pp', '-k', '3', '--', 'f', '-k', '4'], ['-k 3'])
    """
    taken: list[str] = []
    has_program, at = False, 0
    while at < len(words) and words[at] != END:
        word = words[at]
        is_option = word.startswith("-") and word != "-"
        if not is_option and has_program:
            break
        length = _length(word, known) if is_option else 1
        if length == 0 and has_program:
            if refuses:
                _refuse_misspelled(word, known)
            break
        if is_option and has_program and not word.startswith("--"):
            taken.append(" ".join(words[at : at + length]))
        has_program |= not is_option
        at += max(length, 1)
    own, rest = list(words[:at]), list(words[at:])
    if rest and rest[0] != END:
        rest.insert(0, END)
    return own + rest, taken


def _length(word: str, known: Mapping[str, bool]) -> int:
    """Return how many words an option takes, with its value; 0 where it is unknown."""
    if word.startswith("--"):
        name, equals, _ = word.partition("=")
        return 1 + (known[name] and not equals) if name in known else 0
    for place, letter in enumerate(word[1:], 1):
        takes_value = known.get(f"-{letter}")
        if takes_value is None:
            return 0
        if takes_value:
            return 1 if word[place + 1 :] else 2
    return 1


def _refuse_misspelled(word: str, known: Iterable[str]) -> None:
    name = word.partition("=")[0]
    names = [each[2:] for each in known if each.startswith("--")]
    near = alike(name[2:], names) if name.startswith("--") else []
    if near:
        raise click.UsageError(
            f"No such option {name!r}: write '--{near[0]}' if that is meant, or put -- before the "
            "program's own"
        )


def _options(parameters: Iterable[click.Parameter]) -> dict[str, bool]:
    """Return the names of options, and whether each takes a value."""
    known: dict[str, bool] = {}
    for parameter in parameters:
        if isinstance(parameter, click.Option):
            takes_value = not (parameter.is_flag or parameter.count)
            known |= dict.fromkeys((*parameter.opts, *parameter.secondary_opts), takes_value)
    return known
