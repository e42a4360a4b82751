"""
What a commit is made of: checks, puts, deletes and holds. Pure.

Source: docs/record-store.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
]

ABSENT: Final = 0
"""The version of a record that is not there."""

KEY_BYTES_MAX = 255
"""What LMDB takes as a key and ZooKeeper lists by the thousand; of UTF-8."""

COMMIT_BYTES_MAX = 900_000
"""ZooKeeper closes the connection on a request of 1 MiB; counted by `by_key`."""

_OP_BYTES = 300  # a path and an access list, as ZooKeeper spells them out
_NAME_BYTES = 3  # of one byte of a key, at most


@dataclass(frozen=True, slots=True)
class CheckVersion:
    """
    The record is still at this version; `ABSENT`: it is not there.
    """

    key: str
    version: int


@dataclass(frozen=True, slots=True)
class Put:
    """
    The record has this value, new or not. Who holds it goes on holding it.
    """

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """
    The record is not there.
    """

    key: str


@dataclass(frozen=True, slots=True)
class Hold:
    """
    A put that disappears when the store that committed it closes or dies.

    It fails like a check where the record is there and is not held by this store.
    """

    key: str
    value: bytes


Op = CheckVersion | Put | Delete | Hold


@dataclass(frozen=True, slots=True)
class KeyOps:
    """
    What one commit says of one key.

    Attributes:
        version: what it must be, or ``None``: anything.
        write: what is done to it, or ``None``: nothing.
    """

    version: int | None
    write: Put | Delete | Hold | None

    def changes(self, *, is_there: bool) -> bool:
        """
        Whether it writes: deleting what is not there does not.
        """
        return is_there if isinstance(self.write, Delete) else self.write is not None


def check_key(key: str) -> bytes:
    """
    The key as it is stored.

    Raises:
        InvalidError: empty, too long, or with characters below the space.
    """
    try:
        raw = key.encode()
    except UnicodeEncodeError as error:
        # Half of a surrogate pair is no text.
        raise InvalidError(f"the key {key!r} is no text: {error.reason}") from error
    if not 0 < len(raw) <= KEY_BYTES_MAX:
        raise InvalidError(
            f"the key {key[:40]!r} has {len(raw)} bytes: 1 to {KEY_BYTES_MAX} "
            "are allowed"
        )
    if min(raw) < 32:
        raise InvalidError(f"the key {key!r} holds a control character")
    return raw


def check_bound(text: str) -> bytes:
    """
    A bound of a scan as keys are compared with it: any text, also none.

    Raises:
        InvalidError: half of a surrogate pair, with which no key begins.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        # JSON of a peer may hold it.
        raise InvalidError(f"{text!r} is no text: {error.reason}") from error


def by_key(ops: Sequence[Op]) -> dict[str, KeyOps]:
    """
    What a commit says of each key, in the order of the keys.

    Raises:
        InvalidError: a key twice, a version below 0, or too much for one commit.
    """
    checks: dict[str, int] = {}
    writes: dict[str, Put | Delete | Hold] = {}
    size = 0
    for op in ops:
        size += _OP_BYTES + _NAME_BYTES * len(check_key(op.key))
        twice = op.key in (checks if isinstance(op, CheckVersion) else writes)
        if twice:
            raise InvalidError(f"a commit names the key {op.key!r} twice")
        if isinstance(op, CheckVersion):
            if op.version < 0:
                raise InvalidError(f"the key {op.key!r} never has version {op.version}")
            checks[op.key] = op.version
            continue
        writes[op.key] = op
        if not isinstance(op, Delete):
            size += len(op.value)
    if size > COMMIT_BYTES_MAX:
        raise InvalidError(
            f"a commit of {len(ops)} operations and {size} bytes is too large: "
            f"{COMMIT_BYTES_MAX} are allowed, so divide it"
        )
    keys = sorted(checks.keys() | writes.keys(), key=str.encode)
    return {key: KeyOps(checks.get(key), writes.get(key)) for key in keys}
