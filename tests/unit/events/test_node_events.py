"""
The events of a broker node, as sentences and for programs.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from pystore.events import node_events
from pystore.events.event import json_line
from pystore.events.node_events import (
    CutOrdered,
    LeaseEnded,
    LeaseGranted,
    LeaseRefused,
    LinkClosed,
    LinkOpened,
    NodeEvent,
    NodeFailed,
    NodeRefused,
    RoleChanged,
    SyncStateSetShrank,
    log_node_event,
)

OWN: dict[str, Any] = {
    "time_ms": 0,
    "cluster_name": "c",
    "broker_name": "a",
    "broker_id": 2,
}
PEER: dict[str, Any] = {"peer_role": "master", "peer_id": 1, "address": "h:1"}


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            RoleChanged(old="idle", new="master", master_epoch=3, reason="why", **OWN),
            "master in epoch 3, was idle: why",
        ),
        (
            LeaseGranted(master_epoch=3, is_limited=True, **OWN),
            "has the lease of epoch 3",
        ),
        (
            LeaseGranted(master_epoch=3, is_limited=False, **OWN),
            "epoch 3 needs no lease: the controller gives none",
        ),
        (
            LeaseRefused(master_epoch=3, reason="why", **OWN),
            "gets no lease for epoch 3, leader is not acknowledged: why",
        ),
        (
            LeaseEnded(master_epoch=3, reason="why", **OWN),
            "the lease of epoch 3 ran out, leader is not acknowledged: why",
        ),
        (LinkOpened(**PEER, **OWN), "a link to the master, broker 1, at h:1 is open"),
        (
            LinkOpened(is_unproven=True, **PEER, **OWN),
            "a link to the master, broker 1, at h:1 is open; it did not prove that it "
            "is a broker of this set",
        ),
        (
            LinkClosed(reason="why", **{**PEER, "peer_id": None}, **OWN),
            "the link to the master at h:1 closed: why",
        ),
        (
            CutOrdered(from_offset=9, to_offset=4, reason="why", **PEER, **OWN),
            "cuts its log from offset 9 to 4, as the master, broker 1, at h:1 orders: "
            "why",
        ),
        (
            SyncStateSetShrank(
                master_epoch=3,
                set_epoch=4,
                members=(1, 3),
                candidates=(),
                joined=(),
                left=(2,),
                reason="broker 2 left the SyncStateSet: its connection closed",
                **OWN,
            ),
            "broker 2 left the SyncStateSet: its connection closed; it is brokers 1, 3 "
            "now",
        ),
        (
            NodeFailed(node="n", reason="why", is_closing=True, **OWN),
            "n is closed, but not cleanly: why",
        ),
    ],
)
def test_an_event_is_a_sentence_with_names(event: NodeEvent, text: str) -> None:
    """
    No reader has to look a number up.
    """
    assert text == event.text
    assert "broker 2 of set a, cluster c" == event.subject


def test_a_broker_without_an_id_has_none_in_its_line() -> None:
    """
    And null for programs.
    """
    event = NodeRefused(reason="why", **{**OWN, "broker_id": None})

    assert "a broker of set a, cluster c" == event.subject
    assert json.loads(json_line(event))["brokerId"] is None


def test_all_events_are_public_and_have_a_level() -> None:
    """
    What is worth an alarm is a warning or an error.
    """
    kinds = [
        kind
        for kind in vars(node_events).values()
        if isinstance(kind, type) and issubclass(kind, NodeEvent)
    ]

    assert {kind.__name__ for kind in kinds} <= set(node_events.__all__)
    assert {logging.INFO, logging.WARNING, logging.ERROR} == {
        kind.level for kind in kinds
    }


def test_the_default_sink_is_the_logger_of_brokers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    At the level of the event.
    """
    log_node_event(NodeRefused(reason="why", **OWN))

    assert [
        (
            "pystore.broker",
            logging.WARNING,
            "broker 2 of set a, cluster c: is not registered: why",
        )
    ] == caplog.record_tuples
