"""
The entries of a queue compared with those of the log's records. Pure.

An entry that differs in its tags code alone names the right record: the broker's
``messageDelayLevel`` decides the code of a delayed message, and a code may be an
address in an extension file (``enableConsumeQueueExt``). Neither is damage.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pystore.consumequeue.queue import Entries

__all__ = ["EXTENSION_MAX", "EntryComparison", "compare_entries", "is_extension"]

EXTENSION_MAX = -(2**31) - 1
"""The largest tags code that is an address in an extension file."""


class EntryComparison(NamedTuple):
    """
    One value for each pair of entries.

    Attributes:
        is_named: offset and size are equal: the entry names this record.
        is_equal: the tags code is equal, too.
        is_extended: the entry names this record, and its tags code is the address of
            an extension.
    """

    is_named: NDArray[np.bool_]
    is_equal: NDArray[np.bool_]
    is_extended: NDArray[np.bool_]

    @property
    def other_codes(self) -> int:
        """
        The number of entries that differ in a tags code that is no address.
        """
        return int((self.is_named & ~self.is_equal & ~self.is_extended).sum())


def compare_entries(stored: Entries, expected: Entries) -> EntryComparison:
    """
    Compares stored entries with those that the records of the log have.

    Args:
        stored: of a queue file.
        expected: of the same queue offsets, made of a scan.
    """
    is_named = (stored["offset"] == expected["offset"]) & (
        stored["size"] == expected["size"]
    )
    is_equal = is_named & (stored["tags_code"] == expected["tags_code"])
    is_extended = is_named & ~is_equal & is_extension(stored)
    return EntryComparison(is_named, is_equal, is_extended)


def is_extension(entries: Entries) -> NDArray[np.bool_]:
    """
    Marks entries whose tags code is an address in an extension file.
    """
    found: NDArray[np.bool_] = entries["tags_code"] <= EXTENSION_MAX
    return found
