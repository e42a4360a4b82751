"""
A follower in a thread of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from lib.ha.master_fixture import EPOCH, WAIT_MS, MasterStage
from lib.ha.told_reasons import reasons_to
from lib.store.late import pull
from lib.store.stores import SEGMENT, fill

from pystore.clocks import clock_ms
from pystore.errors import ClosedError
from pystore.ha.slave.backoff import BackOffConfig
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.follower_thread import FollowerThread
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.replicaset import ids_of


def follow(log: ReplicaLog, address: str, said: list[str]) -> FollowerThread:
    """
    Begins to follow.
    """
    config = SlaveConfig("c", "b", 2, epoch=EPOCH, incarnation=1)
    return FollowerThread(
        log,
        address,
        config,
        clock_ms,
        tell=reasons_to(said),
        pace=BackOffConfig(10, 100),
    )


def test_it_follows_until_it_is_stopped(tmp_path: Path) -> None:
    """
    And then no thread writes to the log any more.
    """
    said: list[str] = []
    with (
        MasterStage(tmp_path / "master") as stage,
        ReplicaLog(tmp_path / "slave", segment_size=SEGMENT) as log,
    ):
        host, port = stage.service.address
        following = follow(log, f"{host}:{port}", said)
        fill(stage.log, 50)
        stage.wait_for_ack(stage.log.end_offset)
        assert following.status().appended_bytes == stage.log.end_offset
        following.stop()
        following.stop()
        fill(stage.log, 50)
        stage.wait_for_links(0)

        assert following.problem is None
        assert log.log().received_offset < stage.log.end_offset


def test_a_decision_ends_the_wait_and_begins_the_back_off_anew(tmp_path: Path) -> None:
    """
    The second wait would be a day long; no further one is the second.
    """
    said: list[str] = []
    with (
        MasterStage(tmp_path / "master") as stage,
        ReplicaLog(tmp_path / "slave", segment_size=SEGMENT) as log,
    ):
        host, port = stage.service.address
        stage.service.close()
        pace = BackOffConfig(86_400_000, 86_400_000)
        config = SlaveConfig("c", "b", 2, epoch=EPOCH, incarnation=1)
        following = FollowerThread(
            log, f"{host}:{port}", config, clock_ms, tell=reasons_to(said), pace=pace
        )
        wait_for(lambda: len(said) == 1)
        with MasterStage(tmp_path / "other", port=port) as other:
            fill(other.log, 5)
            following.hurry()
            other.wait_for_ack(other.log.end_offset)
        following.stop()


def has_links(following: FollowerThread, count: int) -> bool:
    """
    Whether so many links were opened.
    """
    return following.status().links == count


def wait_for(is_so: Callable[[], bool]) -> None:
    """
    Waits until something is so.
    """
    until_ms = clock_ms() + WAIT_MS
    while not is_so():
        assert clock_ms() < until_ms
        threading.Event().wait(0.001)


def test_a_link_ends_when_its_replica_becomes_a_learner_or_a_voter(
    tmp_path: Path,
) -> None:
    """
    The next handshake says it: the acks of a learner count for nothing.
    """
    said: list[str] = []
    learns = [False]
    config = SlaveConfig("c", "b", 2, epoch=EPOCH, incarnation=1)
    with (
        MasterStage(tmp_path / "master") as stage,
        ReplicaLog(tmp_path / "slave", segment_size=SEGMENT) as log,
    ):
        host, port = stage.service.address
        following = FollowerThread(
            log,
            f"{host}:{port}",
            config,
            clock_ms,
            tell=reasons_to(said),
            pace=BackOffConfig(10, 100),
            is_learner=lambda: learns[0],
        )
        for count, is_learner in enumerate((False, True, False), 1):
            learns[0] = is_learner
            following.hurry()
            wait_for(partial(has_links, following, count))
            fill(stage.log, 5)
            wait_for(lambda: log.log().received_offset == stage.log.end_offset)
            if not is_learner:
                stage.wait_for_ack(stage.log.end_offset)
        following.stop()

    assert 3 == following.status().links
    expected = "whether this replica is a learner has changed: connecting again"
    assert [expected] * 2 == said


@pytest.mark.parametrize("is_member", [False, True])
def test_a_replica_that_was_filled_connects_again_unless_it_is_a_member(
    tmp_path: Path, *, is_member: bool
) -> None:
    """
    B11: a master under a controller of RocketMQ adds it then; the link of a member, as
    under one of pystore, goes on.
    """
    said: list[str] = []
    config = SlaveConfig(
        "c", "b", 2, epoch=EPOCH, incarnation=1, is_from_last_file=True
    )
    with (
        MasterStage(tmp_path / "master") as stage,
        ReplicaLog(tmp_path / "slave", segment_size=SEGMENT) as log,
    ):
        while stage.log.end_offset < 3 * SEGMENT:
            fill(stage.log, 50)
        host, port = stage.service.address
        following = FollowerThread(
            log,
            f"{host}:{port}",
            config,
            clock_ms,
            tell=reasons_to(said),
            pace=BackOffConfig(10, 100),
            is_member=lambda: is_member,
        )
        wait_for(lambda: log.log().received_offset == stage.log.end_offset)
        begin = log.log().min_offset
        assert begin >= 2 * SEGMENT
        assert {1} == ids_of(stage.controller.agreed.members)
        while stage.log.end_offset < begin + 2 * SEGMENT:
            fill(stage.log, 50)
        wait_for(lambda: log.log().received_offset == stage.log.end_offset)
        log.sync()
        for base in range(begin - SEGMENT, -1, -SEGMENT):
            log.fill(pull(tmp_path / "master", log.store, base))
        if not is_member:
            stage.controller.wait_for({1, 2})
        fill(stage.log, 5)
        wait_for(lambda: log.log().received_offset == stage.log.end_offset)
        assert [1 if is_member else 2] == [following.status().links]
        following.stop()
    reason = "this replica lacks no records of its set any more: connecting again"
    assert [reason] * (not is_member) == said


def test_a_store_that_cannot_be_used_is_a_problem_that_is_kept(tmp_path: Path) -> None:
    """
    It is told once, and the thread ends.
    """
    said: list[str] = []
    log = ReplicaLog(tmp_path / "slave", segment_size=SEGMENT)
    log.close()
    with MasterStage(tmp_path / "master") as stage:
        host, port = stage.service.address
        following = follow(log, f"{host}:{port}", said)
        until_ms = clock_ms() + WAIT_MS
        while following.problem is None and clock_ms() < until_ms:
            stage.service.monitor.rest(1)
        following.stop()

    assert isinstance(following.problem, ClosedError)
    assert said == [str(following.problem)]


@pytest.mark.parametrize("address", ["", "nowhere", "host:0", "host:port"])
def test_what_is_no_address_is_refused_at_once(tmp_path: Path, address: str) -> None:
    """
    No thread begins.
    """
    with (
        ReplicaLog(tmp_path, segment_size=SEGMENT) as log,
        pytest.raises(ValueError, match=r"is no HOST:PORT|a port is within"),
    ):
        follow(log, address, [])
