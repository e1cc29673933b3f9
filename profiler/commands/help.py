"""Help, and what was probably meant by an option or a command that does not exist.

Help of commands with many options has two lengths: `--help` shows the options used most by what
they are for, `--help-all` all. References of commands (the site's page, man pages) are made of the
long one, `get_help`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import click

from simprof.profiler.request.likeness import alike

# Heading -> names of parameters, in the order in which they are shown
HelpSections = Mapping[str, Sequence[str]]
# Those of commands that run a program and report
RUNS: HelpSections = {
    "What to run": (
        *("runs", "run_on", "suite", "stdin_file", "root", "writable", "sysroot", "environment"),
        "replay",
    ),
    "What to count": ("mode", "modes", "routines", "exclude", "user_only", "call_tree"),
    "What to write": ("output", "json_file", "html", "report", "details", "quiet"),
    "Limits": ("max_instructions", "timeout", "memory_limit"),
}
_FEW = 3  # A first sentence of fewer words than this says too little alone.


def in_sections(
    sections: HelpSections, base: type[click.Command] = click.Command
) -> type[click.Command]:
    """Return a class of commands, derived from `base`, whose options are shown under headings.

    `--help` shows those in `sections`, `--help-all` also the rest.
    """

    class InSections(base):  # type: ignore[misc, valid-type]
        def get_params(self, ctx: click.Context) -> list[click.Parameter]:
            """Return the parameters, `--help-all` behind them."""
            return [*super().get_params(ctx), _help_all()]

        def get_help_option(self, ctx: click.Context) -> click.Option | None:
            """Return the option that shows the short help."""
            option: click.Option | None = super().get_help_option(ctx)
            if option is not None:
                option.callback = _shows(lambda ctx: _short_help(ctx, sections))
                option.help = "Show the options used most, and exit."
            return option

        def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            """Write all options under their headings."""
            named = {name for names in sections.values() for name in names}
            rest = [each.name for each in self.get_params(ctx) if each.name not in named]
            _write_sections(ctx, formatter, {**sections, "Other options": rest}, str)

    return InSections


def _write_sections(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    sections: HelpSections,
    said: Callable[[str], str],
) -> None:
    """Write options under headings; `said`: makes the text of each of its help."""
    options = ctx.command.get_params(ctx)
    for heading, names in sections.items():
        # A parameter may have several options: `--csv` and `--json`.
        chosen = (each for name in dict.fromkeys(names) for each in options if each.name == name)
        shown = [each.get_help_record(ctx) for each in chosen if isinstance(each, click.Option)]
        if records := [(usage, said(text)) for usage, text in filter(None, shown)]:
            with formatter.section(heading):
                formatter.write_dl(records)


def _help_all() -> click.Option:
    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_shows(lambda ctx: ctx.get_help()),
        help="Show all options, and exit.",
    )


def _shows(text: Callable[[click.Context], str]) -> Callable[..., None]:
    """Return the callback of an option that prints a text and ends the command."""

    def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            click.echo(text(ctx))
            ctx.exit()

    return show


def _short_help(ctx: click.Context, sections: HelpSections) -> str:
    """Return the beginning of a command's help, and a few of its options under headings."""
    command, formatter = ctx.command, ctx.make_formatter()
    command.format_usage(ctx, formatter)
    formatter.write_paragraph()
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    # \b begins what click does not wrap: a table of a command's words, which belongs to its usage
    first = max((place for place, each in enumerate(paragraphs) if each[:1] == "\b"), default=0)
    formatter.write_text("\n\n".join(paragraphs[: first + 1]))
    _write_sections(ctx, formatter, sections, _brief)
    formatter.write_paragraph()
    formatter.write_text(f"`{ctx.command_path} --help-all` shows all options.")
    return formatter.getvalue().rstrip("\n")


def _brief(text: str) -> str:
    """Return the first sentence of an option's help, with its default."""
    told, _, default = text.partition("  [")
    first = re.split(r"(?<=[.;]) (?![^(]*\))", told)[0]
    if len(first.split()) < _FEW:
        return text
    first = first.rstrip(";.") + "."
    return f"{first}  [{default}" if default else first


# Click compares whole words, dashes included, so that every long option is a little like every
# other: `--save` gets `--argv0`. Here only names that are nearly the same count, those that the
# word begins, and what is called otherwise here.
SHORTEST_BEGINNING = 3

# Words for what other names stand for here; the names that a command has are suggested.
CALLED_HERE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "csv": ("--json",),
        "file": ("--output",),
        "format": ("--csv", "--json"),
        "graph": ("explain",),
        "limit": ("--top", "--max-instructions"),
        "order": ("--sort",),
        "regenerate": ("read",),
        "reverse": ("--ascending", "--descending"),
        "save": ("--output",),
        "scheme": ("--mode",),
        "verbose": ("--details",),
    }
)
# Views of profiles that one may take for commands
_VIEWS = ("edges", "paths", "routines", "source", "tree")
VIEWS_CALLED = MappingProxyType(
    {"annotate": "show PROFILE source", "report": "show PROFILE"}
    | {view: f"show PROFILE {view}" for view in _VIEWS}
)


def explained(error: click.UsageError) -> str:
    """Return the message of an error in the words of the command line, with what was meant."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        known = _options(error.ctx.command)
        return _asked(error.message, meant(error.option_name, known))
    if isinstance(error, click.exceptions.NoSuchCommand) and error.ctx is not None:
        group = error.ctx.command
        names = group.list_commands(error.ctx) if isinstance(group, click.Group) else []
        if "show" in names and error.command_name in VIEWS_CALLED:
            return _asked(error.message, [VIEWS_CALLED[error.command_name]])
        return _asked(error.message, meant(error.command_name, names))
    return error.format_message()


def meant(word: str, known: Iterable[str]) -> list[str]:
    """Return the names that a word may stand for, the likeliest first; options with their dashes.

    Examples
    --------
    >>> meant("--save", ["--argv0", "--output", "--trace"])
    ['--output']
    >>> meant("--out", ["--output", "--root"])
    ['--output']
    >>> meant("--modd", ["--mode", "--root"])
    ['--mode']
    >>> meant("rn", ["run", "read"])
    ['run']
    >>> meant("rnu", ["run", "read"])
    ['run']
    """
    bare = word.lstrip("-")
    names = {name.lstrip("-"): name for name in known}
    otherwise = [name for name in CALLED_HERE.get(bare, ()) if name in names.values()]
    if otherwise:
        return otherwise
    begun = sorted(name for name in names if name.startswith(bare))
    close = begun if begun and len(bare) >= SHORTEST_BEGINNING else alike(bare, names)
    return [names[name] for name in close]


def _options(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            for name in (*parameter.opts, *parameter.secondary_opts):
                if name.startswith("--"):
                    yield name


def _asked(message: str, names: list[str]) -> str:
    if not names:
        return message
    return f"{message} Did you mean {' or '.join(map(repr, names))}?"
