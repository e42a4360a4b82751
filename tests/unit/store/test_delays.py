"""
Delayed records have the delivery times of their broker.
"""

from __future__ import annotations

from pathlib import Path

from lib.store.stores import SEGMENT

from pystore.message.message import Message
from pystore.store.store import Store


def test_delayed_records_are_coded_by_the_levels_of_the_broker(tmp_path: Path) -> None:
    """
    With the default levels a message of level 1 would be delivered days too early.
    """
    root = tmp_path / "store"
    levels = "2d 1s"
    topic = "SCHEDULE_TOPIC_XXXX"
    with Store(root, segment_size=SEGMENT, delay_levels=levels) as store:
        for level in ("1", "2", "99", "0"):
            store.log.append(
                Message(topic, b"later", properties={"DELAY": level, "TAGS": "t"})
            )
    with Store(root) as store:
        found = [
            store.queues.get(topic, 0).read(at).tags_code  # type: ignore[union-attr]
            - store.read(topic, 0, at).store_ms
            for at in range(3)
        ]
        last = store.queues.get(topic, 0).read(3).tags_code  # type: ignore[union-attr]

    assert [2 * 24 * 3_600_000, 1000, 1000] == found
    assert ord("t") == last
