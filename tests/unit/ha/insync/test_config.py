"""
Rules, and RocketMQ's names for them.
"""

from __future__ import annotations

import pytest

from pystore.errors import InvalidError
from pystore.ha.insync.ack import Ack
from pystore.ha.insync.config import SetRules, ack_of_rocketmq, rules_of_rocketmq


@pytest.mark.parametrize(
    ("properties", "ack", "minimum"),
    [
        ({}, Ack.LEADER, 1),
        ({"flushDiskType": "SYNC_FLUSH"}, Ack.LEADER_SYNCED, 1),
        ({"allAckInSyncStateSet": "true"}, Ack.ALL, 1),
        ({"allAckInSyncStateSet": "true", "minInSyncReplicas": "2"}, Ack.ALL, 2),
        ({"allAckInSyncStateSet": "true", "inSyncReplicas": "3"}, Ack.ALL, 1),
        ({"allAckInSyncStateSet": "TRUE", "flushDiskType": "SYNC_FLUSH"}, Ack.ALL, 1),
        ({"inSyncReplicas": "2"}, Ack.ALL, 2),
        ({"inSyncReplicas": "1", "minInSyncReplicas": "2"}, Ack.ALL, 2),
        ({"inSyncReplicas": "0"}, Ack.LEADER, 1),
        ({"enableAutoInSyncReplicas": "true"}, Ack.LEADER, 1),
    ],
)
def test_rocketmq_s_names_mean_the_same_or_more(
    properties: dict[str, str], ack: Ack, minimum: int
) -> None:
    """
    RMQ-R204 to RMQ-R209: a count of copies becomes the whole set.
    """
    assert ack is ack_of_rocketmq(properties)
    assert minimum == rules_of_rocketmq(properties).min_in_sync


def test_rocketmq_s_times_are_taken_over() -> None:
    """
    In milliseconds, as they are there.
    """
    names = ("haMaxTimeSlaveNotCatchup", "checkSyncStateSetPeriod")
    rules = rules_of_rocketmq(dict.fromkeys(names, "7000"))

    assert (7_000, 7_000) == (rules.lag_ms_max, rules.check_ms)
    assert (15_000, 3_000, 5_000) == (
        SetRules().lag_ms_max,
        SetRules().first_check_ms,
        SetRules().check_ms,
    )


@pytest.mark.parametrize(
    "properties",
    [
        {"inSyncReplicas": "two"},
        {"minInSyncReplicas": "-1"},
        {"allAckInSyncStateSet": "yes"},
        {"haMaxTimeSlaveNotCatchup": "0"},
    ],
)
def test_a_value_of_another_kind_is_refused(properties: dict[str, str]) -> None:
    """
    With the name and what to write.
    """
    (name,) = properties
    with pytest.raises(InvalidError, match=f"{name}|a time is not positive"):
        rules_of_rocketmq(properties)


def test_a_master_may_be_ill_as_long_as_a_member_may_lag() -> None:
    """
    Unless its own limit is set.
    """
    assert (15_000, 700) == (SetRules().ill_ms_max, SetRules(resign_ms=700).ill_ms_max)
    assert 9 == SetRules(lag_ms_max=9).ill_ms_max
    with pytest.raises(InvalidError, match="a time is negative"):
        SetRules(resign_ms=-1)


def test_the_master_is_always_one_of_those_in_sync() -> None:
    """
    So a minimum of none means nothing.
    """
    with pytest.raises(InvalidError, match="it is at least 1"):
        SetRules(min_in_sync=0)
