"""Which source files are not the program's own, by the names of their directories."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

# A directory of a library's own source, with a version or without
LIBRARY = re.compile(
    r"(glibc|eglibc|musl|newlib|uclibc|uclibc-ng|dietlibc"
    r"|libgcc|libgfortran|libquadmath|libstdc\+\+|libstdc\+\+-v3|libsupc\+\+|libatomic|libgomp)"
    r"([-_.]?\d.*)?"
)

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
    return any(LIBRARY.fullmatch(directory) for directory in directories)
