"""
Adoption of a store with a foreign writer, or without ``meta/``.

The result of RocketMQ's rules becomes the metadata in one transaction. After it
pystore's rules apply, also after a crash in the middle. So everything that those rules
rely on is durable before the transaction; and an end that only the evidence showed is
stored as a cut intent.

Rules: docs/crash-safety.md, A3, A7, A8, A10 and A12.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pystore.core.live_page import LivePage
from pystore.fs.atomic import storage_error, sync_descriptor
from pystore.fs.boot import Boot
from pystore.fs.layout import ABORT
from pystore.metastore.schema import (
    CUT,
    DISPATCHED,
    EPOCHS,
    IDENTITY,
    LENGTHS,
    POSITIONS,
    QUEUES,
)
from pystore.metastore.transaction import WriteTransaction
from pystore.metastore.values import Bounds, QueueBounds, QueueOffsets, StoreFingerprint
from pystore.recovery.foreign_writer import EXPORT_NAMES, Found, is_our_abort
from pystore.recovery.plan import RecoveryPlan
from pystore.rocketmq.checkpoint_file import CheckpointTimes

__all__ = ["adopt", "prepare_adoption"]


def prepare_adoption(root: Path, folders: Iterable[str], live: LivePage) -> None:
    """
    The steps before the transaction.

    The other program may not have synced the files, and the new synced end will cover
    them. The ends in the live page are not valid for this log.

    Args:
        root: the store.
        folders: below it; their files and names are synced.
        live: the page, open for writing.

    Raises:
        StorageError: the system refused; nothing was changed.
    """
    for folder in folders:
        for path, _, names in os.walk(root / folder, topdown=False):
            for name in names:
                _sync(Path(path, name))
            _sync(Path(path))
    live.begin(live.read()._replace(boot_id=bytes(16)))


def _sync(path: Path) -> None:
    try:
        # A pipe is not waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            sync_descriptor(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # The error of the system does not name the path.
        raise storage_error("sync", path, error) from error


def adopt(
    change: WriteTransaction, made: RecoveryPlan, found: Found, boot: Boot
) -> None:
    """
    Store the findings as the metadata (A7, A10).
    """
    for name in EXPORT_NAMES:
        change.intend_export(name, found.contents[name])
        change.settle_export(name)
    if not is_our_abort(change, found.contents[ABORT]):
        times = found.read().times or CheckpointTimes()
        change.write(DISPATCHED, times if found.is_abort else None)
    change.write(IDENTITY, made.identity)
    change.write(CUT, made.cut)
    boot_id, mount_id = boot.text
    change.store_bounds(Bounds(made.synced_end, made.confirm_offset, boot_id, mount_id))
    change.write_marks(POSITIONS, made.positions)
    change.store_fingerprint(StoreFingerprint())
    change.write_marks(LENGTHS, QueueOffsets())
    change.write(QUEUES, QueueBounds())
    if made.cut_bytes:
        # Only the evidence shows stale records (A8), and it is gone after this.
        change.intend_cut(made.end_offset)
    if change.read(EPOCHS) != made.epochs:
        change.replace_epochs(made.epochs)
