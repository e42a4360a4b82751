"""
Members and log ends.
"""

from __future__ import annotations

from lib.controller.broker_set_driver import incarnation

from pystore.controller.model.member import NOWHERE, LogEnd, Member, ids_of


def test_another_start_is_another_member() -> None:
    """B1: though the broker is the same."""
    members = frozenset({Member(1, incarnation(1)), Member(1, incarnation(2))})

    assert len(members) == 2
    assert {1} == ids_of(members)


def test_a_higher_epoch_is_further_than_any_end() -> None:
    """With 64 bits; an unknown end is the least."""
    assert NOWHERE < LogEnd(0, 0) < LogEnd(1, 2**62) < LogEnd(2, 0)
