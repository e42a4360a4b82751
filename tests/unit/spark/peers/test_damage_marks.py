"""
What is marked of the damage of a round, and what is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lib.autorecovery.local_set import LocalSet
from lib.autorecovery.marks import corrupt
from lib.autorecovery.recoveries import damage, flip
from lib.spark.local_rounds import LocalRounds, bad_of, replicas_of
from lib.store.pairs import SEGMENT

from pystore.autorecovery.mark import Priority
from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.autorecovery.segment_key import SegmentKey
from pystore.errors import UnavailableError
from pystore.segments.order import ReplicaStat
from pystore.spark.peers.check import run_check

_BAD = ("CORRUPT", "cluster/set/2", SEGMENT)


@pytest.fixture
def replicas(tmp_path: Path) -> LocalSet:
    """
    Three replicas of one log.
    """
    return replicas_of(tmp_path)


def _stat_later(rounds: LocalRounds, **changes: Any) -> Callable[[], None]:
    """
    Returns what gives the second replica's next answers other values.
    """

    def begin() -> None:
        own = rounds.replicas.stat

        def stat(replica: ReplicaAddress) -> ReplicaStat:
            found = own(replica)
            return replace(found, **changes) if replica.broker_id == 2 else found

        rounds.replicas.stat = stat  # type: ignore[method-assign]

    return begin


def _restart(rounds: LocalRounds) -> Callable[[], None]:
    return rounds.replicas.replicas[2].restart


def _leave(rounds: LocalRounds) -> Callable[[], None]:
    def leave() -> None:
        del rounds.replicas.replicas[2]

    return leave


def _die(rounds: LocalRounds) -> Callable[[], None]:
    def die() -> None:
        rounds.replicas.replicas[2].is_alive = False

    return die


def _fall_silent(rounds: LocalRounds) -> Callable[[], None]:
    def fall_silent() -> None:
        rounds.replicas.replicas[2].is_silent = True

    return fall_silent


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_restart, "its process was started again since the plan"),
        (
            lambda it: _stat_later(it, incarnation="9-ff"),
            "its process was started again since the plan",
        ),
        (
            lambda it: _stat_later(it, cut_generation=1),
            "its log was cut since the plan",
        ),
        (
            lambda it: _stat_later(it, begin=2 * SEGMENT),
            f"its log begins at {2 * SEGMENT} now",
        ),
        (_leave, "it is not in its set any more"),
        (_die, "it is not alive"),
        (_fall_silent, "broker 2 at 127.0.0.1:2: timed out"),
    ],
)
def test_what_changed_since_the_plan_is_passed_over(
    replicas: LocalSet, change: Callable[[LocalRounds], Callable[[], None]], why: str
) -> None:
    """
    The damage is in the rows all the same.
    """
    damage(replicas.replicas[2].root, "payload bit")
    rounds = LocalRounds(replicas)
    rounds.after = change(rounds)
    assert [_BAD] == bad_of(rounds.round())
    assert [f"cluster/set/2 segment {SEGMENT}: {why}"] == rounds.job.marks.passed_over
    assert {} == rounds.marked()


def test_a_begin_that_moved_below_the_segment_changes_nothing_for_it(
    replicas: LocalSet,
) -> None:
    """
    Retention goes on all the time; and it takes what is below.
    """
    damage(replicas.replicas[2].root, "payload bit")
    rounds = LocalRounds(replicas)
    rounds.after = _stat_later(rounds, begin=SEGMENT)
    rounds.round()
    assert {SEGMENT: {2: "CORRUPT"}} == rounds.marked()


def test_idle_workers_notice_by_a_glance_what_a_round_marked(
    replicas: LocalSet,
) -> None:
    """
    The same round again marks nothing, and wakes none.
    """
    damage(replicas.replicas[2].root, "payload bit")
    rounds = LocalRounds(replicas)
    queue = rounds.queue
    slot = queue.slot("w/0", lambda: 0.0)
    assert queue.take(slot) is None
    assert not queue.glance(slot)
    rounds.round()
    assert queue.glance(slot)
    claim = queue.take(slot)
    assert claim is not None
    assert claim.key == SegmentKey("cluster", "set", SEGMENT)

    rounds.round(1)
    assert not queue.glance(slot)


def test_without_a_controller_nothing_is_marked(replicas: LocalSet) -> None:
    """
    Who is in the set now is not known.
    """
    damage(replicas.replicas[2].root, "payload bit")
    rounds = LocalRounds(replicas)

    def end() -> None:
        replicas.no_controller = True

    rounds.after = end
    assert [_BAD] == bad_of(rounds.round())
    assert rounds.job.marks.problem.startswith("no controller tells the sets")
    assert {} == rounds.marked()


def test_a_check_that_gives_no_answer_confirms_nothing(replicas: LocalSet) -> None:
    """
    AR-R6: nor does a job that failed.
    """
    damage(replicas.replicas[2].root, "payload bit")
    rounds = LocalRounds(replicas)

    def refuse(call: str, number: int) -> None:
        if (call, number) == ("order", 2):
            raise UnavailableError("busy")

    def begin() -> None:
        replicas.before = refuse

    rounds.after = begin
    clock = [0]

    def pause(_: float) -> None:
        clock[0] += 5000

    with pytest.MonkeyPatch.context() as patch:
        check = partial(run_check, now_ms=lambda: clock[0], pause=pause)
        patch.setattr("pystore.spark.peers.run.run_check", check)
        rounds.round()
    (line,) = rounds.job.marks.passed_over
    assert line.endswith("broker 2 gives no definite answer: busy")
    assert {} == rounds.marked()


def test_the_brake_stops_all_marks_of_a_round(tmp_path: Path) -> None:
    """
    AR-R7: 16 are marked, 17 are not, not even those of another replica, and with force
    they are. What the queue knows already does not count.
    """
    replicas = replicas_of(tmp_path, records=2500)
    for index in range(17):
        flip(replicas.replicas[2].root, 700, index * SEGMENT)
    flip(replicas.replicas[3].root, 700, 20 * SEGMENT)
    rounds = LocalRounds(replicas)
    assert 18 == len(bad_of(rounds.round()))
    assert "would newly mark 17 of " in rounds.job.marks.problem
    assert rounds.job.marks.problem.endswith("then mark with --force")
    assert {} == rounds.marked()
    flip(replicas.replicas[2].root, 700, 0)
    rounds.queue.mark(
        SegmentKey("cluster", "set", SEGMENT),
        {2: corrupt(0)},
        Priority.FEWER_THAN_WANTED,
        by="auditor",
    )
    rounds.round(1)
    # Those of replica 2 are 16, one of which was known; and one of replica 3.
    assert ("", 17) == (rounds.job.marks.problem, len(rounds.marked()))
    flip(replicas.replicas[2].root, 700, 0)
    forced = LocalRounds(replicas, is_forced=True)
    forced.round()
    assert ("", 18) == (forced.job.marks.problem, len(forced.marked()))


def test_the_same_round_again_writes_nothing(replicas: LocalSet) -> None:
    """
    And a dead segment is not marked again.
    """
    damage(replicas.replicas[2].root, "payload bit")
    rounds = LocalRounds(replicas)
    rounds.round()
    version = _version(rounds)
    rounds.round()
    assert (version, {"same": 1}) == (_version(rounds), _outcomes(rounds))


def _version(rounds: LocalRounds) -> int:
    key = SegmentKey("cluster", "set", SEGMENT).mark
    found = rounds.space.open().get(key)
    assert found is not None
    return found.version


def _outcomes(rounds: LocalRounds) -> dict[str, int]:
    return {one.value: many for one, many in rounds.job.marks.outcomes.items()}


def test_a_full_queue_takes_the_most_urgent_marks(replicas: LocalSet) -> None:
    """
    AR-R4; the others are said, and are marked by a later round.
    """
    for number in (1, 2, 3):
        flip(replicas.replicas[number].root, 700, SEGMENT)
    flip(replicas.replicas[2].root, 700, 0)
    rounds = LocalRounds(replicas)
    rounds.queue.change_settings({"queue_window": 1})
    rounds.round()
    assert [SEGMENT] == list(rounds.marked())
    (line,) = rounds.job.marks.passed_over
    assert "segment 0: " in line
    assert line.endswith("the queue is full, mark it later")


def test_damage_of_several_copies_is_one_mark_with_its_priority(
    replicas: LocalSet,
) -> None:
    """
    Two of three are bad: the last copy.
    """
    for number in (1, 2):
        flip(replicas.replicas[number].root, 700)
    rounds = LocalRounds(replicas)
    rounds.round()
    assert {SEGMENT: {1: "CORRUPT", 2: "CORRUPT"}} == rounds.marked()
    (mark,) = rounds.queue.list().values()
    assert Priority.LAST_COPY is mark.priority
