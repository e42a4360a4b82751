"""
The queues in the end: on every replica a queue offset names the same record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chaos.checker import Final
from sim.clients import TOPIC

from pystore.store.store import Store

__all__ = ["queue_violations"]


def queue_violations(stores: list[Path], final: Final) -> Iterator[str]:
    """
    Yields the entries that name no record or another one, and the records that lack
    their entry (I9).

    Args:
        stores: of the set; no one has them open.
        final: the log that all of them have, from their begins on.
    """
    named = {(one.queue_id, one.queue_offset): one.offset for one in final.records}
    for root in stores:
        with Store(root, mode="r") as store:
            begin = max(final.begin, store.log.ends.min_offset)
            entries: dict[tuple[int, int], int] = {}
            for queue in store.queues:
                assert queue.topic == TOPIC
                first = queue.min_index(begin)
                found = queue.entries(first, queue.max_index - first)
                for index, offset in enumerate(found["offset"].tolist(), first):
                    if offset >= begin:
                        entries[queue.queue_id, index] = offset
        wanted = {place: offset for place, offset in named.items() if offset >= begin}
        for place in sorted(wanted.keys() | entries.keys()):
            if entries.get(place) != wanted.get(place):
                yield (
                    f"I9: {root.name}: queue and offset {place} are the record at "
                    f"{entries.get(place)}, and have to be that at {wanted.get(place)}"
                )
