"""
A follower: the master's log, wherever that begins and whatever ours held, and a stop
that no caller waits for.
"""

from __future__ import annotations

from pathlib import Path

from lib.ha.follower_fixture import Stage, at_end
from lib.ha.follower_fixtures import empty_replica, short_slices, two_epochs
from lib.ha.legacy_master_server import LegacyMaster
from lib.store.stores import SEGMENT

from pystore.epochs.table import EpochTable
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.ha.wire.codes import State
from pystore.verify import verify_store

__all__ = ["empty_replica", "short_slices", "two_epochs"]


def test_a_follower_makes_its_log_the_masters(
    master: LegacyMaster, log: ReplicaLog, tmp_path: Path
) -> None:
    """
    Bytes, epochs and confirm offset; the store is whole, and its stop was clean.
    """
    standing = Stage(master, at_end(master)).follow(log)

    assert master.end == log.log().end_offset == log.log().confirm_offset
    assert EpochTable.of(master.epochs) == log.log().epochs
    assert (State.SHUTDOWN, 1, master.end) == (
        standing.state,
        standing.links,
        standing.appended_bytes,
    )
    assert (master.end, 0) == (standing.master_end, standing.behind_ms)
    assert standing.received_bytes > master.end
    log.close()
    assert "whole" == verify_store(tmp_path / "slave").verdict
    with ReplicaLog(tmp_path / "slave") as again:
        assert again.recovery.is_clean


def test_acks_never_pass_what_the_log_holds(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    They rise, from 0 to the end, block by block (RMQ-R181).
    """
    Stage(master, at_end(master)).follow(log)

    assert sorted(master.acks) == master.acks
    assert 0 == master.acks[0]
    assert len(master.acks) > master.end // master.block_bytes


def test_a_log_begins_where_its_master_does(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    The master has deleted its first segments.
    """
    base = 3 * SEGMENT
    later = LegacyMaster(master.log[base:], master.epochs, min_offset=base)

    Stage(later, at_end(later)).follow(log)

    assert (base, master.end) == (log.log().min_offset, log.log().end_offset)


def test_a_new_link_goes_on_where_the_log_ends(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    Whatever half record the old one left.
    """
    master.limit = 100_003
    Stage(master, lambda: log.log().received_offset == 100_003).follow(log)
    assert log.log().end_offset < 100_003
    master.limit = 2**62

    standing = Stage(master, at_end(master)).follow(log)

    assert master.end == log.log().end_offset
    assert standing.appended_bytes <= master.end - 99_000


def test_a_tail_that_the_master_does_not_have_is_cut(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    A newer epoch began below our end: its bytes take the place of ours.
    """
    master.confirm = 0
    Stage(master, at_end(master)).follow(log)
    end = master.epochs[1][1]
    shorter = LegacyMaster(
        master.log[:end], [master.epochs[0], (3, end)], block_bytes=999
    )
    shorter.log += master.log[end : end + 20_000]

    Stage(shorter, at_end(shorter)).follow(log)

    assert [master.epochs[0], (3, end)] == log.log().epochs.pairs()
    assert end + 20_000 == log.log().received_offset


# -- stopping ----------------------------------------------------------------


def test_a_stop_while_waiting_is_prompt(master: LegacyMaster, log: ReplicaLog) -> None:
    """
    The back-off is not waited for.
    """
    stage = Stage(master, lambda: stage.paused_ms >= 50, refused=100)

    standing = stage.follow(log)

    assert stage.paused_ms < 100
    assert State.SHUTDOWN is standing.state


def test_a_stop_in_the_middle_of_a_backlog_is_prompt(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    Frames that are already here are left; the last ack says what the log holds.
    """
    stage = Stage(master, lambda: log.log().received_offset >= 100_000)

    stage.follow(log)

    assert 100_000 <= log.log().received_offset <= 100_000 + master.block_bytes


def test_a_stop_before_the_start_does_nothing(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    No callback is called.
    """
    stage = Stage(master, lambda: True)

    stage.follow(log)

    assert 0 == stage.dialled
