"""
The consume queues of the source, asked which of two records has a queue offset.

Without a property CRC nothing covers the queue offset of a record, and a changed one
may be that of another record. The entry of a queue is a second witness.
"""

from __future__ import annotations

from pathlib import Path

from pystore.consumequeue.queues import ConsumeQueues, queue_file_size_of
from pystore.errors import PystoreError

__all__ = ["QueueWitness"]


class QueueWitness:
    """
    The queues, which are read when they are asked. A context manager; one thread.

    Args:
        source: the root of a store; another directory has no queues.
    """

    def __init__(self, source: Path) -> None:
        self._source = source
        self._queues: ConsumeQueues | None = None

    def __enter__(self) -> QueueWitness:
        return self

    def __exit__(self, *_: object) -> None:
        if self._queues is not None:
            self._queues.close()

    def names(self, place: tuple[str, int, int], offset: int) -> bool:
        """
        Returns whether a queue's entry names the record at an offset of the log.

        Args:
            place: topic, queue id and queue offset.
            offset: of the record.
        """
        topic, queue_id, index = place
        if self._queues is None:
            self._queues = ConsumeQueues(self._source, queue_file_size_of(self._source))
            try:
                self._queues.load()
            except PystoreError:
                # Damaged queues are no witness.
                return False
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.first_slot <= index < queue.max_index:
            return False
        try:
            return queue.read(index).offset == offset
        except PystoreError:
            # Nor is a slot that cannot be read, or without a record.
            return False
