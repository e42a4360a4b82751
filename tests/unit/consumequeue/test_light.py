"""
Which further entries a record has in light queues.
"""

from __future__ import annotations

import pytest

from pystore.consumequeue.light import light_groups, light_places

BOTH = {"INNER_MULTI_DISPATCH": "%LMQ%a,b", "INNER_MULTI_QUEUE_OFFSET": "5,7"}


def test_a_record_has_an_entry_in_each_named_queue() -> None:
    """
    A light queue has the queue id 0, another queue that of the record.
    """
    assert [("%LMQ%a", 0, 5), ("b", 3, 7)] == light_places("T", 3, BOTH)


@pytest.mark.parametrize(
    ("topic", "change"),
    [
        ("T", {"INNER_MULTI_QUEUE_OFFSET": ""}),
        ("T", {"INNER_MULTI_QUEUE_OFFSET": "5"}),
        ("T", {"INNER_MULTI_QUEUE_OFFSET": "5,-7"}),
        ("T", {"INNER_MULTI_QUEUE_OFFSET": "5,x"}),
        ("T", {"INNER_MULTI_QUEUE_OFFSET": f"5,{2**63}"}),
        ("T", {"INNER_MULTI_DISPATCH": ""}),
        ("%RETRY%g", {}),
        ("rmq_sys_x", {}),
        ("SCHEDULE_TOPIC_XXXX", {}),
    ],
)
def test_other_records_have_none(topic: str, change: dict[str, str]) -> None:
    """
    RocketMQ gave them no queue offsets there.
    """
    assert [] == light_places(topic, 0, BOTH | change)


def test_the_entries_are_sorted_by_queue() -> None:
    """
    In the order of the log.
    """
    groups = list(
        light_groups(
            [
                (0, 90, 1, [("%LMQ%a", 0, 5), ("%LMQ%b", 0, 0)]),
                (90, 80, 2, [("%LMQ%a", 0, 6)]),
            ]
        )
    )

    assert [("%LMQ%a", 0), ("%LMQ%b", 0)] == [group[:2] for group in groups]
    assert [5, 6] == groups[0].indexes.tolist()
    assert [(0, 90, 1), (90, 80, 2)] == groups[0].entries.tolist()
