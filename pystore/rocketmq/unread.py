"""
What a store of RocketMQ has that pystore does not read: named, never damage.

Only names of files and folders are looked at, and ``checkpoint``. Nothing is opened for
writing.

Source: RocketMQ 5.1 to 5.5: ``StorePathConfigHelper``, ``StoreCheckpoint``.
"""

from __future__ import annotations

import os
from pathlib import Path

from pystore.errors import FormatError
from pystore.fs.atomic import storage_error
from pystore.fs.layout import CHECKPOINT, CONSUME_QUEUE
from pystore.rocketmq.checkpoint_file import parse_checkpoint

__all__ = ["unread_parts"]

_FOLDERS = {
    "consumequeue_ext": (
        "extensions of queue entries (enableConsumeQueueExt): entries keep their "
        "addresses, which stand in place of tags codes"
    ),
    "consumequeue_rocksdb": "consume queues in RocksDB",
    "batchconsumequeue": "queues of batches (BatchCQ)",
    "timerwheel": "the timer wheel",
    "timerlog": "the log of the timer wheel",
    "rocksdbstore": "index, timers and half messages in RocksDB",
}
_CURRENT = "CURRENT"


def unread_parts(root: Path) -> list[str]:
    """
    Returns one line for each part of a store that pystore does not read.

    Args:
        root: the store.

    Raises:
        StorageError: the system refused.
    """
    try:
        names = set(os.listdir(root))
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("read", root, error) from error
    found = [
        f"{name}: {what}: kept, not read"
        for name, what in _FOLDERS.items()
        if name in names and _is_used(root / name)
    ]
    if (root / CONSUME_QUEUE / _CURRENT).exists():
        found.append(f"{CONSUME_QUEUE}: consume queues in RocksDB: kept, not read")
    if CHECKPOINT in names:
        try:
            note = parse_checkpoint((root / CHECKPOINT).read_bytes()).note
        except FormatError:
            # Opening and verify report a damaged file.
            note = ""
        if note:
            found.append(note)
    return found


def _is_used(path: Path) -> bool:
    return not path.is_dir() or any(path.iterdir())
