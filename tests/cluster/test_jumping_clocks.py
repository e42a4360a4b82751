"""
Clocks that jump, and processes that stand still: time proves nothing about bytes.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from cluster.replica_process import QUICK, ReplicaProcess
from lib.ha.master_fixture import WAIT_MS, MasterStage, data_of
from lib.store.stores import fill, message

from pystore.ha.insync.ack import Ack, AckOutcome
from pystore.ha.insync.config import SetRules

HASTY = {"heartbeat_ms": 200, "housekeeping_ms": 1_000}
"""A peer that is silent for a second is lost."""

OTHER_TIME = """
import time
from itertools import count

draw = count(0, 86_400 * 10**9)
time.time_ns = lambda: next(draw)
time.time = lambda: next(draw) / 1e9
"""
"""A wall clock of 1970 that jumps by a day at each reading."""


def check_in_sync(stage: MasterStage) -> None:
    """
    An append is acknowledged on both disks.
    """
    stage.controller.wait_for({1, 2})
    end = stage.log.append(message(1)).end
    settled = stage.service.wait(Ack.ALL_SYNCED, end, WAIT_MS)
    assert AckOutcome.REACHED is settled.outcome
    assert {1, 2} == settled.flushed_by


def until_in_sync(stage: MasterStage) -> None:
    """
    An append is acknowledged on both disks, perhaps not the first one.
    """
    end_s = time.monotonic() + WAIT_MS / 1000
    while True:
        end = stage.log.append(message(1)).end
        settled = stage.service.wait(Ack.ALL_SYNCED, end, WAIT_MS)
        if {1, 2} == settled.flushed_by:
            return
        assert time.monotonic() < end_s, stage.controller.asked


@pytest.mark.slow
def test_the_wall_clocks_of_two_machines_need_not_agree(tmp_path: Path) -> None:
    """
    Frames carry the time of day for people; lags are measured by one clock alone.
    """
    script = OTHER_TIME + QUICK
    root, rules = tmp_path / "s", SetRules(first_check_ms=100, check_ms=100)
    with (
        MasterStage(tmp_path / "m", rules=rules) as stage,
        ReplicaProcess(stage.service.address, root, script=script) as slave,
    ):
        fill(stage.log, 300)
        check_in_sync(stage)
        assert ["broker 2 joined the SyncStateSet: it is in sync"] == [
            one.reason for one in stage.controller.asked
        ]
        assert 130 == slave.stop()
        assert data_of(stage.log.path) == data_of(root)


def test_a_master_that_slept_for_an_hour_gets_its_slave_back(tmp_path: Path) -> None:
    """
    Its clock jumps: the link looks silent and is left, no ack is made up for it, and
    the next link brings the slave back into the set.
    """
    root = tmp_path / "s"
    with (
        MasterStage(tmp_path / "m") as stage,
        ReplicaProcess(stage.service.address, root) as slave,
    ):
        fill(stage.log, 300)
        check_in_sync(stage)
        stage.skip(3_600_000)
        fill(stage.log, 300)
        slave.wait_for("the master closed the connection")
        # A fast slave is linked again before the set would be looked at without it.
        until_in_sync(stage)
        assert 130 == slave.stop()
        assert data_of(stage.log.path) == data_of(root)


@pytest.mark.slow
def test_a_slave_that_stands_still_leaves_the_set_and_comes_back(
    tmp_path: Path,
) -> None:
    """
    SIGSTOP for longer than silence is borne: acks go on without it, and when it wakes
    up it finds its link gone, and makes another.
    """
    root = tmp_path / "s"
    with (
        MasterStage(tmp_path / "m", HASTY) as stage,
        ReplicaProcess(stage.service.address, root) as slave,
    ):
        check_in_sync(stage)
        slave.child.send_signal(signal.SIGSTOP)
        fill(stage.log, 300)
        stage.controller.wait_for({1})
        end = stage.log.append(message(1)).end
        settled = stage.service.wait(Ack.ALL, end, WAIT_MS)
        assert AckOutcome.REACHED is settled.outcome
        assert {1} == settled.received_by
        slave.child.send_signal(signal.SIGCONT)
        check_in_sync(stage)
        assert 130 == slave.stop()
        assert data_of(stage.log.path) == data_of(root)
