"""
Counts and damage of one segment, as notes from a task to the driver. Pure.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace

import xxhash

__all__ = ["CompactionDamage", "QueueCount", "out_of_order", "parse_note", "queue_hash"]


def queue_hash(topic: str, queue_id: int) -> int:
    """
    Returns a signed 64-bit hash that stands for a queue while Spark sorts.

    Two queues hardly ever have the same hash; if they do, the job ends with an error.
    """
    raw = topic.encode("utf-8", "surrogateescape") + b"\0%d" % queue_id
    return xxhash.xxh3_64_intdigest(raw) - 2**63


def out_of_order(topic: str, queue_id: int, queue_offset: int, before: int) -> str:
    """
    Returns the text of the error that queue offsets do not rise with the log.

    Args:
        topic: of the record.
        queue_id: of the record.
        queue_offset: of the record.
        before: queue offset of an earlier record.
    """
    return (
        f"it has queue offset {queue_offset} of {topic}, queue {queue_id}, but an "
        f"earlier record has queue offset {before}: the latest record of a key cannot "
        "be determined"
    )


@dataclass(frozen=True, slots=True)
class CompactionDamage:
    """
    Why a store cannot be compacted.

    Attributes:
        path: of the segment's file.
        offset: of the damage in the log.
        text: the problem in one line.
    """

    path: str
    offset: int
    text: str

    def pack(self) -> bytes:
        """
        Returns it as JSON.
        """
        return json.dumps({"damage": asdict(self)}).encode()


@dataclass(frozen=True, slots=True)
class QueueCount:
    """
    The records of one queue in one segment, or in all of them.

    Attributes:
        topic: of the queue.
        queue_id: of the queue.
        records: number of records.
        size_bytes: of these records.
        keyless: number of records without keys, which are left out.
        tombstones: number of records with keys and without a body.
        first_queue_offset: of the first record.
        last_queue_offset: of the last record.
        first_offset: offset of the first record in the log.
        last_offset: offset of the last record in the log.
    """

    topic: str
    queue_id: int
    records: int
    size_bytes: int
    keyless: int
    tombstones: int
    first_queue_offset: int
    last_queue_offset: int
    first_offset: int
    last_offset: int

    def pack(self) -> bytes:
        """
        Returns it as JSON.
        """
        return json.dumps(asdict(self)).encode()

    @property
    def name(self) -> str:
        """
        The queue, for people.
        """
        return f"{self.topic}, queue {self.queue_id}"

    def is_behind(self, other: QueueCount) -> bool:
        """
        Whether all its queue offsets are above those of *other*.
        """
        return self.first_queue_offset > other.last_queue_offset

    def plus(self, other: QueueCount) -> QueueCount:
        """
        Returns the sum of both; *other* follows this one in the log.
        """
        summed = ("records", "size_bytes", "keyless", "tombstones")
        sums = {name: getattr(self, name) + getattr(other, name) for name in summed}
        return replace(
            self,
            **sums,
            last_queue_offset=other.last_queue_offset,
            last_offset=other.last_offset,
        )


_FIELDS = {field.name for field in fields(QueueCount)}


def parse_note(raw: bytes) -> QueueCount | CompactionDamage:
    """
    Returns the value that was packed.
    """
    found = json.loads(raw)
    if "damage" in found:
        return CompactionDamage(**found["damage"])
    return QueueCount(**{name: found[name] for name in _FIELDS})
