"""
The stored form of the metadata: key, JSON, digest. Pure.

A record is its XXH3-64, then JSON, so that bytes that a disk changed are an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import xxhash

from pystore.epochs.table import NO_EPOCH, EpochTable
from pystore.errors import FormatError
from pystore.fs.boot import StorePlace
from pystore.fs.layout import META_ADVICE
from pystore.metastore.values import (
    NO_FORMAT,
    Bounds,
    CleanMark,
    CutState,
    Exports,
    Identity,
    QueueBounds,
    QueueMark,
    QueueOffsets,
    StoreFingerprint,
    StoreFormat,
)
from pystore.replicaset import Incarnation
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity

__all__ = [
    "BOUNDS",
    "CLEAN",
    "CUT",
    "EPOCHS",
    "EXPORTS",
    "FINGERPRINT",
    "FORMAT",
    "IDENTITY",
    "INCARNATION",
    "PLACE",
    "POSITIONS",
    "PROMISED",
    "QUEUES",
    "MetaKey",
]

T = TypeVar("T")
Json = Any

_PROOF_BYTES = 8


@dataclass(frozen=True, slots=True)
class MetaKey(Generic[T]):
    """
    A record: its key, its default, and its JSON form.
    """

    name: str
    default: T
    to_json: Callable[[T], Json]
    from_json: Callable[[Json], T]

    @property
    def key(self) -> bytes:
        """
        The key in LMDB.
        """
        return self.name.encode()

    def encode(self, value: T) -> bytes:
        """
        The stored form: XXH3-64 and JSON.
        """
        text = json.dumps(self.to_json(value), separators=(",", ":"), sort_keys=True)
        content = text.encode()
        return xxhash.xxh3_64_digest(content) + content

    def decode(self, stored: bytes | None, path: str) -> T:
        """
        The value of a stored form; the default for ``None``.

        Raises:
            FormatError: the bytes do not prove themselves, or are of no known
                form.
        """
        if stored is None:
            return self.default
        content = stored[_PROOF_BYTES:]
        if stored[:_PROOF_BYTES] != xxhash.xxh3_64_digest(content):
            raise FormatError(
                f"{path}: the record '{self.name}' is damaged: {META_ADVICE}", path=path
            )
        try:
            return self.from_json(json.loads(content))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            # Whole bytes of another form: a defect, or a newer pystore.
            raise FormatError(
                f"{path}: the record '{self.name}' has an unknown form "
                f"({type(error).__name__}: {error}): {META_ADVICE}",
                path=path,
            ) from error


def _identity_to_json(identity: Identity) -> Json:
    if identity is None:
        return None
    if isinstance(identity, TemporaryIdentity):
        return [*_identity_to_json(identity.identity), identity.register_check_code]
    return [identity.cluster, identity.broker, identity.broker_id]


def _identity_from_json(stored: Json) -> Identity:
    if stored is None:
        return None
    identity = BrokerIdentity(stored[0], stored[1], stored[2])
    return TemporaryIdentity(identity, stored[3]) if len(stored) > 3 else identity


def _marks_to_json(marks: tuple[QueueMark, ...]) -> dict[str, list[list[int]]]:
    # A topic's queues stand together: names take most of the space.
    columns: dict[str, list[list[int]]] = {}
    for topic, queue_id, value in marks:
        queues, values = columns.setdefault(topic, [[], []])
        queues.append(queue_id)
        values.append(value)
    return columns


def _marks_from_json(columns: dict[str, list[list[int]]]) -> tuple[QueueMark, ...]:
    return tuple(
        QueueMark(topic, queue_id, value)
        for topic, (queues, values) in columns.items()
        for queue_id, value in zip(queues, values, strict=True)
    )


def _fingerprint_to_json(left: StoreFingerprint) -> Json:
    return [left.segments, _marks_to_json(left.queue_lengths)]


def _fingerprint_from_json(stored: Json) -> StoreFingerprint:
    segments, lengths = stored
    return StoreFingerprint(
        tuple((int(base), int(size)) for base, size in segments),
        _marks_from_json(lengths),
    )


def _clean_to_json(mark: CleanMark | None) -> Json:
    if mark is None:
        return None
    return [mark.end_offset, mark.last_offset, mark.last_digest.hex()]


def _clean_from_json(stored: Json) -> CleanMark | None:
    if stored is None:
        return None
    return CleanMark(stored[0], stored[1], bytes.fromhex(stored[2]))


FORMAT: MetaKey[StoreFormat] = MetaKey(
    "format",
    NO_FORMAT,
    lambda it: [it.version, it.incompatible, it.compatible],
    lambda stored: StoreFormat(stored[0], stored[1], stored[2]),
)
INCARNATION: MetaKey[Incarnation] = MetaKey(
    "incarnation",
    Incarnation(),
    lambda it: [it.counter, it.bits.hex()],
    lambda stored: Incarnation(stored[0], bytes.fromhex(stored[1])),
)
PLACE: MetaKey[StorePlace] = MetaKey(
    "place",
    StorePlace(),
    lambda it: [it.device, it.inode],
    lambda stored: StorePlace(stored[0], stored[1]),
)
IDENTITY: MetaKey[Identity] = MetaKey(
    "identity", None, _identity_to_json, _identity_from_json
)
PROMISED: MetaKey[int] = MetaKey("promised", NO_EPOCH, int, int)
EPOCHS: MetaKey[EpochTable] = MetaKey(
    "epochs",
    EpochTable(),
    lambda it: it.pairs(),
    lambda stored: EpochTable.of((epoch, start) for epoch, start in stored),
)
BOUNDS: MetaKey[Bounds] = MetaKey(
    "bounds",
    Bounds(),
    lambda it: [it.synced_end, it.confirm_offset, it.boot_id, it.mount_id],
    lambda stored: Bounds(stored[0], stored[1], stored[2], stored[3]),
)
POSITIONS: MetaKey[QueueOffsets] = MetaKey(
    "positions",
    QueueOffsets(),
    lambda it: [it.as_of, _marks_to_json(it.next_offsets)],
    lambda stored: QueueOffsets(stored[0], _marks_from_json(stored[1])),
)
QUEUES: MetaKey[QueueBounds] = MetaKey(
    "queues",
    QueueBounds(),
    lambda it: [it.synced_end, it.synced_ms],
    lambda stored: QueueBounds(stored[0], stored[1]),
)
CUT: MetaKey[CutState] = MetaKey(
    "cut",
    CutState(),
    lambda it: [it.generation, it.intent],
    lambda stored: CutState(stored[0], stored[1]),
)
EXPORTS: MetaKey[Exports] = MetaKey(
    "exports",
    Exports(),
    lambda it: {name: [one.hex() for one in all_] for name, all_ in it.digests.items()},
    lambda stored: Exports(
        {
            name: tuple(bytes.fromhex(one) for one in all_)
            for name, all_ in stored.items()
        }
    ),
)
CLEAN: MetaKey[CleanMark | None] = MetaKey(
    "clean", None, _clean_to_json, _clean_from_json
)
FINGERPRINT: MetaKey[StoreFingerprint] = MetaKey(
    "left", StoreFingerprint(), _fingerprint_to_json, _fingerprint_from_json
)
