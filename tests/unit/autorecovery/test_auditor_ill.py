"""
Looks at ill replicas: what their answers mark.
"""

from __future__ import annotations

import pytest
from lib.autorecovery.audits import (
    SIZE,
    ToldCluster,
    WatchedAuditor,
    a_replica,
    key_of,
)
from lib.remoting.record_stores import InMemory

from pystore.autorecovery.mark import Priority, Reason
from pystore.autorecovery.segment_key import SegmentKey
from pystore.records.memory import MemoryStore


@pytest.fixture
def space() -> InMemory:
    """Shared records: the backends make no difference here."""
    return InMemory()


@pytest.fixture
def store(space: InMemory) -> MemoryStore:
    """One session."""
    return space.open()


def marked(one: WatchedAuditor) -> dict[SegmentKey, list[int]]:
    """The broker ids whose copies are marked."""
    return {key: sorted(mark.missing) for key, mark in one.queue.list().items()}


def test_what_an_ill_replica_lacks_is_marked_at_once(
    one: WatchedAuditor, cluster: ToldCluster
) -> None:
    """F4: it registers nowhere; its copies are not good before it is repaired."""
    one.turns(3)
    cluster.die(2)
    one.turns(2)
    cluster.asked.clear()
    cluster.change(a_replica(2), is_ill=True)
    cluster.tell(2, incarnation="0-b", problems={3 * SIZE: "the file is missing"})
    one.turns(3)
    mark = one.queue.list()[key_of(3)]
    assert [a_replica(2)] == cluster.asked
    assert {key_of(3): [2]} == marked(one)
    assert Reason.ABSENT is mark.missing[2].reason
    assert Priority.FEWER_THAN_WANTED is mark.priority
    assert [] == one.due()
    cluster.tell(2, problems={}, incarnation=f"2-{2:032x}")
    cluster.change(a_replica(2), is_ill=False)
    cluster.come_back(2, process=2)
    one.turns(2)
    assert [a_replica(2)] * 2 == cluster.asked


def test_an_ill_replica_s_copies_do_not_count(
    one: WatchedAuditor, cluster: ToldCluster
) -> None:
    """One that is whole there is no good copy of a segment that another lacks."""
    cluster.die(2)
    cluster.change(a_replica(2), is_ill=True)
    cluster.tell(2, incarnation="0-b")
    cluster.tell(3, problems={5 * SIZE: "the file is missing"})
    one.turns(3)
    assert {key_of(5): [3]} == marked(one)
    assert Priority.LAST_COPY is one.queue.list()[key_of(5)].priority
