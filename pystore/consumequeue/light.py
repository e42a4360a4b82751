"""
Light queues (LMQ): entries of records in queues of other names. Pure.

A record with both properties below has an entry in each named queue, at the queue
offset that RocketMQ gave it there, beside the entry of its own topic. pystore gives no
such queue offsets: it only dispatches records that have them.

Source: RocketMQ 5.3: ``MultiDispatchUtils``, ``ConsumeQueue``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from pystore.consumequeue.build import Group
from pystore.consumequeue.queue import ENTRY_DTYPE

__all__ = ["LIGHT_PREFIX", "LIGHT_PROPERTY", "light_groups", "light_places"]

LIGHT_PREFIX = "%LMQ%"
"""Topics of light queues begin with it."""

LIGHT_PROPERTY = b"INNER_MULTI_QUEUE_OFFSET"
"""The name of the property with the queue offsets; RocketMQ alone writes it."""

_NAMES, _OFFSETS = "INNER_MULTI_DISPATCH", LIGHT_PROPERTY.decode()
_NEVER = ("%RETRY%", "rmq_sys_", "SCHEDULE_TOPIC_XXXX")


def light_places(
    topic: str, queue_id: int, properties: Mapping[str, str]
) -> list[tuple[str, int, int]]:
    """
    Returns topic, queue id and queue offset of each further entry of a record.

    Args:
        topic: of the record.
        queue_id: of the record; light queues have the queue id 0.
        properties: of the record.
    """
    names, offsets = properties.get(_NAMES), properties.get(_OFFSETS)
    if not names or not offsets or topic.startswith(_NEVER):
        return []
    indexes = offsets.split(",")
    if len(indexes) != len(names.split(",")) or not all(map(_is_offset, indexes)):
        return []
    return [
        (name, 0 if name.startswith(LIGHT_PREFIX) else queue_id, int(index))
        for name, index in zip(names.split(","), indexes, strict=True)
    ]


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) < 2**63


def light_groups(
    records: Iterable[tuple[int, int, int, list[tuple[str, int, int]]]],
) -> Iterator[Group]:
    """
    Yields the further entries of records, by queue.

    Args:
        records: offset, size, tags code and places of each record, in log order.
    """
    found: dict[tuple[str, int], list[tuple[int, tuple[int, int, int]]]] = {}
    for offset, size, tags_code, places in records:
        for topic, queue_id, index in places:
            entry = index, (offset, size, tags_code)
            found.setdefault((topic, queue_id), []).append(entry)
    for (topic, queue_id), entries in found.items():
        indexes, rows = zip(*entries, strict=True)
        yield Group(
            topic,
            queue_id,
            np.array(indexes, np.int64),
            np.array(list(rows), ENTRY_DTYPE),
        )
