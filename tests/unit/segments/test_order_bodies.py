"""
Orders and their answers survive their JSON.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pystore.errors import RemoteViolation
from pystore.segments.order import (
    BadSource,
    OrderAction,
    OrderOutcome,
    OrderProgress,
    ReplicaStat,
    SegmentOrder,
)
from pystore.segments.order_bodies import (
    decode_order,
    decode_progress,
    decode_stat,
    encode_order,
    encode_progress,
    encode_stat,
)

STAT = ReplicaStat(
    "3-00",
    1 << 20,
    1 << 30,
    1 << 29,
    1 << 20,
    "127.0.0.1:10913",
    {1 << 21: "the file is missing"},
    (BadSource(1, 5000), BadSource(2, 0)),
    7,
    {1 << 29: "the file is missing"},
)
ORDER = SegmentOrder(
    "w/1", 1 << 40, OrderAction.FILL, ("a:1", "b:2"), (0, 3), 1 << 20, "", 5
)
PROGRESS = OrderProgress(OrderOutcome.DAMAGED, "2 of 3", (0, 2), 5)


def test_bodies_survive_their_json() -> None:
    """
    With all their values, and with none.
    """
    for stat in (STAT, ReplicaStat("", 0, 0, 0, 1)):
        assert stat == decode_stat(encode_stat(stat))
    for action in OrderAction:
        order = SegmentOrder("c", 0, action)
        assert order == decode_order(encode_order(order))
    assert ORDER == decode_order(encode_order(ORDER))
    for outcome in OrderOutcome:
        progress = OrderProgress(outcome)
        assert progress.outcome is decode_progress(encode_progress(progress)).outcome
    assert PROGRESS == decode_progress(encode_progress(PROGRESS))


def test_a_broker_of_an_earlier_version_tells_neither_cuts_nor_holes() -> None:
    """
    All else of its answer counts.
    """
    told = json.loads(encode_stat(STAT))
    del told["cutGeneration"]
    del told["holes"]
    before = replace(STAT, cut_generation=-1, holes={})

    assert before == decode_stat(json.dumps(told).encode())


def test_a_worker_of_an_earlier_version_tells_no_rate_of_serving() -> None:
    """
    That of the host stays.
    """
    told = json.loads(encode_order(ORDER))
    del told["serveBytesPerSecond"]

    expected = replace(ORDER, serve_bytes_per_second=-1)
    assert expected == decode_order(json.dumps(told).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"cutGeneration": "7"},
        {"beginOffset": -1},
        {"beginOffset": 1 << 31},
        {"segmentSize": 0},
        {"problems": [[1]]},
        {"problems": [["1", "x"]]},
        {"badSources": [[1, "x"]]},
        {"segmentsAddress": 1},
    ],
)
def test_a_stat_of_no_log_is_refused(change: dict[str, object]) -> None:
    """
    Evidence comes from whole answers only.
    """
    row = json.loads(encode_stat(STAT))
    with pytest.raises(RemoteViolation):
        decode_stat(json.dumps({**row, **change}).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"claim": ""},
        {"claim": "x" * 513},
        {"segment": -1},
        {"action": "erase"},
        {"blocks": [-1]},
        {"blocks": [True]},
        {"sources": [1]},
        {"sources": None},
        {"bytesPerSecond": -1},
        {"serveBytesPerSecond": -2},
    ],
)
def test_an_order_of_another_form_is_refused(change: dict[str, object]) -> None:
    """
    Nothing is done then.
    """
    row = json.loads(encode_order(ORDER))
    with pytest.raises(RemoteViolation):
        decode_order(json.dumps({**row, **change}).encode())


def test_a_progress_that_is_not_known_is_refused() -> None:
    """
    A later version may have other outcomes.
    """
    row = json.loads(encode_progress(PROGRESS))
    for change in ({"outcome": "x"}, {"badBlocks": 1}, {"movedBytes": "1"}):
        with pytest.raises(RemoteViolation):
            decode_progress(json.dumps({**row, **change}).encode())
