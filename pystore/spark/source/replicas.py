"""
The logs behind stores: replicas of one log, and two paths to one store, are one log.

Streams and exports deliver each record of a log once, so they read one replica. Another
one takes over at the same offset, if it has the record before it.

Stores are one log if their ``brokerIdentity`` names the same broker set, or if they
begin a common segment with the same record, byte for byte. Stores of one broker set
that begin a common segment with different records are not: two clusters have the same
names, or nothing that they share is left.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pystore.bindings.row import Check
from pystore.core.scan import check_record
from pystore.errors import PystoreError
from pystore.fs.layout import COMMIT_LOG, IDENTITY_FILE
from pystore.rocketmq.identity_file import parse_identity
from pystore.spark.plan.record_head import read_segment_bytes
from pystore.spark.source.offsets import StreamOffset

__all__ = ["LogReplicas", "find_logs", "with_known_keys"]

_PROOF = Check.OFFSET | Check.BODY | Check.PROPERTY
_NAME_DIGITS = 20


@dataclass(frozen=True, slots=True)
class LogReplicas:
    """
    One log.

    Attributes:
        key: of its positions: ``cluster#set``, or the real path of the first store.
        roots: of its stores.
    """

    key: str
    roots: tuple[str, ...]


class _Store:
    """
    What is known of a store before it is opened.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.broker_set = _broker_set_of(root)
        names = _list(root / COMMIT_LOG)
        self.bases = {
            int(name) for name in names if len(name) == _NAME_DIGITS and name.isdigit()
        }
        self._records: dict[int, bytes | None] = {}

    def record(self, base: int) -> bytes | None:
        """
        The first record of a segment; ``None``: damaged, or there is none.
        """
        if base not in self._records:
            self._records[base] = _first_record(self.root, base)
        return self._records[base]

    def is_replica_of(self, other: _Store) -> bool:
        """
        Whether both are replicas of one log.
        """
        if self.broker_set and other.broker_set and self.broker_set != other.broker_set:
            return False
        for base in sorted(self.bases & other.bases):
            own, theirs = self.record(base), other.record(base)
            if own is not None and theirs is not None:
                return own == theirs
            break
        return bool(self.broker_set) and self.broker_set == other.broker_set


def find_logs(roots: Iterable[Path]) -> list[LogReplicas]:
    """
    Returns the logs of stores, in the order of their first stores.

    Args:
        roots: absolute paths of stores.
    """
    places: dict[tuple[int, int], Path] = {}
    for root in roots:
        status = os.stat(root / COMMIT_LOG)
        places.setdefault((status.st_dev, status.st_ino), root)
    logs: list[list[_Store]] = []
    for root in places.values():
        store = _Store(root)
        of = next((log for log in logs if any(map(store.is_replica_of, log))), None)
        if of is None:
            logs.append([store])
        else:
            of.append(store)
    names = [_key(log) for log in logs]
    return [
        LogReplicas(
            # Two clusters with the same names are told apart by their paths.
            name if names.count(name) == 1 else os.path.realpath(log[0].root),
            tuple(str(store.root) for store in log),
        )
        for name, log in zip(names, logs, strict=True)
    ]


def with_known_keys(
    logs: Sequence[LogReplicas],
    known: Mapping[str, StreamOffset],
    holds: Callable[[LogReplicas, StreamOffset], bool],
) -> tuple[list[LogReplicas], frozenset[str]]:
    """
    Returns the logs with the keys of their positions, and the keys of stores that are
    missing.

    A position may have the path of a store as its key. If a store is at another path
    now, the record at its position proves it.

    Args:
        logs: that exist.
        known: positions by key.
        holds: whether a log has the record at a position.
    """
    named, used = list[LogReplicas](), set[str]()
    for log in logs:
        paths = {log.key, *log.roots, *map(os.path.realpath, log.roots)}
        keys = sorted(paths & known.keys(), key=lambda key: known[key].offset)
        used.update(keys)
        named.append(replace(log, key=keys[-1]) if keys else log)
    left = [key for key in known if key not in used and known[key].record is not None]
    for place, log in enumerate(named):
        if log.key in known:
            continue
        key = next((one for one in left if holds(log, known[one])), None)
        if key is not None:
            left.remove(key)
            used.add(key)
            named[place] = replace(log, key=key)
    return named, frozenset(known.keys() - used)


def _key(log: Sequence[_Store]) -> str:
    broker_set = next((store.broker_set for store in log if store.broker_set), "")
    return broker_set or os.path.realpath(log[0].root)


def _broker_set_of(root: Path) -> str:
    path = root / IDENTITY_FILE
    try:
        identity = parse_identity(path.read_bytes(), str(path))
    except (OSError, PystoreError):
        # A store without a controller has none; records compare damaged ones.
        return ""
    return f"{identity.cluster}#{identity.broker}"


def _first_record(root: Path, base: int) -> bytes | None:
    try:
        size = int.from_bytes(read_segment_bytes(root, base, base, 4))
        data = read_segment_bytes(root, base, base, size)
        check_record(data, base, _PROOF)
    except (OSError, PystoreError, OverflowError, MemoryError):
        # Damaged, blank, or deleted: it proves nothing.
        return None
    return data


def _list(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        # Opening the store has the error.
        return []
