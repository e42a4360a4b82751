"""
Records that have entries in light queues (LMQ) are found in the log.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from lib.store.stores import message

from pystore.message.message import Message
from pystore.store.store import Store


def test_light_queues_get_their_entries_again(tmp_path: Path) -> None:
    """
    A power cut lost the tail of a light queue: its records name their places in it,
    and RocketMQ has nothing left to dispatch after a clean close.
    """
    root = tmp_path / "store"
    light = [
        Message(
            "T",
            b"x" * 50 * number,
            properties={
                "INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b" if number % 2 else "%LMQ%a",
                "INNER_MULTI_QUEUE_OFFSET": f"{number},{number // 2}"
                if number % 2
                else f"{number}",
            },
        )
        for number in range(40)
    ]
    with Store(root, segment_size=4096, queue_file_bytes=400) as store:
        for each in light:
            store.log.append(each)
            store.log.append(message(1))
    shutil.rmtree(root / "meta")
    (root / "abort").write_text("12345")

    with Store(root) as store:
        first = store.read("%LMQ%a", 0, 39).offset, store.read("%LMQ%b", 0, 19).offset
        lengths = store.queues.lengths()
    path = root / "consumequeue" / "%LMQ%a" / "0" / f"{400:020}"
    path.write_bytes(bytes(400))
    (root / "checkpoint").unlink()
    with Store(root) as store:
        again = store.read("%LMQ%a", 0, 39).offset, store.read("%LMQ%b", 0, 19).offset
        assert lengths == store.queues.lengths()

    assert first == again
    assert (40, 20) == (lengths["%LMQ%a", 0], lengths["%LMQ%b", 0])
