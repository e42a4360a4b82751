"""
A queue in which there is one of everything, for tests of what is shown.
"""

from __future__ import annotations

from random import Random

from lib.autorecovery.marks import GIB, LOST_COPY, corrupt, segment
from lib.remoting.record_stores import put
from pystore.autorecovery.mark import Priority
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.record_form import encode_form
from pystore.autorecovery.segment_key import SegmentKey
from pystore.records.ops import Hold
from pystore.records.record_store import RecordStore

__all__ = ["DEAD", "RESTING", "TAKEN", "WAITING", "busy_queue"]

DEAD = segment(1, "ill")
TAKEN = segment(2)
RESTING = segment(3)
WAITING = segment(4)


def busy_queue(store: RecordStore, now_ms: int) -> UnderReplicationQueue:
    """
    Makes one dead, one taken, one resting and one waiting segment, an Auditor, a worker
    and a lost replica; all of it some seconds ago.
    """
    queue = UnderReplicationQueue(store, lambda: now_ms)
    slot = queue.slot("host-1:7/0", Random(1).random)
    missing = {2: LOST_COPY}
    queue.mark(DEAD, {1: corrupt(3, 7)}, Priority.LAST_COPY, by="look", size=GIB)
    claim = queue.take(slot)
    assert claim is not None
    assert queue.bury(claim, "broker 1: blocks 3, 7 are bad\nbroker 2: it is dead")
    for key in (RESTING, TAKEN):
        _mark(queue, key)
        claim = queue.take(queue.slot("host-1:7/0", Random(1).random))
        assert claim is not None
        assert key == claim.key
        if key == RESTING:
            assert queue.back_off(claim)
    queue.mark(WAITING, missing, Priority.FEWER_THAN_WANTED, by="auditor", size=GIB)
    said = {"waits_for": "the next look", "since_ms": now_ms - 2000}
    put(store, "recovery/status/auditor", encode_form({**said, "unknown": 3}))
    worker = {"waits_for": "digests of broker 1", "since_ms": now_ms - 1000}
    put(store, "recovery/status/worker/host-1:7", encode_form(worker))
    lost = {"since_ms": now_ms - 60_000, "incarnation": "i"}
    put(store, "recovery/lost/cluster/set/2", encode_form(lost))
    assert store.commit([Hold("recovery/auditor", b"host-1:6")])
    return queue


def _mark(queue: UnderReplicationQueue, key: SegmentKey) -> None:
    queue.mark(key, {2: LOST_COPY}, Priority.FEWER_THAN_WANTED, by="auditor", size=GIB)
