"""
A store of very many topics: the small truth has a row for each and never gets full.
"""

from __future__ import annotations

from pathlib import Path

from pystore.message.message import Message
from pystore.metastore.database import _MAP_BYTES
from pystore.store.commit_log import CommitLog

TOPICS = 30_000
MILLION = 1_000_000


def topic(number: int) -> str:
    """
    A name of the largest length that RocketMQ takes in V1 records.
    """
    return f"{number:0127d}"


def test_a_million_long_topics_fit_the_metadata(tmp_path: Path) -> None:
    """
    Each topic takes few bytes of the database, so its address space lasts for far more
    than a million; queue offsets go on after a clean close.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=1 << 25, flush_interval_ms=0) as log:
        for first in range(0, TOPICS, 1000):
            log.append_batch(
                [Message(topic(first + number), b"") for number in range(1000)]
            )
        log.keep()
    size = (root / "meta/lmdb/data.mdb").stat().st_size
    assert size * (MILLION // TOPICS + 1) < _MAP_BYTES // 2

    with CommitLog(root) as log:
        assert log.recovery.is_clean
        for number in (0, TOPICS // 2, TOPICS - 1):
            assert 1 == log.append(Message(topic(number), b"")).queue_offset
