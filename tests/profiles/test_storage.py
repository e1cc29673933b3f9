"""Profile files that inflate to more than any profile does."""

from __future__ import annotations

import gzip
import re

import pytest

from simprof.profiler.profiles import storage
from simprof.simulator.errors import UsageError
from tests.support.samples import measurement


def test_a_file_that_inflates_without_end_is_refused() -> None:
    bomb = gzip.compress(bytes(1 << 20), mtime=0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(storage, "ROOM", 1 << 10)
        with pytest.raises(UsageError, match="inflates to too much"):
            storage.from_bytes(storage.FORMAT.first_line + bomb, "the file")
    with pytest.raises(UsageError, match="damaged profile"):
        storage.from_bytes(storage.FORMAT.first_line + bomb, "the file")


def test_a_version_in_a_message_is_short() -> None:
    with pytest.raises(UsageError) as error:
        storage.from_bytes(storage.MAGIC + b"9" * 40 + b"\n", "the file")
    assert "9" * 20 in str(error.value)
    assert "9" * 21 not in str(error.value)


@pytest.mark.parametrize("place", ["base", "count", "activations"])
def test_counts_that_no_run_can_have_are_refused(place: str) -> None:
    data = storage.to_bytes(measurement())
    head, body = data.split(b"\n", 1)
    text = gzip.decompress(body).decode()
    larger, times = re.subn(rf'"{place}":\d+', f'"{place}":1' + "0" * 201, text)
    assert times
    with pytest.raises(UsageError, match=r"damaged profile \(a count of .* is larger than 10\^200"):
        storage.from_bytes(head + b"\n" + gzip.compress(larger.encode()), "a")
