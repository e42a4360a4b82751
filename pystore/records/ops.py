"""
The operations of a commit: checks, puts, deletes and holds. Pure.

Source: docs/record-store.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pystore.errors import InvalidError

__all__ = [
    "ABSENT",
    "COMMIT_BYTES_MAX",
    "KEY_BYTES_MAX",
    "CheckVersion",
    "Delete",
    "Hold",
    "KeyOps",
    "Op",
    "Put",
    "by_key",
    "check_bound",
    "check_key",
    "commit_bytes",
]

ABSENT: Final = 0
"""The version of a record that does not exist."""

KEY_BYTES_MAX = 255
"""The longest key, in UTF-8: LMDB accepts it, and ZooKeeper lists thousands of them."""

COMMIT_BYTES_MAX = 900_000
"""The largest commit, counted by `by_key`: ZooKeeper refuses requests of 1 MiB."""

_OP_BYTES = 300  # a path and an access list in ZooKeeper's encoding
_NAME_BYTES = 3  # at most, for one byte of a key


@dataclass(frozen=True, slots=True)
class CheckVersion:
    """
    Requires that the record still has this version; `ABSENT`: that it does not exist.
    """

    key: str
    version: int


@dataclass(frozen=True, slots=True)
class Put:
    """
    Writes the value of a record, new or not. A hold of the record stays.
    """

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """
    Deletes a record, if it exists.
    """

    key: str


@dataclass(frozen=True, slots=True)
class Hold:
    """
    Writes a record that disappears when its store closes or dies.

    It fails like a check if the record exists and this store does not hold it.
    """

    key: str
    value: bytes


Op = CheckVersion | Put | Delete | Hold

_WITH_VALUE = (Put, Hold)


@dataclass(frozen=True, slots=True)
class KeyOps:
    """
    The operations of one commit on one key.

    Attributes:
        version: the required one; ``None``: any.
        write: the change; ``None``: none.
    """

    version: int | None
    write: Put | Delete | Hold | None

    def changes(self, *, is_there: bool) -> bool:
        """
        Returns whether it changes anything: deleting a missing record does not.
        """
        return is_there if isinstance(self.write, Delete) else self.write is not None


@lru_cache(maxsize=1024)
def check_key(key: str) -> bytes:
    """
    Returns the stored form of a key.

    Raises:
        InvalidError: the key is empty, too long, or has control characters.
    """
    try:
        raw = key.encode()
    except UnicodeEncodeError as error:
        # Half of a surrogate pair is not text.
        raise InvalidError(f"the key {key!r} is not text: {error.reason}") from error
    if not 0 < len(raw) <= KEY_BYTES_MAX:
        raise InvalidError(
            f"the key {key[:40]!r} has {len(raw)} bytes: 1 to {KEY_BYTES_MAX} "
            "are allowed"
        )
    if min(raw) < 32:
        raise InvalidError(f"the key {key!r} contains a control character")
    return raw


def check_bound(text: str) -> bytes:
    """
    Returns the stored form of a scan's bound: any text, also an empty one.

    Raises:
        InvalidError: the text has half of a surrogate pair.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        # JSON of a peer may contain it.
        raise InvalidError(f"{text!r} is not text: {error.reason}") from error


def commit_bytes(ops: Iterable[Op]) -> int:
    """
    Returns the size of a commit, which may have `COMMIT_BYTES_MAX`.

    Raises:
        InvalidError: a key is none.
    """
    return sum(
        _OP_BYTES
        + _NAME_BYTES * len(check_key(op.key))
        + (len(op.value) if isinstance(op, _WITH_VALUE) else 0)
        for op in ops
    )


def by_key(ops: Sequence[Op]) -> dict[str, KeyOps]:
    """
    Groups the operations of a commit by key, in the order of the keys.

    Raises:
        InvalidError: a key occurs twice, a version is negative, or the commit is too
            large.
    """
    checks: dict[str, int] = {}
    writes: dict[str, Put | Delete | Hold] = {}
    size = commit_bytes(ops)
    for op in ops:
        twice = op.key in (checks if isinstance(op, CheckVersion) else writes)
        if twice:
            raise InvalidError(f"a commit names the key {op.key!r} twice")
        if isinstance(op, CheckVersion):
            if op.version < 0:
                raise InvalidError(
                    f"the key {op.key!r} cannot have version {op.version}"
                )
            checks[op.key] = op.version
            continue
        writes[op.key] = op
    if size > COMMIT_BYTES_MAX:
        raise InvalidError(
            f"a commit of {len(ops)} operations and {size} bytes is too large: "
            f"{COMMIT_BYTES_MAX} bytes are allowed, so divide it"
        )
    keys = sorted(checks.keys() | writes.keys(), key=str.encode)
    return {key: KeyOps(checks.get(key), writes.get(key)) for key in keys}
