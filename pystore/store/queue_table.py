"""
The core's table of next queue offsets, loaded from consume queues and records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystore.bindings.ffi import Check
from pystore.consumequeue.queues import ConsumeQueues

if TYPE_CHECKING:
    from pystore.recovery.plan import RecoveryPlan
    from pystore.store.writer import Writer


def next_offsets(
    made: RecoveryPlan, queues: ConsumeQueues
) -> dict[tuple[str, int], int]:
    """
    The next queue offsets: from the metastore, or from the consume queues where it has
    none. Entries of lost records do not count.
    """
    known = {(q.topic, q.queue_id): q.value for q in made.positions.next_offsets}
    if made.positions.as_of == 0:
        known.update(queues.lengths_below(made.end_offset))
    return known


def load_table(writer: Writer, known: dict[tuple[str, int], int]) -> None:
    """
    Load the table of the core: the known offsets, raised by the later records.
    """
    made, log = writer.plan, writer.log
    log.queues_load(known)
    start = max(made.positions.as_of, made.min_offset)
    if start >= made.end_offset:
        return
    for rows in log.scan(start, made.end_offset, Check.TOPIC):
        log.queues_note(rows)
