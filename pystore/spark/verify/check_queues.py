"""
Compares the consume queues of a store with its log, on the driver.

The tasks compared each record with its entry. What no record matched is judged here,
by the rules of ``pystore verify``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from pystore.consumequeue.queues import ConsumeQueues
from pystore.core.log_reader import LogReader
from pystore.core.segment_view import open_view
from pystore.errors import PystoreError
from pystore.spark.verify.queue_continuity import join_runs, mark_slots, set_end
from pystore.spark.verify.queue_runs import QueueSummary, restart_of
from pystore.verify.entries import (
    LIGHT,
    EntryJudge,
    LostEntries,
    RecordPlace,
    read_place,
)
from pystore.verify.report import Damage

__all__ = ["QueueFacts", "check_entries"]


class QueueFacts:
    """
    What the tasks of a store found about its queues.

    Args:
        segments: summaries of the queues in each segment, segments ascending.

    Attributes:
        runs: of the records of each queue, in log order.
        right: queue offsets ``[first, above)`` whose entry matches a record.
        lost: records without an entry that they had, by queue.
        passed_over: queues that are not known as a whole.
        missing: the number of records without an entry.
    """

    def __init__(self, segments: Sequence[Sequence[QueueSummary]]) -> None:
        self.runs = join_runs(segments)
        self.right: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        self.lost: dict[tuple[str, int], LostEntries] = defaultdict(LostEntries)
        self.passed_over: set[tuple[str, int]] = set()
        self.missing = 0
        for summary in chain.from_iterable(segments):
            key = summary.topic, summary.queue_id
            self.right[key] += summary.right
            self.missing += summary.missing
            if summary.lost.count:
                lost = summary.lost.since(restart_of(self.runs[key]))
                self.lost[key].join(lost)
            if summary.is_cut:
                self.passed_over.add(key)


def check_entries(
    root: Path,
    queues: ConsumeQueues,
    facts: QueueFacts,
    lengths: Mapping[tuple[str, int], int],
    *,
    segment_size: int,
    log: tuple[int, int],
    unseen: Sequence[tuple[int, int]],
    is_at_rest: bool,
) -> list[Damage]:
    """
    Returns the damage of the queues, and records that their entries prove to be wrong.

    Args:
        root: of the store.
        queues: of the store, loaded.
        facts: of all segments that were checked.
        lengths: the end of each queue as the tasks knew it; later entries are newer.
        segment_size: in bytes.
        log: its start and end.
        unseen: ranges of the log that could not be read.
        is_at_rest: whether the store was closed cleanly, and nothing writes it.
    """
    with _Places(root, segment_size) as places:
        judge = EntryJudge(root, segment_size, places.find)
        for queue in queues:
            key = queue.topic, queue.queue_id
            if queue.topic.startswith(LIGHT):
                continue
            if key not in facts.passed_over:
                set_end(queue, facts.right[key], lengths.get(key, 0))
                judge.check_slots(
                    queue,
                    mark_slots(
                        queue,
                        facts.runs.get(key, ()),
                        facts.right[key],
                        lengths.get(key, 0),
                    ),
                    log=log,
                    unscanned=unseen,
                    is_at_rest=is_at_rest,
                )
            judge.check_end(queue, queues.file_size, log[1])
        for (topic, queue_id), lost in sorted(facts.lost.items()):
            if lost.count:
                judge.check_lost(topic, queue_id, lost)
        return judge.damages


class _Places:
    """
    Reads single records of a log, of which segments may be missing. A context manager.
    """

    def __init__(self, root: Path, segment_size: int) -> None:
        self._root = root
        self._size = segment_size
        self._base = -1
        self._log: LogReader | None = None
        self._stack = ExitStack()

    def __enter__(self) -> _Places:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def find(self, offset: int) -> RecordPlace | None:
        """
        Returns the place of the record at an offset, as `read_place`.
        """
        base = offset - offset % self._size
        if base != self._base:
            self._stack.close()
            self._base, self._log = base, None
            try:
                self._log = self._stack.enter_context(open_view(self._root, [base]))
            except (PystoreError, OSError):
                # No such segment: the entry names no record.
                return None
        return None if self._log is None else read_place(self._log, offset)
