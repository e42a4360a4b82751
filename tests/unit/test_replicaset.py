"""
Members of a set of replicas, their incarnations, and versions of the set.
"""

from __future__ import annotations

import pytest

from pystore.controller.model.codec import encode
from pystore.controller.model.state import SetState
from pystore.errors import InvalidError
from pystore.replicaset import NO_SET, AgreedSet, Incarnation, Member, ids_of


def test_the_text_of_an_incarnation_has_its_counter_and_its_bits() -> None:
    """
    The same text stands in our abort file.
    """
    assert "7-000102030405060708090a0b0c0d0e0f" == Incarnation(7, bytes(range(16))).text


@pytest.mark.parametrize(("counter", "bits"), [(-1, bytes(16)), (1, b"short")])
def test_an_incarnation_is_a_counter_and_16_bytes(counter: int, bits: bytes) -> None:
    """
    Other values are refused.
    """
    with pytest.raises(InvalidError, match="16 random bytes"):
        Incarnation(counter, bits)


def test_another_start_of_a_broker_is_another_member() -> None:
    """
    B1: both have the same broker id.
    """
    members = frozenset({Member(1, Incarnation(1)), Member(1, Incarnation(2))})

    assert len(members) == 2
    assert {1} == ids_of(members)


def test_a_set_without_a_master_is_empty() -> None:
    """
    Its version is lower than that of any set that was agreed.
    """
    assert NO_SET == AgreedSet(frozenset(), 0)


def test_the_record_of_a_set_does_not_hold_continuing_replicas() -> None:
    """
    B2: they are processes that run now; the stored form is as old versions wrote it.
    """
    master = Member(1, Incarnation(1))
    listed = AgreedSet(frozenset({master}), 3)
    stored, now = (
        SetState("cluster", "set", agreed=agreed)
        for agreed in (listed, AgreedSet(listed.members, 3, continuing=listed.members))
    )

    assert encode(stored) == encode(now)
    assert b"continuing" not in encode(now)
