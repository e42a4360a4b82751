"""
Why a segment does not move, in words.
"""

from __future__ import annotations

from typing import Any

from lib.autorecovery.audits import SIZE, a_broker, a_set, key_of
from lib.values import replace

from pystore.autorecovery.dead_segment import DeadSegment
from pystore.autorecovery.explain import SegmentCase, explain, explain_loss
from pystore.autorecovery.loss import ReplicaLoss
from pystore.autorecovery.mark import Missing, Priority, Reason, SegmentMark
from pystore.autorecovery.settings import RecoverySettings
from pystore.segments.order import ReplicaStat

NOW = 1_000_000
SETTINGS = RecoverySettings()


def a_stat(**changes: Any) -> ReplicaStat:
    """An answer of a whole copy."""
    return replace(ReplicaStat("1-a", 0, 100 * SIZE, 100 * SIZE, SIZE), **changes)


def a_case(**changes: Any) -> SegmentCase:
    """Segment 3 of a set of three, of which copy 2 is absent."""
    mark = SegmentMark(
        {2: Missing(Reason.ABSENT, "it says: short")},
        Priority.LAST_COPY,
        NOW - 9000,
        NOW - 5000,
    )
    case = SegmentCase(key_of(3), NOW, description=a_set(), mark=mark)
    return replace(case, **changes)


def test_each_copy_is_named_with_yes_or_no_and_why() -> None:
    """The candidates of a repair, in the order of their ids."""
    brokers = (
        a_broker(1),
        a_broker(2),
        a_broker(3, is_java=True),
        a_broker(4, begin=8 * SIZE, is_filling=True),
        a_broker(5, begin=8 * SIZE),
        a_broker(6, begin=-1),
        replace(a_broker(7), is_alive=False),
        a_broker(8),
        a_broker(9),
        replace(a_broker(10), is_alive=False, is_ill=True),
    )
    case = a_case(
        description=a_set("set", *brokers),
        stats={
            1: a_stat(),
            4: a_stat(begin=8 * SIZE),
            9: a_stat(settled_end=2 * SIZE),
            10: a_stat(),
        },
        losses={7: ReplicaLoss(NOW - 100_000)},
    )

    assert [
        "it waits for a worker since 5 s",
        "broker 1: yes: its file can be read as a whole",
        "broker 2: no: ABSENT: it says: short",
        "broker 3: no: a broker of RocketMQ: it counts as a copy, unverified",
        f"broker 4: no: it is filled and begins at {8 * SIZE}: 8 segments are left, "
        "and higher ones come first",
        f"broker 5: no: its own retention deleted it: it begins at {8 * SIZE}",
        "broker 6: no: it does not tell where its log begins",
        "broker 7: no: dead, it may return: the delay is 600 s, 500 s of it are left",
        "broker 8: unknown: it was not asked, or gave no answer",
        "broker 9: no: the segment is not settled there",
        "broker 10: yes, after the others, since its store is ill: its file can be "
        "read as a whole",
    ] == explain(case)


def test_what_a_segment_waits_for_comes_first() -> None:
    """A worker, the end of a rest, an operator, a copy."""
    mark = a_case().mark
    assert mark is not None
    rests = replace(mark, tries=3, not_before_ms=NOW + 1500)
    dead = DeadSegment(mark, "broker 1 is bad", NOW - 60_000, "w/0")
    cases = {
        "w/0 repairs it": a_case(holder="w/0"),
        "3 tries failed: the next one is in 2 s": a_case(mark=rests),
        "no worker may take it: AutoRecovery is disabled": a_case(is_enabled=False),
        "not marked: nothing is known to be missing": a_case(mark=None),
        "dead: no copy is good since 60 s: broker 1 is bad; it returns when a copy is "
        "reported": a_case(mark=None, dead=dead),
        "the controller tells no such set: a worker will clear the mark": a_case(
            description=None
        ),
    }

    assert {text: text for text in cases} == {
        text: explain(case)[0] for text, case in cases.items()
    }


def test_a_loss_says_what_remains_of_its_delay() -> None:
    """Or of its maintenance, or what is done about it."""
    loss = ReplicaLoss(NOW - 100_000)
    due = replace(loss, why="no host can take it")

    assert "it may return: the delay is 600 s, 500 s of it are left" == explain_loss(
        loss, SETTINGS, NOW
    )
    assert (
        "in maintenance: no copy of it is made until the maintenance ends, for 60 s"
        == explain_loss(loss, SETTINGS, NOW, until_ms=NOW + 60_000)
    )
    assert (
        "due: 2 replicas of the set are missing, which ends the waiting; "
        "no host can take it" == explain_loss(due, SETTINGS, NOW, missing=2)
    )
    assert "due: the delay of 600 s is over; it is not handed on yet" == explain_loss(
        loss, SETTINGS, NOW + 500_000
    )
