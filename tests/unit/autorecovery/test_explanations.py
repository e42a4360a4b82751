"""
What of a whole cluster does not move, and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from lib.autorecovery.audits import SIZE, a_broker, a_replica, a_set, key_of
from lib.remoting.record_stores import put
from lib.values import replace

from pystore.autorecovery.explanations import (
    ClusterAnswers,
    ExplainedKind,
    ExplainTarget,
    Explanation,
    explain_cluster,
    read_explained,
    replicas_to_ask,
)
from pystore.autorecovery.host_peers import CarriedReplica, RecoveryHost
from pystore.autorecovery.loss import ReplicaLoss, encode_loss
from pystore.autorecovery.mark import Missing, Priority, Reason
from pystore.autorecovery.pauses import PauseKind, PauseTarget, pause
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.replacement_record import (
    HostDrain,
    Replacement,
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
    encode_replacement,
)
from pystore.autorecovery.replacement_requests import begin_drain
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.segment_rest import SegmentRest
from pystore.errors import InvalidError
from pystore.records.memory import MemoryStore
from pystore.segments.order import ReplicaStat

NOW = 10_000_000
ABSENT = {2: Missing(Reason.ABSENT, "broker 2: short")}
STAT = ReplicaStat("1-a", 0, 100 * SIZE, 100 * SIZE, SIZE)
EVERYTHING = ExplainTarget()


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """
    A record store.
    """
    found = MemoryStore()
    yield found
    found.close()


def a_view(*sets: Any) -> ClusterView:
    """
    What the controller tells.
    """
    some = sets or (a_set(),)
    told = {(one.cluster, one.name): one for one in some}
    return ClusterView(told, (), 3_600_000, may_replace=True, at_ms=NOW)


def explained(
    store: MemoryStore,
    target: ExplainTarget = EVERYTHING,
    view: ClusterView | None = None,
    **told: Any,
) -> list[Explanation]:
    """
    What is explained at `NOW`.
    """
    records = read_explained(store, NOW)
    assert () == records.damaged
    return explain_cluster(records, ClusterAnswers(view or a_view(), **told), target)


def test_a_mark_has_its_copies_the_last_try_and_the_next_one(
    store: MemoryStore,
) -> None:
    """AR-R18: the rest goes on; a dead segment has its evidence, and no next try."""
    queue = UnderReplicationQueue(store, lambda: NOW)
    slot = queue.slot("w/0", Random(1).random)
    queue.mark(key_of(3), ABSENT, Priority.LAST_COPY, by="look")
    claim = queue.take(slot)
    assert claim is not None
    assert queue.back_off(claim, SegmentRest("broker 2 has no space"))
    queue.mark(key_of(4), ABSENT, Priority.LAST_COPY, by="look")
    claim = queue.take(slot)
    assert claim is not None
    assert queue.bury(claim, "broker 1 is bad")

    dead, mark = explained(store, stats={a_replica(1): STAT})
    assert (ExplainedKind.DEAD, key_of(4).text, 0) == (
        dead.kind,
        dead.name,
        dead.next_ms,
    )
    assert (
        "dead: no copy is good since 0 s: broker 1 is bad; it returns when a copy is "
        "reported",
    ) == dead.state
    copies = {
        "broker 1": "yes: its file can be read as a whole",
        "broker 2": "no: ABSENT: broker 2: short",
        "broker 3": "unknown: it was not asked, or gave no answer",
    }
    assert copies == dead.candidates
    assert (ExplainedKind.MARK, key_of(3).text, NOW + 10_000) == (
        mark.kind,
        mark.name,
        mark.next_ms,
    )
    assert (
        "1 tries failed: the next one is in 10 s",
        "the last try needed: broker 2 has no space",
    ) == mark.state
    assert copies == mark.candidates


def test_a_target_is_a_segment_a_set_or_a_host(store: MemoryStore) -> None:
    """A host is named by its port, by the address of a broker, or without a port."""
    queue = UnderReplicationQueue(store, lambda: NOW)
    queue.mark(key_of(3), ABSENT, Priority.LAST_COPY, by="look")
    queue.mark(key_of(3, "other"), ABSENT, Priority.LAST_COPY, by="look")
    view = a_view(a_set(), a_set("other"))
    hosts = {
        "h2:1": RecoveryHost("h2:1", replicas=(CarriedReplica("cluster", "set", 2),)),
        "h3:1": RecoveryHost("h3:1", replicas=(CarriedReplica("cluster", "set", 3),)),
    }
    one, other = key_of(3).text, key_of(3, "other").text

    def names(target: ExplainTarget) -> list[str]:
        return [it.name for it in explained(store, target, view, hosts=hosts)]

    assert [other, one] == names(EVERYTHING)
    assert [one] == names(ExplainTarget(segment=key_of(3)))
    assert [key_of(9).text] == names(ExplainTarget(segment=key_of(9)))
    assert [other] == names(ExplainTarget(names=("cluster", "other")))
    assert [one] == names(ExplainTarget(host="h2:1"))
    assert [] == names(ExplainTarget(host="h3:1"))
    assert [other, one] == names(ExplainTarget(host="10.0.0.2:10911"))
    assert [other, one] == names(ExplainTarget(host="10.0.0.2"))
    assert [] == names(ExplainTarget(host="10.0.0.1"))
    for target in (ExplainTarget(host="10.0.0.9"), ExplainTarget(names=("c", "s"))):
        with pytest.raises(InvalidError, match="there is no"):
            names(target)


def test_a_pause_keeps_a_segment_and_a_copy(store: MemoryStore) -> None:
    """AR-R24: of repair, of the set, of a host."""
    queue = UnderReplicationQueue(store, lambda: NOW)
    queue.mark(key_of(3), ABSENT, Priority.LAST_COPY, by="look")
    host = PauseTarget(PauseKind.HOST, name="10.0.0.1")
    of_set = PauseTarget(PauseKind.SET, "cluster", "set")
    for target in (host, of_set):
        pause(store, target, NOW + 60_000, by="ops", now_ms=NOW)

    (mark,) = explained(store, stats={a_replica(1): STAT})
    assert ("no worker takes it: its set is paused",) == mark.state
    assert "no: host 10.0.0.1 is paused" == mark.candidates["broker 1"]
    pause(store, PauseTarget(PauseKind.REPAIR), NOW + 1000, by="ops", now_ms=NOW)
    (mark,) = explained(store)
    assert ("no worker takes it: repair is paused",) == mark.state


def test_a_filling_replica_says_what_is_left_and_from_where_it_comes(
    store: MemoryStore,
) -> None:
    """Whether its next segment is offered or not."""
    late = a_broker(3, begin=8 * SIZE, is_filling=True)
    view = a_view(a_set("set", a_broker(1), a_broker(2), late))
    stats = {a_replica(1): STAT, a_replica(3): replace(STAT, begin=8 * SIZE)}

    (fill,) = explained(store, view=view, stats=stats)
    assert (ExplainedKind.FILL, "cluster/set/3", 0) == (
        fill.kind,
        fill.name,
        fill.next_ms,
    )
    assert (
        f"its log begins at {8 * SIZE}: 8 segments are left",
        f"the Auditor has not offered {key_of(7).text} yet",
    ) == fill.state
    assert {
        "broker 1": "yes: its file can be read as a whole",
        "broker 2": "unknown: it was not asked, or gave no answer",
    } == fill.candidates

    queue = UnderReplicationQueue(store, lambda: NOW - 4000)
    queue.mark(
        key_of(7), {3: Missing(Reason.FILL)}, Priority.FEWER_THAN_WANTED, by="look"
    )
    fill, mark = explained(store, view=view, stats=stats)
    assert f"{key_of(7).text}: it waits for a worker since 4 s" == fill.state[1]
    assert ExplainedKind.MARK is mark.kind
    (fill,) = explained(store, ExplainTarget(names=("cluster", "set")), view)[:1]
    assert "it has not told the size of its segments yet" in fill.state[0]


def test_a_loss_says_when_its_delay_ends(store: MemoryStore) -> None:
    """AR-R1."""
    lost = ReplicaLoss(NOW - 100_000, "i", "10.0.0.2", "10.0.0.2:10911")
    put(store, a_replica(2).lost, encode_loss(lost))

    (loss,) = explained(store)
    assert (ExplainedKind.LOSS, "cluster/set/2", NOW + 500_000) == (
        loss.kind,
        loss.name,
        loss.next_ms,
    )
    assert ("it may return: the delay is 600 s, 500 s of it are left",) == loss.state


def test_a_drain_and_a_replacement_say_why_no_host_takes_it(
    store: MemoryStore,
) -> None:
    """AR-R18, AR-R23: each host, yes or no and why, by the function that chooses."""
    begin_drain(store, "h2:1", HostDrain(NOW, "ops", with_living=True), NOW)
    hosts = {
        f"h{number}:1": RecoveryHost(
            f"h{number}:1",
            free_bytes=1000 * SIZE,
            disk_used_percent=90 if number == 4 else 10,
            replicas=(CarriedReplica("cluster", "set", number),) if number < 4 else (),
            is_alive=number != 5,
        )
        for number in range(1, 6)
    }
    (drain,) = explained(store, hosts=hosts)
    assert (ExplainedKind.DRAIN, "h2:1") == (drain.kind, drain.name)
    assert (
        "it is emptied by order of ops",
        "cluster/set/2: the Auditor has not asked for its replacement yet",
    ) == drain.state

    one = Replacement(
        ReplacementReason.DRAIN,
        NOW - 9000,
        phase=ReplacementPhase.WANTED,
        phase_ms=NOW - 9000,
        tries=2,
        not_before_ms=NOW + 3000,
        problem="no host is free",
    )
    put(store, ReplacementKey("cluster", "set", 2).record, encode_replacement(one))
    drain, replaced = explained(store, hosts=hosts)
    assert "cluster/set/2: its replacement is wanted: no host is free" == drain.state[1]
    assert (ExplainedKind.REPLACEMENT, NOW + 3000) == (replaced.kind, replaced.next_ms)
    assert (
        "DRAIN: it is wanted for 9 s",
        "no host is free",
        "2 requests were sent: the next is in 3 s",
    ) == replaced.state
    assert {
        "host h1:1": "no: it has a replica of the set",
        "host h2:1": "no: it is emptied",
        "host h3:1": "no: it has a replica of the set",
        "host h4:1": "no: its disk is 90 % full, 85 % is the most",
        "host h5:1": "no: it is not alive",
    } == replaced.candidates
    hosts["h6:1"] = replace(hosts["h5:1"], name="h6:1", is_alive=True)
    _, replaced = explained(store, hosts=hosts)
    assert "yes: it is the best one" == replaced.candidates["host h6:1"]


def test_only_replicas_of_explained_sets_are_asked(store: MemoryStore) -> None:
    """None that is dead, and none of RocketMQ."""
    queue = UnderReplicationQueue(store, lambda: NOW)
    queue.mark(key_of(3), ABSENT, Priority.LAST_COPY, by="look")
    dead = replace(a_broker(2), is_alive=False)
    some = a_set("set", a_broker(1), dead, a_broker(3, is_java=True))
    view = a_view(some, a_set("quiet"))
    records = read_explained(store, NOW)

    assert [(a_replica(1), "10.0.0.1:10911")] == replicas_to_ask(
        records, view, EVERYTHING
    )
    quiet = ExplainTarget(segment=key_of(0, "quiet"))
    assert [1, 2, 3] == [
        it.broker_id for it, _ in replicas_to_ask(records, view, quiet)
    ]


def test_a_set_whose_record_is_unreadable_is_no_set_that_is_gone(
    store: MemoryStore,
) -> None:
    """Nothing is known of it, so no mark is said to go."""
    queue = UnderReplicationQueue(store, lambda: NOW)
    queue.mark(key_of(3), ABSENT, Priority.LAST_COPY, by="look")
    view = replace(a_view(a_set("other")), damaged=(("cluster", "set"),))

    (mark,) = explained(store, view=view)
    assert (
        "the controller's record of the set is unreadable: no worker repairs it",
        "it waits for a worker since 0 s",
    ) == mark.state
