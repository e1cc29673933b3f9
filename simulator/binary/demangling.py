"""Names of routines as people write them: C++ functions, and those of a program's libraries.

A routine of a library is `libc.so.6:puts`, one without a symbol `libgcc_s.so.1+0xd074`.
"""

from __future__ import annotations

import re
from functools import cache

# How the names begin that compilers make of C++ functions (the Itanium C++ ABI, 5.1).
MANGLED = "_Z"


@cache
def demangle(name: str) -> str:
    """Return the declaration that a symbol's name stands for; other names unchanged.

    Examples
    --------
    >>> demangle("_ZN5queue4pushEi")
    'queue::push(int)'
    >>> demangle("main")
    'main'
    >>> demangle("libqueue.so:_ZN5queue4pushEi")
    'libqueue.so:queue::push(int)'
    """
    module, colon, rest = name.partition(":")
    if colon and rest.startswith(MANGLED):
        return f"{module}:{demangle(rest)}"
    if not name.startswith(MANGLED):
        return name
    try:
        from cpp_demangle import demangle as declaration
    except ImportError:  # there is none for this machine: see pyproject.toml
        return name
    try:
        return str(declaration(name))
    except ValueError:  # it only looks like one; text that is no UTF-8 is refused so, too
        return name


# What follows "operator" in the name of one: a sign, or a type that it converts to.
_OPERATOR = re.compile(r"\boperator(\(\)|\[\]|[-+*/%^&|~!=<>,]+|\"\" ?\w+|[ \w:*&]+)")
_CLOSING = {"(": ")", "<": ">", "{": "}"}
_ANONYMOUS = "(anonymous namespace)"


@cache
def plain_name(declaration: str) -> str:
    """Return the qualified name in a declaration: no types, parameters or template arguments.

    Examples
    --------
    >>> plain_name("long app::sum<long>(std::vector<long> const&)")
    'app::sum'
    >>> plain_name("libqueue.so:void queue::operator<< <int>(int) [clone .cold]")
    'libqueue.so:queue::operator<<'
    >>> plain_name("main")
    'main'
    """
    module, colon, rest = declaration.partition(":")
    if colon and not rest.startswith(":") and not set("(< ") & set(module):
        return f"{module}:{plain_name(rest)}"
    kept, at = "", 0
    while at < len(declaration):
        letter = declaration[at]
        if found := _OPERATOR.match(declaration, at):
            kept += found[0].rstrip()
            at = found.end()
        elif declaration.startswith(_ANONYMOUS, at):
            kept += _ANONYMOUS
            at += len(_ANONYMOUS)
        elif letter in _CLOSING:
            end = _closed(declaration, at)
            if letter == "{":  # a lambda expression has no other name
                kept += declaration[at:end]
            elif letter == "(" and kept:
                break
            at = end
        elif letter == " ":  # what stood before it is a type
            if declaration.startswith(" [clone", at):
                break
            kept = kept if declaration.startswith(" <", at) else ""
            at += 1
        else:
            kept += letter
            at += 1
    return kept or declaration


def split_module(name: str) -> tuple[str, str]:
    """Return the library of a routine's name, "" for none, and its name there.

    Examples
    --------
    >>> split_module("libc.so.6:puts"), split_module("libgcc_s.so.1+0xd074"), split_module("main")
    (('libc.so.6', 'puts'), ('libgcc_s.so.1', '+0xd074'), ('', 'main'))
    """
    module, _, bare = name.rpartition(":")
    at = -1 if module else name.rfind("+0x")
    return (name[:at], name[at:]) if at > 0 else (module, bare)


def spellings(name: str, *, has_modules: bool = True) -> tuple[str, ...]:
    """Return the ways to write a symbol's name in a pattern, its own first, the shortest last.

    They are without its library, demangled, and without types. `has_modules`: whether the program
    has libraries.

    Examples
    --------
    >>> spellings("libqueue.so:_ZN5queue4pushEi")[2:]
    ('libqueue.so:queue::push', '_ZN5queue4pushEi', 'queue::push(int)', 'queue::push')
    """
    module, bare = split_module(name) if has_modules else ("", name)
    whole = [name, f"{module}:{bare}"] if module else [name]
    forms = [form for each in (*whole, bare) for form in (each, *_declared(each))]
    return tuple(dict.fromkeys(forms))


def _declared(name: str) -> tuple[str, ...]:
    declaration = demangle(name)
    return () if declaration == name else (declaration, plain_name(declaration))


def base_names(name: str) -> frozenset[str]:
    """Return the names of a C++ function without some of its scopes; none of another routine.

    Examples
    --------
    >>> sorted(base_names("_ZN3app6Parser5parseEi"))
    ['Parser::parse', 'parse']
    """
    _, bare = split_module(name)
    declaration = demangle(bare)
    if declaration == bare:
        return frozenset()
    scopes = plain_name(declaration).split("::")
    return frozenset("::".join(scopes[at:]) for at in range(1, len(scopes)))


def _closed(text: str, start: int) -> int:
    """Return where the bracket at `start` is closed; the end of the text where it is not."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] == text[start]:
            depth += 1
        elif text[at] == _CLOSING[text[start]] and text[at - 1] != "-":
            depth -= 1
            if not depth:
                return at + 1
    return len(text)
