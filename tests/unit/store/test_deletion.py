"""
What a deletion of old segments leaves in the metadata.
"""

from __future__ import annotations

from pathlib import Path

from lib.store.stores import SEGMENT, fill, kill_while, message

from pystore.metastore.schema import FINGERPRINT, HEADS, POSITIONS
from pystore.store.commit_log import CommitLog
from pystore.store.deletion import _keep_last_offsets


def test_the_segments_that_stay_are_stored_and_their_queues_go_on(
    tmp_path: Path,
) -> None:
    """
    A queue whose records are all gone takes no offset twice.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        log.append(message(0, topic="Once"))
        fill(log, 1000)
        assert 2 == log.delete_before(2 * SEGMENT)
        left = log.writer.metastore.read(FINGERPRINT).segments
        assert [2 * SEGMENT, 3 * SEGMENT] == [base for base, _ in left]
        assert 1 == log.append(message(0, topic="Once")).queue_offset


def test_the_last_offsets_of_deleted_records_are_enough_for_a_deletion(
    tmp_path: Path,
) -> None:
    """
    On a full disk no others are stored; an opening finds those in the log.
    """
    root = tmp_path / "store"

    def work(log: CommitLog) -> None:
        for number in range(50):
            log.append(message(number, topic=f"once {number}"))
        fill(log, 1000)
        _keep_last_offsets(log.writer, SEGMENT)
        with log.writer.metastore.view() as view:
            assert {f"once {n}" for n in range(50)} == {
                mark.topic for mark in view.marks(POSITIONS).next_offsets
            }
        assert 0 == log.writer.metastore.read(HEADS[POSITIONS]).as_of
        assert 1 == log.writer.log.delete_before(SEGMENT)

    kill_while(root, work)
    with CommitLog(root, segment_size=SEGMENT) as log:
        assert SEGMENT == log.min_offset
        queues, _ = log.writer.log.queues_fill()
        assert 53 == len(queues)
        assert 1 == queues["once 7", 1]
        assert {334, 333} == {queues["Topic", at] for at in range(3)}
