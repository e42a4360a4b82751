"""
The core's table of next queue offsets, loaded from consume queues and records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystore.bindings.ffi import Check
from pystore.consumequeue.queues import ConsumeQueues
from pystore.errors import CorruptError

if TYPE_CHECKING:
    from pystore.recovery.plan import RecoveryPlan
    from pystore.store.writer import Writer

QUEUE_OFFSET_MAX = 1 << 62
"""No queue reaches it: that of the core."""


def next_offsets(
    made: RecoveryPlan, queues: ConsumeQueues
) -> dict[tuple[str, int], int]:
    """
    The next queue offsets: from the metastore, or from the consume queues where these
    are newer. Entries of lost records do not count, but their queue offsets are not
    given again.
    """
    known = {(q.topic, q.queue_id): q.value for q in made.positions.next_offsets}
    if made.positions.as_of == 0:
        is_lost = made.corrupt is not None
        for key, length in queues.lengths_below(made.end_offset).items():
            # The program that wrote a queue decides, also if it began again at 0.
            is_lower = length < known.get(key, 0) and (is_lost or not length)
            known[key] = known[key] if is_lower else length
    return known


def load_table(writer: Writer, known: dict[tuple[str, int], int]) -> None:
    """
    Load the table of the core: the known offsets, raised by the later records. A topic
    that was deleted and made again counts from its last beginning.
    """
    made, log = writer.plan, writer.log
    log.queues_load(known)
    if made.positions.as_of:
        # The metastore has them.
        log.queues_take()
    start = max(made.positions.as_of, made.min_offset)
    if start >= made.end_offset:
        return
    for rows in log.scan(start, made.end_offset, Check.TOPIC):
        try:
            log.queues_note(rows)
        except CorruptError:
            # The impossible queue offset of a record moves no queue; `verify` reports
            # the record, and the dispatch gives it no entry.
            index = rows["queue_offset"]
            log.queues_note(rows[(index >= 0) & (index < QUEUE_OFFSET_MAX)])
    if not made.positions.as_of:
        # All records are later ones; entries of lost records still count.
        log.queues_load(known)
