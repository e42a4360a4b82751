"""
What all events of a node have in common.
"""

from __future__ import annotations

from typing import Any

import pytest

from pystore.events.event import Event
from pystore.events.node_events import LinkOpened, NodeRegistered
from pystore.events.node_teller import NodeTeller, untold


def test_an_event_gets_the_time_and_the_names() -> None:
    """
    Those of a link get its peer as well.
    """
    told: list[Event] = []
    teller = NodeTeller("c", "b", 2, told.append, lambda: 77)
    own: dict[str, Any] = {
        "time_ms": 77,
        "cluster_name": "c",
        "broker_name": "b",
        "broker_id": 2,
    }
    teller(NodeRegistered)
    teller.of_peer("slave", 3, "h:1")(LinkOpened)

    peer: dict[str, Any] = {"peer_role": "slave", "peer_id": 3, "address": "h:1"}
    assert [NodeRegistered(**own), LinkOpened(**own, **peer)] == told


def test_an_error_of_a_sink_is_logged_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    An event is told in the thread of a link, or while the set changes.
    """

    def broken(_: Event) -> None:
        raise RuntimeError("of the program")

    NodeTeller("c", "b", 2, broken)(NodeRegistered)

    assert "broker 2 of set b, cluster c: on_event failed" in caplog.text
    assert "of the program" in caplog.text


def test_nothing_is_told_where_nothing_listens() -> None:
    """
    Whatever the event is.
    """
    untold(LinkOpened, anything=1)
