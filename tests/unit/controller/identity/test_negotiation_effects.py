"""
The effects of a negotiation are values: an owner may compare and keep them.
"""

from __future__ import annotations

from typing import get_args

from pystore.controller.identity.negotiation import (
    GiveUp,
    NegotiationEffect,
    Pause,
    WriteTemp,
)
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity


def test_equal_effects_are_equal_values() -> None:
    """Two equal requests are the same value."""
    temporary = TemporaryIdentity(BrokerIdentity("c", "b", 1), "code")

    assert 1 == len({WriteTemp(temporary), WriteTemp(temporary)})
    assert Pause(1, "a") != Pause(2, "a")
    assert GiveUp("a") != GiveUp("b")


def test_every_effect_is_frozen() -> None:
    """An owner cannot change an effect."""
    assert 9 == len(get_args(NegotiationEffect))
    assert all(one.__dataclass_params__.frozen for one in get_args(NegotiationEffect))
