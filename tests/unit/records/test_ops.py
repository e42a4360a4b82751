"""
What a commit may say: refusals come before any backend is asked.
"""

from __future__ import annotations

import pytest

from pystore.errors import InvalidError
from pystore.records.ops import (
    ABSENT,
    COMMIT_BYTES_MAX,
    CheckVersion,
    Delete,
    Hold,
    KeyOps,
    Op,
    Put,
    by_key,
    check_key,
)


def test_each_key_stands_once_with_its_check_and_its_write() -> None:
    """
    In the order of the bytes, whatever order they were given in.
    """
    keys = by_key(
        [Put("ä", b"1"), CheckVersion("b", 7), CheckVersion("ä", ABSENT), Delete("a")]
    )

    assert ["a", "b", "ä"] == list(keys)
    assert KeyOps(None, Delete("a")) == keys["a"]
    assert KeyOps(7, None) == keys["b"]
    assert KeyOps(ABSENT, Put("ä", b"1")) == keys["ä"]


@pytest.mark.parametrize(
    ("ops", "said"),
    [
        ([Put("a", b""), Hold("a", b"")], "names the key 'a' twice"),
        ([CheckVersion("a", 1), CheckVersion("a", 2)], "names the key 'a' twice"),
        ([CheckVersion("a", -2)], "cannot have version -2"),
        ([Put("a", bytes(COMMIT_BYTES_MAX))], "too large: 900000 bytes are allowed"),
    ],
)
def test_an_error_says_what_is_wrong(ops: list[Op], said: str) -> None:
    """
    One line, with the key.
    """
    with pytest.raises(InvalidError, match=said):
        by_key(ops)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "has 0 bytes"),
        ("ä" * 128, "has 256 bytes: 1 to 255"),
        ("a\x1f", "control character"),
        ("\udfff", "is not text"),
    ],
)
def test_a_key_fits_every_backend(key: str, said: str) -> None:
    """
    LMDB's keys are short, and ZooKeeper's names are printed.
    """
    with pytest.raises(InvalidError, match=said):
        check_key(key)
