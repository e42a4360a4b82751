"""
The keys of a controller in the record store.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.controller.server.record_keys import names_of, peer_key, set_key
from pystore.errors import InvalidError

NAMES = st.text(max_size=8)


@given(NAMES, NAMES, NAMES, NAMES)
def test_two_sets_never_share_a_key(
    cluster: str, name: str, other: str, another: str
) -> None:
    """
    Whatever their names hold: slashes, nothing, halves of surrogate pairs (RMQ-R37).
    """
    same = (cluster, name) == (other, another)

    assert same == (set_key(cluster, name) == set_key(other, another))
    assert (cluster, name) == names_of(set_key(cluster, name))


def test_names_that_are_too_long_are_refused() -> None:
    """A key has 255 bytes; the rest of a commit must not suffer from it."""
    with pytest.raises(InvalidError, match="255"):
        set_key("c" * 200, "n" * 60)
    with pytest.raises(InvalidError, match="255"):
        peer_key("h" * 300)
