"""
The load of every bench: the same bodies, keys and tags in the same batches.

A batch is made once, outside every timed region, and appended many times. Its bytes are
in the cache, like bytes that were just received from a network.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property

from pystore.message.columns import Columns, gather_columns
from pystore.message.message import Message

__all__ = ["BODY_SIZE", "TAG", "TOPIC", "Load"]

BODY_SIZE = 1024
TOPIC = "bench-topic"
TAG = "TagA"


@dataclass(frozen=True)
class Load:
    """
    Distinct messages with topic, keys and tags; as ``native/records.c`` has them.

    Attributes:
        batch: messages in one append.
        records: number of all records, a multiple of the batch.
    """

    batch: int
    records: int

    @classmethod
    def of(cls, total_bytes: int, batch: int, batches_max: int | None = None) -> Load:
        """
        The load with this size of all bodies, or with this number of batches.
        """
        batches = max(1, total_bytes // BODY_SIZE // batch)
        return cls(batch, batch * min(batches, batches_max or batches))

    @property
    def batches(self) -> int:
        """
        Number of appends.
        """
        return self.records // self.batch

    @property
    def body_bytes(self) -> int:
        """
        Bytes in bodies.
        """
        return self.records * BODY_SIZE

    @cached_property
    def bodies(self) -> list[bytes]:
        """
        The bodies of one batch.
        """
        source = random.Random(self.batch)
        return [source.randbytes(BODY_SIZE) for _ in range(self.batch)]

    @cached_property
    def keys(self) -> list[str]:
        """
        The keys of one batch.
        """
        return [f"key-{number:08d}" for number in range(self.batch)]

    @cached_property
    def messages(self) -> list[Message]:
        """
        One batch as messages.
        """
        return [
            Message(TOPIC, body, keys=keys, tags=TAG, queue_id=number % 4)
            for number, (body, keys) in enumerate(
                zip(self.bodies, self.keys, strict=True)
            )
        ]

    @cached_property
    def columns(self) -> Columns:
        """
        One batch as columns.
        """
        return gather_columns(
            TOPIC,
            self.bodies,
            keys=self.keys,
            tags=[TAG] * self.batch,
            queue_ids=[number % 4 for number in range(self.batch)],
        )
