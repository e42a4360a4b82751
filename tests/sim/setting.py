"""
What is unusual about a set of brokers: what they speak, and what their clocks show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from sim.clock import RATE_MAX, RATE_MIN
from sim.network import RECORDS

__all__ = ["Setting", "draw_setting"]


@dataclass(frozen=True, slots=True)
class Setting:
    """
    Of one set, for good.

    Attributes:
        legacy_share: how likely a process follows by the legacy protocol.
        legacy_ids: brokers whose processes always do.
        java_ids: brokers that, as masters, know epochs as Java's do: one that begins
            where the one before did is not recorded (RMQ-R137). They serve legacy
            slaves alone.
        inflating_ids: slaves whose acks say more than they hold.
        rates: of the machines' clocks, by place; 0 and below are the controllers'.
        is_skewed: whether clocks begin anywhere, and wall clocks jump.
        controllers: how many there are.
        session_ms: after how long the record store ends a session that is silent.
    """

    legacy_share: float = 0.0
    legacy_ids: frozenset[int] = frozenset()
    java_ids: frozenset[int] = frozenset()
    inflating_ids: frozenset[int] = frozenset()
    rates: Mapping[int, float] = field(default_factory=dict)
    is_skewed: bool = False
    controllers: int = 1
    session_ms: int = 18_000


def draw_setting(random: Random, size: int) -> Setting:
    """
    Draws one for brokers 1 to *size*.
    """
    share = random.choice([0.0, 0.0, 0.4, 1.0])
    controllers = random.choice([1, 2, 3])
    usual = Setting(
        share,
        controllers=controllers,
        session_ms=random.choice([4_000, 10_000, 18_000]),
    )
    if random.random() < 0.4:
        return usual
    # The ends of what is allowed are where leases are tight.
    rates = {
        number: random.choice([RATE_MIN, RATE_MAX, random.uniform(RATE_MIN, RATE_MAX)])
        for number in (RECORDS, *range(1 - controllers, size + 1))
    }
    return replace(usual, rates=rates, is_skewed=True)
