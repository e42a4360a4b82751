"""
What a task counted in one segment, or found wrong: notes that travel. Pure.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace

import xxhash

__all__ = ["CompactionDamage", "QueueCount", "out_of_order", "parse_note", "queue_hash"]


def queue_hash(topic: str, queue_id: int) -> int:
    """
    Returns 64 bits, signed, that stand for a queue while Spark sorts.

    That two queues have the same is all but impossible, and is found out.
    """
    raw = topic.encode("utf-8", "surrogateescape") + b"\0%d" % queue_id
    return xxhash.xxh3_64_intdigest(raw) - 2**63


def out_of_order(topic: str, queue_id: int, queue_offset: int, before: int) -> str:
    """
    Returns what is wrong where queue offsets do not rise with the log.

    Args:
        topic: of the record.
        queue_id: of the record.
        queue_offset: of the record.
        before: what the queue had reached.
    """
    return (
        f"it has queue offset {queue_offset} of {topic}, queue {queue_id}, but the "
        f"queue had reached {before} before: nobody can tell which record of a key "
        "is the latest"
    )


@dataclass(frozen=True, slots=True)
class CompactionDamage:
    """
    Why a store cannot be compacted.

    Attributes:
        path: of the file.
        offset: in the log.
        text: what is wrong, one line.
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
        records: how many.
        size_bytes: of these records.
        keyless: that have no keys, and are in no compaction.
        tombstones: that have keys and no body.
        first_queue_offset: of the first one.
        last_queue_offset: of the last one.
        first_offset: where the first one is in the log.
        last_offset: where the last one is.
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
        Whether its records follow those of *other*, by their queue offsets, too.
        """
        return self.first_queue_offset > other.last_queue_offset

    def plus(self, other: QueueCount) -> QueueCount:
        """
        Returns both together; *other* is behind this one.
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
    Returns what was packed.
    """
    found = json.loads(raw)
    if "damage" in found:
        return CompactionDamage(**found["damage"])
    return QueueCount(**{name: found[name] for name in _FIELDS})
