"""
Masters and sets by id and incarnation; those of Java by id only.
"""

from __future__ import annotations

import pytest

from pystore.controller.model.commands import AlterSet
from pystore.controller.model.replies import MasterRecord
from pystore.controller.protocol.set_extensions import (
    agreed_fields,
    agreed_of,
    alter_set_fields,
    alter_set_of,
    leadership_fields,
    leadership_of,
    learners_fields,
    learners_of,
    refused_ids_fields,
    refused_ids_of,
)
from pystore.remoting.fields import MissingField
from pystore.replicaset import AgreedSet, Incarnation, Member

START = Incarnation(7, bytes(range(16)))
OTHER = Incarnation(1, bytes(16))


def test_a_master_and_its_set_are_named_with_incarnations() -> None:
    """B1: members by (id, incarnation), a Java broker among them, and candidates."""
    lead = MasterRecord(
        Member(1, START), "a:1", 5, waits_for_lease=True, ha_address="a:7"
    )
    members = frozenset({Member(1, START), Member(2), Member(3, OTHER)})
    agreed = AgreedSet(members, 9, frozenset({Member(4, OTHER)}))
    fields = leadership_fields(lead) | agreed_fields(agreed)

    assert lead == leadership_of(fields, 1, "a:1", 5)
    assert agreed == agreed_of(fields, frozenset({1, 2, 3}), 9)
    assert AgreedSet(set_epoch=2) == (
        agreed_of(agreed_fields(AgreedSet()), frozenset(), 2)
    )


@pytest.mark.parametrize("is_fence", [True, False])
def test_a_change_of_the_set_names_incarnations(is_fence: bool) -> None:
    """B1, B7, RMQ-R112."""
    me = Member(1, START)
    members = frozenset({me, Member(2)})
    candidates, filling = frozenset({Member(3, OTHER)}), frozenset({2} - {is_fence + 1})
    command = AlterSet(me, 5, 9, members, candidates, is_fence, filling)
    fields = alter_set_fields(command)

    assert command == alter_set_of(fields, 1, 5, frozenset({1, 2}), 9)


def test_a_refusal_names_the_brokers_that_caused_it() -> None:
    """RMQ-R111: all of them; without brokers there is no field."""
    assert {"pystoreBrokerIds": "2;10"} == refused_ids_fields(frozenset({10, 2}))
    assert frozenset({2, 10}) == refused_ids_of({"pystoreBrokerIds": "2;10"})
    assert {} == refused_ids_fields(frozenset())
    assert frozenset() == refused_ids_of({})


def test_learners_are_told_by_their_ids() -> None:
    """Without learners there is no field, as from a controller of RocketMQ."""
    assert {"pystoreLearners": "2;10"} == learners_fields(frozenset({10, 2}))
    assert frozenset({2, 10}) == learners_of({"pystoreLearners": "2;10"})
    assert {} == learners_fields(frozenset())
    assert frozenset() == learners_of({})
    with pytest.raises(MissingField):
        learners_of({"pystoreLearners": "2;x"})


def test_a_peer_without_extensions_is_a_java_peer() -> None:
    """Its set is that of the body."""
    java = AlterSet(Member(1), 5, 9, frozenset({Member(1), Member(2)}))

    assert MasterRecord(Member(1), "a:1", 5) == leadership_of({}, 1, "a:1", 5)
    assert java == alter_set_of({}, 1, 5, frozenset({1, 2}), 9)
    assert {} == alter_set_fields(java)
    assert {} == leadership_fields(MasterRecord(Member(1), "a:1", 5))


@pytest.mark.parametrize("text", ["2", "1;2;3", "1;x", "1;", "1@;2", "1;2@7-0"])
def test_a_set_is_named_once(text: str) -> None:
    """Fields and body that differ are refused, not mixed."""
    with pytest.raises(MissingField):
        agreed_of({"pystoreMembers": text}, frozenset({1, 2}), 1)
