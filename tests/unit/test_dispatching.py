"""
Queues reach the log's end, whoever closes the store.
"""

from __future__ import annotations

from pathlib import Path

from stores import SEGMENT, fill, kill_while, message

from pystore.log import CommitLog
from pystore.queues import ConsumeQueues
from pystore.starting import queue_file_size_of
from pystore.store import Store


def _length(root: Path, queue_id: int = 0) -> int:
    with ConsumeQueues(root, queue_file_size_of(root)) as queues:
        queues.load()
        queue = queues.get("Topic", queue_id)
        assert queue is not None
        return queue.max_index


def test_a_log_that_closes_leaves_existing_queues_complete(tmp_path: Path) -> None:
    """
    A Java broker would skip the record at its dispatch point otherwise.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        fill(store.log, 30)
    with CommitLog(root) as log:
        fill(log, 30, first=30)

    assert 20 == _length(root)
    with Store(root) as store:
        assert store.log.recovery.is_clean
        assert message(59).body == store.read("Topic", 2, 19).body


def test_a_log_without_queues_makes_none(tmp_path: Path) -> None:
    """
    Whoever wants only a log gets only a log.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 30)

    assert not (root / "consumequeue").exists()


def test_entries_that_may_be_lost_are_made_again(tmp_path: Path) -> None:
    """
    After a kill the queues are cut to what was synced and dispatched again.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        fill(store.log, 30)

    kill_while(root, lambda log: fill(log, 300, first=30))
    with Store(root) as store:
        assert (0, 110) == store.queue_range("Topic", 0)
        assert message(327).body == store.read("Topic", 0, 109).body
