"""
Members, incarnations and ids as text, and what is none.
"""

from __future__ import annotations

import pytest

from pystore.controller.protocol.extensions import (
    ids_text,
    members_text,
    parse_ids,
    parse_incarnation,
    parse_members,
)
from pystore.remoting.fields import MissingField
from pystore.replicaset import Incarnation, Member

START = Incarnation(7, b"\xab" * 16)


def test_members_are_written_in_the_order_of_their_ids() -> None:
    """One set has one text; a Java broker has no incarnation."""
    members = frozenset({Member(10), Member(2, START)})

    assert f"2@7-{'ab' * 16};10" == members_text(members)
    assert members == parse_members(members_text(members))


def test_an_empty_set_has_no_text() -> None:
    """RocketMQ's binary headers have no empty text."""
    assert (None, None) == (members_text(frozenset()), ids_text(frozenset()))
    assert frozenset() == parse_members(None)
    assert [frozenset(), frozenset()] == [parse_ids(None), parse_ids("")]


def test_an_incarnation_reads_back() -> None:
    """As in our ``abort`` file."""
    assert START == parse_incarnation(START.text)


@pytest.mark.parametrize("text", ["1;", "-1", "+1", "1 ", "\u0661", "9" * 19])
def test_a_malformed_broker_id_is_refused(text: str) -> None:
    """A text that only Python accepts as a number is refused."""
    with pytest.raises(MissingField, match="is not a broker id"):
        parse_ids(text)
