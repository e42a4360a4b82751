"""
The recorder orders what several threads saw, and says what is new.
"""

from __future__ import annotations

import threading
from typing import Any

from pystore.demo.recorder import Recorder
from pystore.demo.timeline import BrokerState, MarkKind, Timeline


class Stage:
    """
    A recorder with a clock that the test moves.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.said: list[tuple[float, str, str]] = []
        self.timeline = Timeline((1, 2))
        self.recorder = Recorder(
            self.timeline,
            lambda: self.now_s,
            lambda event: self.said.append((event.at_s, event.who, event.what)),
        )

    def lines(self) -> list[tuple[str, str]]:
        """
        What was told since the last call.
        """
        self.recorder.wait_for(lambda _: True, 0)
        found = [one[1:] for one in self.said]
        self.said.clear()
        return found


def status(role: str, epoch: int = 1, master: int = 1, **more: object) -> Any:
    """
    An answer of a broker.
    """
    found = {"role": role, "masterEpoch": epoch, "masterId": master}
    return found | {"syncStateSet": [], "endOffset": 0} | more


def test_a_changed_role_is_one_line_and_the_same_again_none() -> None:
    """
    Roles of a moment are in the timeline only.
    """
    stage = Stage()
    for now_s, role in enumerate(("pending", "master", "master", "pending")):
        stage.now_s = float(now_s)
        stage.recorder.seen(1, status(role, syncStateSet=[1]))
    stage.recorder.seen(2, status("following"))

    assert [
        ("broker 1", "master in epoch 1"),
        ("broker 1", "SyncStateSet 1"),
        ("broker 2", "slave of broker 1 in epoch 1"),
    ] == stage.lines()
    stage.timeline.end_s = 5.0
    roles = [span.state.role for span in stage.timeline.spans(1)]
    assert ["pending", "master", "pending"] == roles


def test_only_the_master_tells_the_set() -> None:
    """
    Its changes, each once.
    """
    stage = Stage()
    for members in ([1], [1, 2], [1, 2]):
        stage.recorder.seen(1, status("master", syncStateSet=members))
    stage.recorder.seen(2, status("following", syncStateSet=[1]))

    sets = [what for _, what in stage.lines() if what.startswith("Sync")]
    assert ["SyncStateSet 1", "SyncStateSet 1, 2"] == sets
    assert (1, 2) == stage.recorder.view(lambda view: view.in_sync())


def test_of_two_masters_the_one_of_the_higher_epoch_counts() -> None:
    """
    As long as the old one has not heard of it.
    """
    stage = Stage()
    stage.recorder.seen(1, status("master", 1, 1))
    stage.recorder.seen(2, status("master", 2, 2))

    assert 2 == stage.recorder.view(lambda view: view.master)


def test_answers_of_before_a_kill_do_not_count() -> None:
    """
    The broker stays down until it is released; then it starts.
    """
    stage = Stage()
    stage.recorder.seen(1, status("master"))
    stage.recorder.hold(1, "down")
    stage.recorder.seen(1, status("master"))
    stage.recorder.lost(1)

    assert BrokerState("down") == stage.timeline.state(1)
    assert stage.recorder.view(lambda view: view.master) is None
    stage.recorder.release(1, "starting")
    stage.recorder.lost(1)
    assert BrokerState("starting") == stage.timeline.state(1)
    stage.recorder.seen(1, status("following", 2, 2))
    assert "following" == stage.timeline.state(1).role


def test_after_a_pause_the_same_role_is_not_told_again() -> None:
    """
    After a kill it is.
    """
    stage = Stage()
    for role in ("paused", "down"):
        stage.recorder.seen(2, status("following"))
        stage.recorder.hold(2, role)
        stage.recorder.release(2)
    stage.recorder.seen(2, status("following"))

    assert 2 == len([what for _, what in stage.lines() if what.startswith("slave")])


def test_a_broker_that_does_not_answer_is_down() -> None:
    """
    Without being held.
    """
    stage = Stage()
    stage.recorder.seen(1, status("master"))
    stage.recorder.lost(1)

    assert "down" == stage.timeline.state(1).role
    assert stage.recorder.view(lambda view: view.statuses) == {}


def test_the_first_ack_of_each_master_is_told() -> None:
    """
    All are in the timeline.
    """
    stage = Stage()
    for now_s, broker in enumerate((1, 1, 2)):
        stage.now_s = float(now_s)
        stage.recorder.acked(broker, 10)

    assert [
        ("writer", "first `all` ack of broker 1"),
        ("writer", "first `all` ack of broker 2"),
    ] == stage.lines()
    assert [(0.0, 10), (1.0, 10), (2.0, 10)] == stage.timeline.acks


def test_a_later_leader_is_a_mark_and_the_first_is_none() -> None:
    """
    A time without a leader is no line.
    """
    stage = Stage()
    for address, name in (("a", "controller 1"), ("", ""), ("b", "controller 2")):
        stage.recorder.leads(address, name)

    marks = [one.mark for one in stage.timeline.events]
    assert [None, MarkKind.CONTROLLER] == marks
    assert "controller 2 leads" == stage.timeline.events[-1].label


def test_a_wait_ends_when_another_thread_saw_it() -> None:
    """
    And tells the events meanwhile, in the thread that waits.
    """
    stage = Stage()
    told_by: list[threading.Thread] = []
    recorder = Recorder(
        stage.timeline,
        lambda: stage.now_s,
        lambda _: told_by.append(threading.current_thread()),
    )
    thread = threading.Thread(target=recorder.acked, args=(1, 5))
    thread.start()

    assert recorder.wait_for(lambda view: view.acked_by == 1, 20)
    thread.join()
    assert [threading.current_thread()] == told_by


def test_a_wait_that_is_in_vain_says_so() -> None:
    """
    After its limit.
    """
    assert not Stage().recorder.wait_for(lambda view: view.master == 1, 0)
