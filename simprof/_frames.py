"""Tables as pandas frames, and matplotlib, both where they are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simprof.profiler.profiles.tables import ColumnKind, DataColumn, ProfileTable
from simprof.simulator.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

INSTALL = "pip install 'simprof[notebook]'"


def data_frame(table: ProfileTable) -> pd.DataFrame:
    """Return a table as a frame; UsageError if pandas is not installed.

    Whole numbers are 64 bits wide ("Int64" where some are not known), or Python's own where they
    may have any length; unknown text is None.

    Examples
    --------
    >>> data_frame(ProfileTable("sizes", (DataColumn("bytes"),), ((4,), (None,)))).dtypes.to_dict()
    {'bytes': Int64Dtype()}
    """
    try:
        import pandas as pd
    except ImportError:
        raise UsageError(f"to_frame needs pandas: `{INSTALL}` installs it") from None
    rows = list(table.cells())
    series = {}
    for place, column in enumerate(table.columns):
        cells = [row[place] for row in rows]
        series[column.name] = pd.Series(cells, dtype=_dtype(column, cells))
    return pd.DataFrame(series)


def _dtype(column: DataColumn, cells: list[Any]) -> Any:
    if column.kind is ColumnKind.WHOLE:
        if any(cell is not None and not -(1 << 63) <= cell < 1 << 63 for cell in cells):
            return "object"
        return "Int64" if None in cells else "int64"
    if column.kind is ColumnKind.NUMBER:
        return "float64"
    return "bool" if column.kind is ColumnKind.FLAG else "object"


def pyplot() -> Any:
    """Return `matplotlib.pyplot`; UsageError if matplotlib is not installed."""
    try:
        from matplotlib import pyplot as plots
    except ImportError:
        raise UsageError(f"plot needs matplotlib: `{INSTALL}` installs it") from None
    return plots
