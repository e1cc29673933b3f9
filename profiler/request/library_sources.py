"""Source files of libraries, recognised by the names of their directories."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

# Directories of libraries' own sources, which may have a version behind the name. (One expression
# for all of them takes 7 ms to compile.)
LIBRARIES = (
    *("glibc", "eglibc", "musl", "newlib", "uclibc", "uclibc-ng", "dietlibc"),
    *("libgcc", "libgfortran", "libquadmath", "libstdc++", "libstdc++-v3", "libsupc++"),
    *("libatomic", "libgomp"),
)
_VERSION = re.compile(r"([-_.]?\d.*)?")

SYSTEM = "/usr/"
HEADERS = "include"


def is_library_source(file: str) -> bool:
    """Whether a source file is one of a C, C++ or Fortran library, headers included.

    Examples
    --------
    >>> is_library_source("/build/glibc-2.36/stdio-common/vfprintf.c")
    True
    >>> is_library_source("/usr/sparc64-linux-gnu/include/c++/12/bits/stl_tree.h")
    True
    >>> is_library_source("/home/me/gcc/main.c")
    False
    """
    directories = PurePosixPath(file).parent.parts
    if file.startswith(SYSTEM) and HEADERS in directories:
        return True
    return any(
        _VERSION.fullmatch(directory, len(library))
        for directory in directories
        if directory.startswith(LIBRARIES)
        for library in LIBRARIES
        if directory.startswith(library)
    )
