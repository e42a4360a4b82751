"""
Finds records that contain a text by searching their bytes, without parsing them.

The text may be in another property than the wanted one. Spark evaluates the filter
again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["rows_with"]

_BYTES_MIN = 4
_VALUES_MAX = 16
_FOUND_MAX = 4


def rows_with(
    rows: NDArray[Any], data: memoryview, values: Iterable[str]
) -> NDArray[Any]:
    """
    Returns the rows whose properties contain one of the values, perhaps with others.

    Args:
        rows: of ``RECORD_DTYPE``, ascending, at least one.
        data: from the first row's offset to the last row's end.
        values: whole values of properties.
    """
    wanted = {value.encode("utf-8", "surrogatepass") for value in values}
    is_short = any(len(one) < _BYTES_MIN for one in wanted)
    # U+FFFD may stand for invalid UTF-8, which has other bytes.
    is_unsure = any("\ufffd" in value for value in values)
    if is_short or is_unsure or not 0 < len(wanted) <= _VALUES_MAX:
        return rows
    pattern = re.compile(b"|".join(re.escape(one) for one in wanted))
    places: list[tuple[int, int]] = []
    for match in pattern.finditer(data):
        places.append(match.span())
        if len(places) > _FOUND_MAX * len(rows):
            return rows  # too many matches: a search costs more than it saves
    starts = (rows["offset"] - rows["offset"][0]).astype(np.int64)
    begin, end = np.array(places, np.int64).reshape(-1, 2).T
    # A match may hide one that overlaps it, so each row that it touches is kept.
    first = np.searchsorted(starts, begin, "right") - 1
    last = np.searchsorted(starts, end - 1, "right") - 1
    # The body comes before the properties, and may contain the text, too.
    is_behind_body = end - starts[last] > rows["properties_at"][last]
    touched = np.concatenate([first[first != last], last[is_behind_body]])
    found: NDArray[Any] = rows[np.unique(touched)]
    return found
