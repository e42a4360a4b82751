"""
Where and when a store that was unpacked stands, as far as its ``meta/`` tells.

Two things in it are bound to a host: the place of the directory (docs/format.md, key
``place``), by which a copy is known, and the boot and mount in which the mapped ends
hold. An unpacked store is a copy, and its own bounds are void; with these records
changed it is the store itself, and its bounds hold.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import xxhash

import pystore

__all__ = ["PLACES", "place"]

_BOOT_AND_MOUNT = slice(24, 48)
"""Of the live page: the boot id, 16 bytes, and the mount id, 8."""

_NO_BOOT = b"\x5a" * 16
"""The id of no boot of any machine."""


def _as_a_copy(store: Path) -> None:
    """
    As it was unpacked, and in no boot that its writer knew.
    """
    _leave_boot(store)


def _after_another_boot(store: Path) -> None:
    """
    The machine was started again: what the live page says is void.
    """
    _settle(store)
    _leave_boot(store)


def _in_the_same_boot(store: Path) -> None:
    """
    The page cache is the one that the writer left.
    """
    _settle(store)
    other = store.with_name("of-this-boot")
    with pystore.CommitLog(other):
        words = _live(other).read_bytes()[_BOOT_AND_MOUNT]
    _set_boot(store, words)


PLACES: dict[str, Callable[[Path], None]] = {
    "a copy": _as_a_copy,
    "after another boot": _after_another_boot,
    "in the same boot": _in_the_same_boot,
}


def place(store: Path, name: str) -> Path:
    """
    Makes a store stand as one of `PLACES` says, and returns it.
    """
    PLACES[name](store)
    return store


def _live(store: Path) -> Path:
    return store / "meta" / "live"


def _settle(store: Path) -> None:
    status = store.stat()
    _change(store, b"place", lambda _: [status.st_dev, status.st_ino])


def _leave_boot(store: Path) -> None:
    words = _live(store).read_bytes()[_BOOT_AND_MOUNT]
    _set_boot(store, _NO_BOOT + words[16:])


def _set_boot(store: Path, words: bytes) -> None:
    page = bytearray(_live(store).read_bytes())
    page[_BOOT_AND_MOUNT] = words
    _live(store).write_bytes(page)
    mount = str(int.from_bytes(words[16:], sys.byteorder))
    _change(store, b"bounds", lambda it: [*it[:2], words[:16].hex(), mount])


def _change(store: Path, key: bytes, changed: Callable[[Any], Any]) -> None:
    """
    Changes a record of the metastore (docs/format.md, 3.2).
    """
    path = str(store / "meta" / "lmdb")
    with lmdb.open(path) as database, database.begin(write=True) as transaction:
        stored = transaction.get(key)
        assert stored is not None, key
        value = changed(json.loads(stored[8:]))
        content = json.dumps(value, separators=(",", ":")).encode()
        transaction.put(key, xxhash.xxh3_64_digest(content) + content)
