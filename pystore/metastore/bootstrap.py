"""
The creation of ``meta/``: it appears complete, or not at all (A14).

It is made as ``meta.new/``, synced, and renamed. So an existing ``meta/`` was complete
once, and a missing file in it is damage, never a new store.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from pystore.errors import InvalidError, PystoreError
from pystore.fs.atomic import SYSTEM, Calls, storage_error, sync_directory, sync_tree
from pystore.fs.boot import place_of
from pystore.fs.layout import META_DRAFT_NAME, META_NAME, SEALS_NAME, TEMPORARY_NAME
from pystore.metastore.database import MetaStore
from pystore.metastore.transaction import WriteTransaction

__all__ = ["create_meta"]


def create_meta(
    store: Path,
    fill: Callable[[Path], object],
    first: Callable[[WriteTransaction], object] | None = None,
    calls: Calls = SYSTEM,
) -> Path:
    """
    Create ``meta/`` in a store that has none.

    The files of an earlier attempt are removed first. The caller holds the lock of the
    store.

    Args:
        store: the store directory.
        fill: writes more files into the given directory; they are synced here.
        first: adds records to the first ones, which are format and place.
        calls: the system calls.

    Returns:
        The path of ``meta/``.

    Raises:
        InvalidError: ``meta/`` exists.
        FullError: no space; ``meta/`` was not created.
        StorageError: the system refused.
    """
    meta, draft = store / META_NAME, store / META_DRAFT_NAME
    if os.path.lexists(meta):
        raise InvalidError(f"{meta} exists: the store is not new", path=str(meta))
    place = place_of(store)

    def first_records(change: WriteTransaction) -> None:
        change.store_place(place)
        if first is not None:
            first(change)

    try:
        if os.path.lexists(draft):
            shutil.rmtree(draft)
        for directory in (draft, draft / SEALS_NAME, draft / TEMPORARY_NAME):
            directory.mkdir()
        MetaStore.create(draft, first_records).close()
        fill(draft)
        sync_tree(draft, calls)
        calls.rename(draft, meta)
    except PystoreError:
        # It names its path.
        raise
    except OSError as error:
        # The error of the system may name another path.
        raise storage_error("create", meta, error) from error
    sync_directory(store, calls)
    return meta
