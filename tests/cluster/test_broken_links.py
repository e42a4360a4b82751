"""
A master and slaves in processes of their own, with a network between them that fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.proxy import TO_MASTER, TO_SLAVE, Proxy
from cluster.replica_process import ReplicaProcess
from lib.ha.master_fixture import WAIT_MS, MasterStage, data_of
from lib.store.stores import fill, message

from pystore.ha.insync.ack import Ack, AckOutcome
from pystore.ha.insync.config import SetRules
from pystore.store.commit_log import CommitLog

PATIENT = SetRules(lag_ms_max=1_000, first_check_ms=100, check_ms=100)
"""A member that lags for a second goes."""

HASTY = {"heartbeat_ms": 200, "housekeeping_ms": 1_000}
"""A peer that is silent for a second is lost."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """
    Where the slave's store is.
    """
    return tmp_path / "slave"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[MasterStage]:
    """
    A master that leaves a silent slave soon.
    """
    with MasterStage(tmp_path / "master", HASTY, rules=PATIENT) as made:
        yield made


def check_ack(stage: MasterStage, *broker_ids: int) -> None:
    """
    An append is acknowledged on the disk of exactly these.
    """
    end = stage.log.append(message(1)).end
    settled = stage.service.wait(Ack.ALL_SYNCED, end, WAIT_MS)
    assert AckOutcome.REACHED is settled.outcome
    assert frozenset(broker_ids) == settled.flushed_by


def wait_for_reason(stage: MasterStage, text: str) -> None:
    """
    The master has asked for a change of the set for this reason.
    """
    controller = stage.controller
    with controller.changed:
        assert controller.changed.wait_for(
            lambda: any(text == one.reason for one in controller.asked),
            WAIT_MS / 1000,
        ), controller.asked


def wait_for_process(stage: MasterStage, counter: int) -> None:
    """
    That process of the slave is a member.
    """
    controller = stage.controller
    with controller.changed:
        assert controller.changed.wait_for(
            lambda: any(
                one.broker_id == 2
                and one.incarnation
                and one.incarnation.counter == counter
                for one in controller.agreed.members
            ),
            WAIT_MS / 1000,
        ), controller.agreed


def check_equal(stage: MasterStage, root: Path, slave: ReplicaProcess) -> None:
    """
    The slave has all of the master's log, and ends well.
    """
    check_ack(stage, 1, 2)
    assert 130 == slave.stop()
    assert data_of(root) == data_of(stage.log.path)


@pytest.mark.slow
def test_a_peer_that_stops_reading_leaves_the_set_and_comes_back(
    stage: MasterStage, root: Path
) -> None:
    """
    The master does not wait for room in a socket for ever, appends go on, and the
    slave gets what it missed.
    """
    with (
        Proxy(stage.service.address) as proxy,
        ReplicaProcess(proxy.address, root) as slave,
    ):
        stage.controller.wait_for({1, 2})
        proxy.stall(TO_SLAVE)
        fill(stage.log, 20_000)
        stage.controller.wait_for({1})
        check_ack(stage, 1)
        proxy.resume(TO_SLAVE)
        stage.controller.wait_for({1, 2})
        check_equal(stage, root, slave)


def test_a_peer_that_stops_acking_with_its_window_open_is_shrunk_within_the_lag(
    tmp_path: Path, root: Path
) -> None:
    """
    It takes every byte and says nothing: sending proves nothing, so it goes by the
    lag, long before its link would be given up. Nothing is acknowledged for it.
    """
    with (
        MasterStage(tmp_path / "master", rules=PATIENT) as stage,
        Proxy(stage.service.address) as proxy,
        ReplicaProcess(proxy.address, root) as slave,
    ):
        stage.controller.wait_for({1, 2})
        check_ack(stage, 1, 2)
        proxy.stall(TO_MASTER)
        end = stage.log.append(message(1)).end
        settled = stage.service.wait(Ack.ALL, end, WAIT_MS)
        assert AckOutcome.REACHED is settled.outcome
        assert frozenset({1}) == settled.received_by
        assert (
            "broker 2 left the SyncStateSet: it was not caught up for 1000 ms"
            == stage.controller.asked[-1].reason
        )
        assert 1 == len(stage.service.links())
        proxy.resume(TO_MASTER)
        stage.controller.wait_for({1, 2})
        assert 1 == len(stage.service.links())
        check_equal(stage, root, slave)


def test_a_half_open_link_is_given_up_by_both_sides(
    stage: MasterStage, root: Path
) -> None:
    """
    Neither hears that the link is gone. Both leave it after the time of silence, and
    the slave comes back by a new one.
    """
    with (
        Proxy(stage.service.address) as proxy,
        ReplicaProcess(proxy.address, root) as slave,
    ):
        stage.controller.wait_for({1, 2})
        assert 1 == proxy.freeze()
        wait_for_reason(stage, "broker 2 left the SyncStateSet: its connection closed")
        stage.controller.wait_for({1, 2})
        check_equal(stage, root, slave)


@pytest.mark.slow
def test_a_slave_that_is_killed_behind_a_half_open_link_is_replaced(
    stage: MasterStage, root: Path
) -> None:
    """
    The master has not heard of its death when the next process of it connects.
    """
    with Proxy(stage.service.address) as proxy:
        first = ReplicaProcess(proxy.address, root)
        stage.controller.wait_for({1, 2})
        assert 1 == proxy.freeze()
        first.kill()
        with ReplicaProcess(proxy.address, root) as slave:
            wait_for_process(stage, 2)
            check_equal(stage, root, slave)


@pytest.mark.slow
def test_a_link_that_is_cut_again_and_again_loses_nothing(
    stage: MasterStage, root: Path
) -> None:
    """
    In the middle of a backlog, at whichever byte, on a slow network.
    """
    fill(stage.log, 20_000)
    with (
        Proxy(stage.service.address) as proxy,
        ReplicaProcess(proxy.address, root) as slave,
    ):
        proxy.delay(0.002)
        for carried in (300_000, 1_000_000):
            assert proxy.wait_for_bytes(carried, WAIT_MS / 1000)
            assert 1 == proxy.cut()
        proxy.delay(0)
        stage.controller.wait_for({1, 2})
        check_equal(stage, root, slave)


@pytest.mark.slow
def test_a_killed_slave_takes_no_ack_of_the_master_along(
    stage: MasterStage, root: Path
) -> None:
    """
    `leader` and `leader-synced` are decided without it: before, while nobody has
    noticed that it is gone, and when the next process of it has come.
    """
    acked = {}
    first = ReplicaProcess(stage.service.address, root)
    stage.controller.wait_for({1, 2})
    acked.update(append_alone(stage, 100))
    first.kill()
    acked.update(append_alone(stage, 200))
    with ReplicaProcess(stage.service.address, root) as slave:
        wait_for_process(stage, 2)
        acked.update(append_alone(stage, 300))
        check_equal(stage, root, slave)
    with CommitLog(root, mode="r") as log:
        assert acked == {offset: log.read(offset).keys for offset in acked}


def append_alone(stage: MasterStage, first: int) -> dict[int, str]:
    """
    Appends with the acks of the master alone; offsets and keys.
    """
    acked = {}
    for number, ack in enumerate((Ack.LEADER, Ack.LEADER_SYNCED) * 10, first):
        done = stage.log.append(message(number))
        settled = stage.service.wait(ack, done.end, WAIT_MS)
        assert AckOutcome.REACHED is settled.outcome
        acked[done.offset] = f"k{number}"
    return acked


def test_of_two_processes_with_one_broker_id_the_newest_wins(
    stage: MasterStage, root: Path, tmp_path: Path
) -> None:
    """
    The older incarnation is told which one follows; were it let in, one broker's ack
    would count for two stores.
    """
    for _ in range(3):
        CommitLog(root, segment_size=1 << 16).close()
    with ReplicaProcess(stage.service.address, root) as newest:
        stage.controller.wait_for({1, 2})
        with ReplicaProcess(stage.service.address, tmp_path / "copy") as older:
            line = older.wait_for("DUPLICATE")
            assert "a newer incarnation of this broker has a session" in line
            assert (
                "its newer incarnation 4 has a session, this one is incarnation 1"
                in line
            )
        check_equal(stage, root, newest)


@pytest.mark.slow
def test_a_newer_process_of_a_broker_takes_the_place_of_the_older(
    stage: MasterStage, root: Path, tmp_path: Path
) -> None:
    """
    The other way round: the one that follows is closed, and may not come back.
    """
    for _ in range(3):
        CommitLog(root, segment_size=1 << 16).close()
    with ReplicaProcess(stage.service.address, tmp_path / "copy") as older:
        stage.controller.wait_for({1, 2})
        with ReplicaProcess(stage.service.address, root) as newest:
            older.wait_for("DUPLICATE")
            wait_for_process(stage, 4)
            check_equal(stage, root, newest)


def test_a_slave_of_another_broker_set_is_refused_with_a_clear_line(
    stage: MasterStage, root: Path
) -> None:
    """
    Both sides say whose slave it is, and what the operator has to look at.
    """
    with ReplicaProcess(stage.service.address, root, set_name="other") as slave:
        line = slave.wait_for("BROKER_NAME")
        stage.wait_for_links(0)

    assert "the master belongs to another broker set: check the broker name" in line
    assert "the slave belongs to broker set 'other', not to 'b'" in line
    assert any("the slave belongs to broker set 'other'" in said for said in stage.said)
    assert [] == stage.controller.asked
