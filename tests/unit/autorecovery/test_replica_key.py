"""
The keys of replicas.
"""

from __future__ import annotations

import pytest

from pystore.autorecovery.replica_key import LOST, ReplicaKey
from pystore.errors import FormatError, InvalidError


@pytest.mark.parametrize("name", ["set", "a/b", "ü", "a b", "%2F", "a:1"])
def test_a_replica_is_read_from_its_text(name: str) -> None:
    """Names cannot look like other parts of a key."""
    key = ReplicaKey("c/d", name, 12)

    assert key == ReplicaKey.parse(key.text)
    assert 2 == key.text.count("/")
    assert LOST + key.text == key.lost
    assert key.is_storable()


@pytest.mark.parametrize("text", ["", "c/s", "c/s/", "c/s/x", "c/s/01", "c/s/t/1"])
def test_other_texts_are_none(text: str) -> None:
    """Only one text names a replica."""
    with pytest.raises(FormatError):
        ReplicaKey.parse(text)


def test_names_may_be_too_long_for_a_key() -> None:
    """A set of such a name has no records here."""
    key = ReplicaKey("c" * 300, "s", 1)

    assert not key.is_storable()
    with pytest.raises(InvalidError):
        _ = key.lost
