"""
A slave whose disk has no space, or loses what it took: real disks, real processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.replica_process import ReplicaProcess
from cluster.small_disks import NEEDS_MOUNTS, SmallDisk, ThinDisk
from lib.ha.master_fixture import WAIT_MS, MasterStage, data_of
from lib.store.stores import message

from pystore.ha.insync.ack import Ack, AckOutcome
from pystore.ha.insync.config import SetRules
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog
from pystore.verify import verify_store

pytestmark = NEEDS_MOUNTS

PATIENT = SetRules(lag_ms_max=60_000)
"""No member is removed for its lag: the disk must be the reason."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[MasterStage]:
    """
    A master with space.
    """
    with MasterStage(tmp_path / "master", rules=PATIENT) as made:
        yield made


def acked_by(stage: MasterStage, ack: Ack) -> frozenset[int]:
    """
    Appends a record, and returns the brokers that acked it.
    """
    end = stage.log.append(message(1)).end
    settled = stage.service.wait(ack, end, WAIT_MS)
    assert AckOutcome.REACHED is settled.outcome
    return settled.received_by if ack is Ack.ALL else settled.flushed_by


def append_much(log: CommitLog) -> None:
    """
    More than the segments that are there have room for.
    """
    for number in range(40):
        log.append(Message("Topic", b"%d" % number + bytes(32_000)))


def reasons(stage: MasterStage) -> list[str]:
    """
    Why the master asked for other sets.
    """
    return [change.reason for change in stage.controller.asked]


def check_same(stage: MasterStage, store: Path) -> None:
    """
    The slave's store is whole and holds the master's bytes.
    """
    assert data_of(stage.log.path) == data_of(store)
    assert "whole" == verify_store(store).verdict


def test_a_slave_with_a_full_disk_leaves_the_set_and_comes_back_with_space(
    stage: MasterStage, tmp_path: Path
) -> None:
    """
    Both sides say why, appends go on without it, and nothing is told as held that did
    not fit. With space it catches up by itself.
    """
    with (
        SmallDisk(tmp_path / "small") as disk,
        ReplicaProcess(
            stage.service.address, disk.path / "store", before=disk.inside
        ) as slave,
    ):
        stage.controller.wait_for({1, 2})
        assert {1, 2} == acked_by(stage, Ack.ALL_SYNCED)
        disk.fill()
        append_much(stage.log)
        line = slave.wait_for("No space left on device")
        stage.controller.wait_for({1})
        assert {1} == acked_by(stage, Ack.ALL_SYNCED)
        assert {1} == acked_by(stage, Ack.ALL)
        disk.free()
        stage.controller.wait_for({1, 2})
        assert {1, 2} == acked_by(stage, Ack.ALL_SYNCED)
        assert 130 == slave.stop()
        check_same(stage, disk.seen(disk.path / "store"))

    assert str(disk.path) in line
    assert any("DISK_FULL" in said for said in stage.said), stage.said


def test_a_slave_whose_disk_loses_what_it_took_is_no_member_until_it_is_whole(
    stage: MasterStage, tmp_path: Path
) -> None:
    """
    The write-back fails, so nothing more is proven to be on disk (A12): the master
    hears it and goes on alone, the slave ends with the disk's own words. Started
    again on a disk with space it checks its log, and catches up.
    """
    with ThinDisk(tmp_path / "thin") as disk:
        store = disk.path / "store"
        address = stage.service.address
        slave = ReplicaProcess(address, store, before=disk.inside)
        stage.controller.wait_for({1, 2})
        assert {1, 2} == acked_by(stage, Ack.ALL_SYNCED)
        disk.fill()
        append_much(stage.log)
        assert 3 == slave.wait()
        stage.controller.wait_for({1})
        assert {1} == acked_by(stage, Ack.ALL_SYNCED)
        disk.free()
        with ReplicaProcess(address, store, before=disk.inside) as again:
            stage.controller.wait_for({1, 2})
            assert {1, 2} == acked_by(stage, Ack.ALL_SYNCED)
            assert 130 == again.stop()
        check_same(stage, disk.seen(store))

    assert {
        "broker 2 left the SyncStateSet: its disk cannot flush",
        "broker 2 left the SyncStateSet: its connection closed",
    } & set(reasons(stage))
    assert "write-back failed" in slave.said[-1], slave.said
