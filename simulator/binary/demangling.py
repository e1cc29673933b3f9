"""Names of C++ functions as their authors wrote them."""

from __future__ import annotations

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
