"""
Which whole records a new store can have: one for each queue offset of a queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.row import Proof
from pystore.consumequeue.queues import name_problem
from pystore.message.constants import INNER_BATCH, NO_ENTRY
from pystore.salvage.queue_offsets import OffsetRuns, possible
from pystore.salvage.queue_witness import QueueWitness
from pystore.salvage.records import RecordBlock
from pystore.salvage.report import RejectedRecord, SalvageReport

__all__ = ["QueueSurvey", "RecordSieve"]


QueuePlace = tuple[str, int, int]
"""Topic, queue id and queue offset."""

_NAMED_MAX = 1 << 20
"""So many repeated queue offsets are asked for; of others the first record counts."""


class QueueSurvey:
    """
    The queue offsets of all records. One thread.

    Args:
        witness: the consume queues of the source.

    Attributes:
        queues: by topic and queue id.
        named: the offset of the record that a consume queue names, where it is not the
            first with its queue offset.
        size_max: the size of the largest record, in bytes.
    """

    def __init__(self, witness: QueueWitness) -> None:
        self.queues: dict[tuple[str, int], OffsetRuns] = {}
        self.named: dict[QueuePlace, int] = {}
        self.size_max = 0
        self._witness = witness

    def note(self, block: RecordBlock) -> None:
        """
        Adds the records of a block.
        """
        self.size_max = max(self.size_max, int(block.rows["size"].max()))
        for topic, queue_id, found in _queues_of(block):
            places = found
            if name_problem(topic, queue_id):
                continue
            indexes = block.rows["queue_offset"][places].astype(np.int64)
            is_possible = possible(indexes)
            places, indexes = found[is_possible], indexes[is_possible]
            if len(indexes):
                runs = self.queues.setdefault((topic, queue_id), OffsetRuns())
                repeated = places[~runs.add(indexes)]
                numbers = block.rows["queue_offset"][repeated].tolist()
                offsets = block.rows["offset"][repeated].tolist()
                for number, offset in zip(numbers, offsets, strict=True):
                    self._ask((topic, queue_id, number), offset)

    def _ask(self, place: tuple[str, int, int], offset: int) -> None:
        is_full = len(self.named) >= _NAMED_MAX
        if not is_full and self._witness.names(place, offset):
            self.named.setdefault(place, offset)


_REPEATED = "an earlier record has this queue offset"
_CONTRADICTED = "the consume queue has another record at this queue offset"


class RecordSieve:
    """
    Keeps the records that the new store can have. One thread.

    Records without a consume queue entry are all kept.

    Args:
        ranges: begin and end of each queue, by topic and queue id.
        named: of a `QueueSurvey`: an unproved record gives way to the named one.
        report: gets the other records.
    """

    def __init__(
        self,
        ranges: Mapping[tuple[str, int], tuple[int, int]],
        named: Mapping[QueuePlace, int],
        report: SalvageReport,
    ) -> None:
        self._ranges = ranges
        self._named = named
        self._report = report
        self._taken: dict[tuple[str, int], OffsetRuns] = {}

    def kept(self, block: RecordBlock) -> NDArray[Any]:
        """
        Returns the rows of a block that are kept.
        """
        is_kept = np.ones(len(block.rows), np.bool_)
        for topic, queue_id, found in _queues_of(block):
            key, places = (topic, queue_id), found
            indexes = block.rows["queue_offset"][places].astype(np.int64)
            first, end = self._ranges.get(key, (0, 0))
            is_possible = (indexes >= first) & (indexes < end)
            if not is_possible.all():
                reason = name_problem(topic, queue_id) or (
                    f"the queue has the queue offsets {first} to {end - 1}"
                )
                is_kept[places[~is_possible]] = False
                self._reject(block, topic, places[~is_possible], reason)
                places, indexes = places[is_possible], indexes[is_possible]
            if self._named:
                is_led = self._is_contradicted(topic, block.rows[places])
                is_kept[places[is_led]] = False
                self._reject(block, topic, places[is_led], _CONTRADICTED)
                places, indexes = places[~is_led], indexes[~is_led]
            is_new = self._taken.setdefault(key, OffsetRuns()).add(indexes)
            if not is_new.all():
                is_kept[places[~is_new]] = False
                self._reject(block, topic, places[~is_new], _REPEATED)
        return block.rows[is_kept]

    def _is_contradicted(self, topic: str, rows: NDArray[Any]) -> NDArray[np.bool_]:
        proof = rows["proof"] & (Proof.PROPERTY | Proof.DIFFERS)
        found = np.zeros(len(rows), np.bool_)
        for at in np.flatnonzero(proof != Proof.PROPERTY).tolist():
            row = rows[at]
            place = topic, int(row["queue_id"]), int(row["queue_offset"])
            found[at] = self._named.get(place, row["offset"]) != row["offset"]
        return found

    def _reject(
        self,
        block: RecordBlock,
        topic: str,
        places: NDArray[np.int64],
        reason: str,
    ) -> None:
        for row in block.rows[places]:
            self._report.reject(
                RejectedRecord(
                    str(block.path),
                    int(row["offset"]),
                    topic,
                    int(row["queue_id"]),
                    int(row["queue_offset"]),
                    reason,
                ),
                is_repeated=reason in (_REPEATED, _CONTRADICTED),
            )


def _queues_of(block: RecordBlock) -> Iterator[tuple[str, int, NDArray[np.int64]]]:
    """
    Yields topic, queue id, and the places of the rows that have an entry in the queue.
    """
    rows = block.rows
    places = np.flatnonzero((rows["sys_flag"] & (NO_ENTRY | INNER_BATCH)) == 0)
    if not len(places):
        return
    queue = rows["queue_id"][places].view(np.uint32).astype(np.uint64)
    key = rows["topic_id"][places].astype(np.uint64) << np.uint64(32) | queue
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order])) + 1
    for part in np.split(places[order], edges):
        row = rows[part[0]]
        yield block.topic(int(row["topic_id"])), int(row["queue_id"]), part
