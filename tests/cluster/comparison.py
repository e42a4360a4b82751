"""
What has to be true of the stores of a set, when everything has ended.
"""

from __future__ import annotations

from pathlib import Path

from cluster.brokers import BROKERS, Brokers

from pystore.store.commit_log import CommitLog
from pystore.verify import verify_store

__all__ = ["acknowledged", "check_stores"]


def acknowledged(path: Path) -> list[tuple[int, int, str]]:
    """
    Returns what a broker wrote down: offset, size and key of each record.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    whole = [line.split() for line in lines if line.endswith("\n")]
    return [(int(offset), int(size), key) for offset, size, key in whole]


def check_stores(brokers: Brokers) -> int:
    """
    All stores verify, hold the same bytes and epochs, and every acknowledged record.

    Returns:
        How many records were acknowledged.
    """
    acked = [it for one in BROKERS for it in acknowledged(brokers.acks(one))]
    epochs = set()
    first = _log_bytes(brokers.store(BROKERS[0]))
    for broker_id in BROKERS:
        root = brokers.store(broker_id)
        assert [] == verify_store(root).damages, broker_id
        # What every member closed with was confirmed, so all of it is compared.
        assert first == _log_bytes(root), broker_id
        with CommitLog(root) as log:
            epochs.add(log.epochs)
            assert log.confirm_offset == log.end_offset == len(first)
            missing = [it for it in acked if not _holds(log, *it)]
        assert [] == missing[:10], broker_id
    assert 1 == len(epochs)
    offsets = [offset for offset, _, _ in acked]
    assert len(offsets) == len(set(offsets))
    return len(acked)


def _holds(log: CommitLog, offset: int, size: int, key: str) -> bool:
    if offset + size > log.end_offset:
        return False
    record = log.read(offset)
    return (size, key) == (record.size, record.keys)


def _log_bytes(root: Path) -> bytes:
    with CommitLog(root, mode="r") as log:
        return b"".join(bytes(block.view) for block in log.blocks())
