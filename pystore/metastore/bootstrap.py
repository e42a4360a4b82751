"""
The first start of a store: ``meta/`` appears complete, or not at all (A14).

It is built as ``meta.new/``, synced, and renamed. So an existing ``meta/`` was
complete once, and what is missing in it is damage, never a new store.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from pystore.errors import InvalidError, PystoreError
from pystore.fs.atomic import SYSTEM, Calls, storage_error, sync_directory, sync_tree
from pystore.fs.boot import place_of
from pystore.fs.layout import META_NAME, SEALS_NAME, TEMPORARY_NAME
from pystore.metastore.database import MetaStore
from pystore.metastore.transaction import WriteTransaction

__all__ = ["create_meta"]

_DRAFT_NAME = "meta.new"


def create_meta(
    store: Path,
    fill: Callable[[Path], object],
    first: Callable[[WriteTransaction], object] | None = None,
    calls: Calls = SYSTEM,
) -> Path:
    """
    Make ``meta/`` in a store that has none.

    What an earlier attempt left is removed first. The caller holds the store's
    lock.

    Args:
        store: the store directory.
        fill: puts further files into the directory it is given; they are synced
            here.
        first: adds to the first records, which are format and place.
        calls: the system calls.

    Returns:
        The path of ``meta/``.

    Raises:
        InvalidError: there is a ``meta/``.
        FullError: no space; there is no ``meta/``.
        StorageError: the system refused.
    """
    meta, draft = store / META_NAME, store / _DRAFT_NAME
    if os.path.lexists(meta):
        raise InvalidError(f"{meta} exists: the store is not new", path=str(meta))
    place = place_of(store)

    def first_records(change: WriteTransaction) -> None:
        change.settle_place(place)
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
        # It names its path already.
        raise
    except OSError as error:
        # The caller gets the path it knows with it.
        raise storage_error("create", meta, error) from error
    sync_directory(store, calls)
    return meta
