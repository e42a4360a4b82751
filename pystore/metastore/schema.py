"""
The stored form of the metadata: key, JSON, digest. Pure.

A record is its XXH3-64, then JSON, so that bytes that a disk changed are an error.
The marks of queues are in tables with a row each (`pystore.metastore.mark_table`).
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
from pystore.fs.cut_history import CutHistory
from pystore.fs.layout import META_ADVICE
from pystore.metastore.mark_table import MarkTable, TableHead
from pystore.metastore.values import (
    NO_FORMAT,
    NOT_LOSSY,
    Bounds,
    CleanMark,
    CutState,
    Exports,
    Identity,
    JoinMark,
    QueueBounds,
    QueueMark,
    StoreFingerprint,
    StoreFormat,
)
from pystore.replicaset import Incarnation
from pystore.rocketmq.checkpoint_file import CheckpointTimes
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity

__all__ = [
    "BOUNDS",
    "CLEAN",
    "CLUSTER",
    "CUT",
    "DISPATCHED",
    "EPOCHS",
    "EXPORTS",
    "FINGERPRINT",
    "FORMAT",
    "HEADS",
    "IDENTITY",
    "INCARNATION",
    "JOINED",
    "KEYS",
    "LENGTHS",
    "LOSSY",
    "PLACE",
    "POSITIONS",
    "PROMISED",
    "QUEUES",
    "STARTS",
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


def _old_marks(columns: dict[str, list[list[int]]]) -> tuple[QueueMark, ...]:
    return tuple(
        QueueMark(topic, queue_id, value)
        for topic, (queues, values) in columns.items()
        for queue_id, value in zip(queues, values, strict=True)
    )


def _head_from_json(stored: Json) -> TableHead:
    as_of, rows, *proof = stored
    if proof:
        return TableHead(as_of, int(rows), int(proof[0], 16))
    # Older pystores kept all marks in this record.
    return TableHead(as_of, old=_old_marks(rows))


def _fingerprint_to_json(left: StoreFingerprint) -> Json:
    # Most segments are as long as the one before, and follow it: [base, size, count].
    runs: list[list[int]] = []
    for base, size in left.segments:
        last = runs[-1] if runs else None
        if last and last[1] == size and last[0] + last[2] * size == base:
            last[2] += 1
        else:
            runs.append([base, size, 1])
    return [runs]


def _fingerprint_from_json(stored: Json) -> StoreFingerprint:
    segments, *old_lengths = stored
    if old_lengths:
        # Older pystores kept the lengths of the queues here.
        pairs = tuple((int(base), int(size)) for base, size in segments)
        return StoreFingerprint(pairs, _old_marks(old_lengths[0]))
    return StoreFingerprint(
        tuple(
            (base + number * size, size)
            for base, size, count in segments
            for number in range(count)
        )
    )


def _clean_to_json(mark: CleanMark | None) -> Json:
    if mark is None:
        return None
    digest = mark.last_digest.hex()
    return [mark.end_offset, mark.last_offset, digest, mark.physic_ms]


def _clean_from_json(stored: Json) -> CleanMark | None:
    if stored is None:
        return None
    end, last, digest, *times = stored
    # Older pystores stored no time.
    return CleanMark(end, last, bytes.fromhex(digest), *times)


def _times_to_json(times: CheckpointTimes | None) -> Json:
    if times is None:
        return None
    return [times.physic_ms, times.logics_ms, times.index_ms, times.logics_offset]


def _times_from_json(stored: Json) -> CheckpointTimes | None:
    if stored is None:
        return None
    physic, logics, index, logics_offset = stored
    return CheckpointTimes(physic, logics, index, logics_offset=logics_offset)


def _cut_from_json(stored: Json) -> CutState:
    generation, intent, *history = stored
    # Older pystores kept no history: it begins with the next cut.
    since, cuts = history or (generation, ())
    kept = tuple((int(number), int(offset)) for number, offset in cuts)
    return CutState(generation, intent, CutHistory(since, generation, kept))


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
JOINED: MetaKey[JoinMark] = MetaKey(
    "joined",
    JoinMark(),
    lambda it: [it.floor, it.has_queue_offsets],
    lambda stored: JoinMark(stored[0], stored[1]),
)
CLUSTER: MetaKey[str] = MetaKey("cluster", "", str, str)
LOSSY: MetaKey[int] = MetaKey("lossy", NOT_LOSSY, int, int)
STARTS: MetaKey[tuple[Incarnation, ...]] = MetaKey(
    "starts",
    (),
    lambda it: [[one.counter, one.bits.hex()] for one in it],
    lambda stored: tuple(Incarnation(one, bytes.fromhex(bits)) for one, bits in stored),
)
"""The start that controllers registered last, and all later ones (B1)."""
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
POSITIONS = MarkTable("positions", only_rises=True)
LENGTHS = MarkTable("lengths")
HEADS: dict[MarkTable, MetaKey[TableHead]] = {
    table: MetaKey(
        table.name,
        TableHead(),
        lambda it: [it.as_of, it.rows, f"{it.proof:016x}"],
        _head_from_json,
    )
    for table in (POSITIONS, LENGTHS)
}
"""The record of each table; its rows have keys of their own."""
QUEUES: MetaKey[QueueBounds] = MetaKey(
    "queues",
    QueueBounds(),
    lambda it: [it.synced_end, it.synced_ms],
    lambda stored: QueueBounds(stored[0], stored[1]),
)
CUT: MetaKey[CutState] = MetaKey(
    "cut",
    CutState(),
    lambda it: [it.generation, it.intent, it.history.since, it.history.cuts],
    _cut_from_json,
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
DISPATCHED: MetaKey[CheckpointTimes | None] = MetaKey(
    "dispatched", None, _times_to_json, _times_from_json
)
"""The times of `checkpoint` when a killed RocketMQ left the store; `None`: none did.

What follows them RocketMQ has to dispatch again: to its key index, timer wheel and
compaction, which pystore does not write."""
FINGERPRINT: MetaKey[StoreFingerprint] = MetaKey(
    "left", StoreFingerprint(), _fingerprint_to_json, _fingerprint_from_json
)

KEYS: tuple[MetaKey[Any], ...] = (
    FORMAT,
    INCARNATION,
    PLACE,
    IDENTITY,
    PROMISED,
    JOINED,
    LOSSY,
    STARTS,
    CLUSTER,
    EPOCHS,
    BOUNDS,
    QUEUES,
    CUT,
    EXPORTS,
    CLEAN,
    DISPATCHED,
    FINGERPRINT,
)
"""All records but those of tables."""
