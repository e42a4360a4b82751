"""
Filling replicas: which segments are offered, and in which order they are published.
"""

from __future__ import annotations

from dataclasses import replace

from lib.autorecovery.audits import (
    SIZE,
    ToldCluster,
    WatchedAuditor,
    a_broker,
    a_replica,
    a_set,
    key_of,
)
from lib.autorecovery.marks import Clock
from lib.autorecovery.zookeeper_requests import CountedStore
from lib.remoting.zookeeper_server import ZookeeperServer

from pystore.autorecovery.mark import Priority, Reason
from pystore.autorecovery.segment_key import WINDOW, page_key
from pystore.autorecovery.settings import RecoverySettings
from pystore.autorecovery.window import decode_page
from pystore.controller.model.log_end import LogBegin
from pystore.records.memory import MemoryStore
from pystore.records.record_store import RecordStore


def filled_from(cluster: ToldCluster, number: int, name: str = "set") -> None:
    """Broker 3 of a set is filled, and begins with a segment now."""
    begin = LogBegin(number * SIZE, is_filling=number > 0)
    cluster.change(a_replica(3, name), begin=begin, is_in_sync=number == 0)


def offered(one: WatchedAuditor) -> list[int]:
    """The numbers of the marked segments."""
    return sorted(key.start // SIZE for key in one.queue.list())


def published(store: RecordStore) -> list[str]:
    """The order of repair that workers see."""
    texts: list[str] = []
    for record in store.scan(WINDOW):
        texts += decode_page(record.value, record.key).keys
    return texts


def repair(one: WatchedAuditor, number: int) -> None:
    """A worker fills in a segment."""
    slot = one.queue.slot("w/0", lambda: 0.0)
    claims = []
    while (claim := one.queue.take(slot)) is not None:
        claims.append(claim)
    for each in claims:
        if each.key == key_of(number):
            assert one.queue.done(each)
        else:
            one.queue.release(each)


def test_the_highest_missing_segments_are_offered_as_the_begin_falls(
    one: WatchedAuditor, cluster: ToldCluster
) -> None:
    """D1: a log is filled downwards, `fill_window` at a time."""
    filled_from(cluster, 9)
    one.turns(3)
    assert [5, 6, 7, 8] == offered(one)
    assert (1, 9) == (
        one.auditor.numbers["filling"],
        one.auditor.numbers["fill_segments"],
    )
    repair(one, 8)
    filled_from(cluster, 8)
    one.turns(2)
    assert [4, 5, 6, 7] == offered(one)
    mark = one.queue.list()[key_of(4)]

    assert Reason.FILL is mark.missing[3].reason
    assert Priority.FEWER_THAN_WANTED is mark.priority
    assert SIZE == mark.size


def test_a_new_replica_is_offered_its_segments_in_the_turn_of_its_answer(
    one: WatchedAuditor, cluster: ToldCluster
) -> None:
    """It is looked at in the turn in which the controller tells it first."""
    one.turns(3)
    new = a_broker(4, begin=9 * SIZE, is_filling=True)
    old = cluster.sets["cluster", "set"]
    cluster.sets["cluster", "set"] = replace(old, brokers=(*old.brokers, new))
    one.step()

    assert [5, 6, 7, 8] == offered(one)


def test_the_size_of_the_window_of_a_fill_is_a_setting(
    wall: Clock, cluster: ToldCluster
) -> None:
    """And the floor of the set ends it."""
    store = MemoryStore()
    one = WatchedAuditor(store, cluster, wall, begin=RecoverySettings(fill_window=2))
    filled_from(cluster, 9)
    one.turns(2)
    assert [7, 8] == offered(one)
    cluster.change(a_replica(1), begin=LogBegin(8 * SIZE))
    repair(one, 7)
    one.turns(10)

    assert [8] == offered(one)
    assert 1 == one.auditor.numbers["fill_segments"]


def test_nothing_is_offered_below_a_dead_segment(
    one: WatchedAuditor, cluster: ToldCluster
) -> None:
    """A log is filled from the top: what is below would wait in a slot for it."""
    filled_from(cluster, 9)
    one.turns(3)
    slot = one.queue.slot("w/0", lambda: 0.0)
    while (claim := one.queue.take(slot)) is not None:
        if claim.key == key_of(8):
            assert one.queue.bury(claim, "no copy is good")
        else:
            assert one.queue.done(claim)
    one.turns(60)
    assert [] == offered(one)
    assert one.queue.revive(key_of(8))
    one.turns(60)

    assert [5, 6, 7, 8] == offered(one)


def test_a_replica_that_is_short_by_its_own_retention_is_shown_and_not_filled(
    wall: Clock, cluster: ToldCluster
) -> None:
    """D1: it would be deleted again."""
    one = WatchedAuditor(MemoryStore(), cluster, wall)
    cluster.change(a_replica(3), begin=LogBegin(9 * SIZE))
    one.turns(3)

    assert [] == offered(one)
    assert (0, 1) == (one.auditor.numbers["filling"], one.auditor.numbers["short"])


def test_what_a_fill_needs_and_is_unknown_is_awaited(
    wall: Clock, cluster: ToldCluster
) -> None:
    """The size of its segments, which it tells itself; the floor, which its master
    tells; and a begin that is of use.
    """
    one = WatchedAuditor(MemoryStore(), cluster, wall)
    filled_from(cluster, 9)
    cluster.silent.add(a_replica(3))
    one.turns(3)
    assert [] == offered(one)
    cluster.silent.clear()
    cluster.sets["cluster", "java"] = a_set(
        "java", a_broker(1, is_java=True), a_broker(3, begin=9 * SIZE, is_filling=True)
    )
    cluster.sets["cluster", "old"] = a_set(
        "old", a_broker(1), a_broker(3, begin=-1, is_filling=True)
    )
    one.turns(10)

    assert [5, 6, 7, 8] == offered(one)
    assert {"set"} == {key.set_name for key in one.queue.list()}


def test_a_filling_replica_that_is_dead_is_offered_nothing(
    wall: Clock, cluster: ToldCluster
) -> None:
    """Its loss is what counts."""
    one = WatchedAuditor(MemoryStore(), cluster, wall)
    filled_from(cluster, 9)
    cluster.die(3)
    one.turns(3)

    assert [] == offered(one)


def test_two_replicas_that_fill_share_the_mark_of_a_segment(
    wall: Clock, cluster: ToldCluster
) -> None:
    """One good copy is left: it comes before all others."""
    one = WatchedAuditor(MemoryStore(), cluster, wall)
    filled_from(cluster, 9)
    cluster.change(a_replica(2), begin=LogBegin(7 * SIZE, is_filling=True))
    one.turns(3)
    mark = one.queue.list()[key_of(6)]

    assert [2, 3] == sorted(mark.missing)
    assert Priority.LAST_COPY is mark.priority


def test_no_more_is_marked_than_the_window_has_room_for(
    wall: Clock, cluster: ToldCluster
) -> None:
    """P7: the most urgent first, and all of it in the end."""
    store = MemoryStore()
    settings = RecoverySettings(queue_window=20, fill_window=8)
    for number in range(30):
        name = f"set-{number:02}"
        cluster.sets["cluster", name] = a_set(
            name, a_broker(1), a_broker(2), a_broker(3, begin=8 * SIZE, is_filling=True)
        )
    cluster.tell(2, "set-29", problems={0: "missing", SIZE: "missing"})
    one = WatchedAuditor(store, cluster, wall, begin=settings)
    one.turns(5)
    done, most, slot = set(), 0, one.queue.slot("w/0", lambda: 0.0)
    first = {key for key, mark in one.queue.list().items() if not mark.priority}
    assert {key_of(0, "set-29"), key_of(1, "set-29")} <= first
    for _ in range(400):
        most = max(most, len(one.queue.list()))
        for _ in range(5):
            claim = one.queue.take(slot)
            if claim is None:
                break
            key = claim.key
            if 3 in claim.mark.missing:
                begin = cluster.change(a_replica(3, key.set_name)).begin.offset
                # From the top.
                if begin != key.start + SIZE:
                    one.queue.release(claim)
                    continue
                filled_from(cluster, key.start // SIZE, key.set_name)
            cluster.tell(2, key.set_name, problems={})
            assert one.queue.done(claim)
            done.add(key)
        one.after(3)
    assert most <= 20
    assert 240 == len(done)
    assert [] == offered(one)


def test_the_order_is_published_when_the_queue_changes_and_not_else(
    one: WatchedAuditor, cluster: ToldCluster
) -> None:
    """AR-R19: an idle cluster costs no commits."""
    filled_from(cluster, 9)
    one.turns(3)
    assert [key_of(number).text for number in (8, 7, 6, 5)] == published(one.store)
    before = one.store.get(page_key(0))
    one.turns(50)
    assert before == one.store.get(page_key(0))
    repair(one, 8)
    filled_from(cluster, 8)
    one.turns(8)

    # From the top.
    assert [key_of(number).text for number in (7, 6, 5, 4)] == published(one.store)


def test_segments_that_rest_are_published_when_their_rest_is_over(
    wall: Clock, cluster: ToldCluster
) -> None:
    """No commit tells that a time has come."""
    one = WatchedAuditor(MemoryStore(), cluster, wall)
    filled_from(cluster, 1)
    one.turns(2)
    claim = one.queue.take(one.queue.slot("w/0", lambda: 0.0))
    assert claim is not None
    one.queue.back_off(claim)
    one.turns(9)
    one.turns(30)

    assert [key_of(0).text] == published(one.store)


def test_an_auditor_without_work_sends_two_requests_a_turn(
    zookeeper: ZookeeperServer, wall: Clock, cluster: ToldCluster
) -> None:
    """AR-R19: its own record, and whether there was a commit."""
    store = CountedStore(zookeeper.hosts, root="/idle-auditor")
    try:
        one = WatchedAuditor(store, cluster, wall)
        one.turns(30)
        before = store.requests
        one.turns(20)
        # The record of what it waits for is written once a minute.
        assert store.requests - before <= 2 * 20 + 10
    finally:
        store.close()
