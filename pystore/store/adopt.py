"""
Taking over a store that another program left, or that has no ``meta/`` yet.

What RocketMQ's rules say of it becomes our truth in one transaction. From then on
our own rules judge the store, also after a crash in the middle: so everything that
those rules will believe is made durable and true before, and what they could not
know again, an end that only evidence showed, is a cut intent.

Rules: docs/crash-safety.md, A3, A7, A8, A10 and A12.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pystore.core.live_page import LivePage
from pystore.fs.atomic import storage_error, sync_descriptor
from pystore.fs.boot import Boot
from pystore.metastore.schema import CUT, EPOCHS, IDENTITY, QUEUES
from pystore.metastore.transaction import WriteTransaction
from pystore.metastore.values import Bounds, QueueBounds, QueueOffsets, StoreFingerprint
from pystore.recovery.foreign_writer import EXPORT_NAMES, Found
from pystore.recovery.plan import RecoveryPlan

__all__ = ["adopt", "prepare_adoption"]


def prepare_adoption(root: Path, folders: Iterable[str], live: LivePage) -> None:
    """
    The steps before the transaction.

    Whoever wrote or copied the files may not have synced them, and our synced end
    will vouch for them. And the ends of the live page were those of another log.

    Args:
        root: the store.
        folders: below it, whose files are synced, and their names.
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
        descriptor = os.open(path, os.O_RDONLY)
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
    Take what was found as the truth (A7, A10).
    """
    for name in EXPORT_NAMES:
        change.intend_export(name, found.contents[name])
        change.settle_export(name)
    change.write(IDENTITY, made.identity)
    change.write(CUT, made.cut)
    boot_id, mount_id = boot.text
    change.store_bounds(
        Bounds(made.synced_end, made.confirm_offset, boot_id, mount_id), QueueOffsets()
    )
    change.leave(StoreFingerprint())
    change.write(QUEUES, QueueBounds())
    if made.cut_bytes:
        # Stale records are known by evidence (A8) that is gone after this.
        change.intend_cut(made.end_offset)
    if change.read(EPOCHS) != made.epochs:
        change.replace_epochs(made.epochs)
