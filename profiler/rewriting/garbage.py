"""Making many objects at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collected_later() -> Iterator[None]:
    """Have Python look for cyclic garbage only after the `with` block.

    It looks the more often the more objects are made, and at all of them. The instructions of a
    program's copies are millions, all in use, and looking at them took a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
