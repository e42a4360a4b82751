"""
Each objection to a slave has its code and a reason that names both sides.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lib.ha.master_bench import BITS, EPOCH, ROSTER, TERMS, shake
from lib.values import replace

from pystore.ha.master.config import SetView
from pystore.ha.master.handshake import HandshakeDecision, admit, refusal_of_session
from pystore.ha.wire.codes import CheckResult
from pystore.replicaset import Incarnation


def verdict(
    epoch: int = EPOCH, set_view: SetView = ROSTER, **changes: Any
) -> HandshakeDecision:
    """The decision about a slave that is honest but for *changes*."""
    return admit(shake(**changes), epoch, TERMS, set_view)


def test_a_slave_of_this_set_is_admitted() -> None:
    """Nothing speaks against it."""
    assert verdict() == HandshakeDecision(CheckResult.SUCCESS)


@pytest.mark.parametrize(
    ("changes", "result", "reason"),
    [
        ({"protocol_min": 4, "protocol_max": 5}, "PROTOCOL", "versions 4 to 5"),
        ({"protocol_min": 1, "protocol_max": 2}, "PROTOCOL", "this master version 3"),
        ({"cluster": "x"}, "CLUSTER_NAME", "to cluster 'x', not to 'c'"),
        ({"cluster": "x" * 60000}, "CLUSTER_NAME", "xxx...', not to 'c'"),
        ({"broker_name": "x"}, "BROKER_NAME", "to broker set 'x', not to 'b'"),
        ({"broker_id": 0}, "BROKER_ID", "0 is no broker id"),
        ({"broker_id": -5}, "BROKER_ID", "-5 is no broker id"),
        ({"broker_id": 1}, "BROKER_ID", "1 is this master's own"),
        ({"broker_id": 9}, "BROKER_ID", "knows no broker 9"),
        (
            {"epoch": EPOCH - 1},
            "STALE_EPOCH",
            "stale epoch 3 of the slave: the set is at epoch 4",
        ),
        ({"segment_size": 4096}, "STORE_LAYOUT", "segments of 4096 bytes"),
        ({"end_offset": -1}, "REJECTED", "begin at offset 0 and end at offset -1"),
        (
            {"min_offset": 1501},
            "REJECTED",
            "begin at offset 1501 and end at offset 1500",
        ),
        ({"min_offset": -1}, "REJECTED", "begin at offset -1 and end at offset 1500"),
        ({"flushed_offset": 1501}, "REJECTED", "flushed up to offset 1501"),
        ({"flushed_offset": -1}, "REJECTED", "flushed up to offset -1"),
        ({"frame_bytes_max": 4095}, "REJECTED", "4096 are needed"),
        ({"incarnation": -1}, "REJECTED", "incarnation -1 is negative"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(
    changes: dict[str, Any], result: str, reason: str
) -> None:
    """One line for the operator of the slave; no peer's text fills it."""
    found = verdict(**changes)

    assert CheckResult[result] == found.result
    assert reason in found.reason
    assert len(found.reason) < 200
    assert found.newer_epoch is None


def test_a_release_that_is_not_served_is_refused_with_its_version() -> None:
    """The version of the software, not of the protocol."""
    config = replace(TERMS, versions_refused=frozenset({"1.0"}))
    found = admit(shake(), EPOCH, config, ROSTER)

    assert found.result is CheckResult.APP_VERSION
    assert "does not serve version '1.0'" in found.reason


def test_a_broker_that_is_not_master_redirects_the_slave() -> None:
    """The address is told where it is known."""
    there = verdict(set_view=replace(ROSTER, is_master=False, redirect="h:1"))
    nowhere = verdict(set_view=replace(ROSTER, is_master=False))

    assert there.result is nowhere.result is CheckResult.NOT_MASTER
    assert there.reason.endswith("the master is h:1")
    assert nowhere.reason.endswith("is not the master")


def test_a_slave_without_an_epoch_receives_ours() -> None:
    """It compares with what it promised; a set without a controller works so."""
    assert verdict(epoch=-1).result is CheckResult.SUCCESS


@pytest.mark.parametrize("changes", [{"epoch": 9}, {"last_epoch": 9}])
def test_a_slave_with_a_newer_epoch_is_refused_by_a_stale_master(
    changes: dict[str, Any],
) -> None:
    """From the controller or its own table: another broker was master later."""
    found = verdict(**changes)

    assert found.result is CheckResult.FUTURE_EPOCH
    assert found.newer_epoch == 9
    assert "stale epoch 4: the slave knows epoch 9" in found.reason


@pytest.mark.parametrize(
    "changes", [{"cluster": "x"}, {"broker_name": "x"}, {"broker_id": 9}]
)
def test_only_a_broker_of_this_set_can_end_our_epoch(changes: dict[str, Any]) -> None:
    """RMQ-R199: a stranger's epoch says nothing about ours."""
    assert verdict(epoch=99, last_epoch=99, **changes).newer_epoch is None


def test_a_busy_master_refuses_with_that_reason() -> None:
    """The slave comes back after a heartbeat."""
    found = verdict(set_view=replace(ROSTER, is_busy=True))

    assert found.result is CheckResult.BUSY


@pytest.mark.parametrize(
    ("live", "is_replaced"),
    [
        (Incarnation(5, BITS), True),
        (Incarnation(4, bytes(16)), True),
        (None, True),
        (Incarnation(6, BITS), False),
        (Incarnation(5, bytes(16)), False),
    ],
)
def test_a_newer_session_replaces_an_older_one(
    live: Incarnation | None, is_replaced: bool
) -> None:
    """
    RMQ-R95: the same process again, or a later one. A copy of the store has the counter
    of the original and other random bits (B1).
    """
    found = verdict(set_view=replace(ROSTER, sessions={2: live}))
    expected = CheckResult.SUCCESS if is_replaced else CheckResult.DUPLICATE

    assert expected == found.result
    assert is_replaced == (found.reason == "")


def test_a_live_session_of_another_broker_is_none_of_ours() -> None:
    """Only the same id replaces."""
    found = verdict(set_view=replace(ROSTER, sessions={3: Incarnation(9, BITS)}))

    assert found.result is CheckResult.SUCCESS


incarnations = st.builds(
    Incarnation, st.integers(0, 3), st.sampled_from([BITS, bytes(16)])
)


@given(incarnations, incarnations)
def test_of_two_processes_at_most_one_replaces_the_other(
    one: Incarnation, other: Incarnation
) -> None:
    """Two links never throw each other out in turns."""
    both = refusal_of_session(one, other) is refusal_of_session(other, one) is None

    assert both == (one == other)
