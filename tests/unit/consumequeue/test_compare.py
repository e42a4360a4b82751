"""
Entries that name the right record are not damage, whatever their tags code.
"""

from __future__ import annotations

import numpy as np

from pystore.consumequeue.compare import compare_entries
from pystore.consumequeue.queue import ENTRY_DTYPE


def test_a_tags_code_alone_is_a_note() -> None:
    """
    Equal, another code, the address of an extension, another size, another offset.
    """
    expected = np.array([(100, 50, 7)] * 5, ENTRY_DTYPE)
    stored = np.array(
        [(100, 50, 7), (100, 50, 8), (100, 50, -(2**63)), (100, 51, 7), (99, 50, 7)],
        ENTRY_DTYPE,
    )

    found = compare_entries(stored, expected)

    assert [True, True, True, False, False] == found.is_named.tolist()
    assert [True, False, False, False, False] == found.is_equal.tolist()
    assert [False, False, True, False, False] == found.is_extended.tolist()
    assert 1 == found.other_codes


def test_a_javas_hash_is_no_address() -> None:
    """
    The lowest hash is -2^31; an address is below it.
    """
    expected = np.array([(0, 1, 0)] * 2, ENTRY_DTYPE)
    stored = np.array([(0, 1, -(2**31)), (0, 1, -(2**31) - 1)], ENTRY_DTYPE)

    assert [False, True] == compare_entries(stored, expected).is_extended.tolist()
