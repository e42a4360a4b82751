"""
A follower whose links break, whose peers are no masters, and whose disk refuses.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import pytest
from lib.ha.follower_fixture import TERMS, Stage, at_end
from lib.ha.follower_fixtures import empty_replica, short_slices, two_epochs
from lib.ha.legacy_master_server import LegacyMaster
from lib.values import replace

from pystore.core.log_writer import LogHandle
from pystore.errors import (
    FullError,
    PoisonedError,
    RemoteViolation,
    StorageError,
    UnavailableError,
)
from pystore.ha.slave.effects import LeaveMaster, Retry, SlaveProtocol
from pystore.ha.slave.protocol_legacy import LegacySlaveProtocol
from pystore.ha.slave.replica_log import ReplicaLog

__all__ = ["empty_replica", "short_slices", "two_epochs"]


# -- links that break -------------------------------------------------------


def test_a_master_that_is_away_is_tried_with_back_off(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    10, 20, 40 ms and so on, then 30 s; the same reason is told once.
    """
    stage = Stage(master, at_end(master), tick_ms=0, refused=14)

    stage.follow(log)

    assert 10 * (2**12 - 1) + 2 * 30_000 == stage.paused_ms
    assert ["no master is there"] == stage.said


@pytest.mark.parametrize(("tick_ms", "next_ms"), [(0, 160), (500, 10)])
def test_a_link_that_brought_bytes_for_a_second_begins_the_back_off_anew(
    master: LegacyMaster, log: ReplicaLog, tick_ms: int, next_ms: int
) -> None:
    """
    A link that breaks after its first block is not made a hundred times a second.
    """
    stage = Stage(master, at_end(master), tick_ms=0, refused=4)
    master.limit = 50_000

    def hang_up_once() -> bool:
        stage.tick_ms = tick_ms if stage.dialled > stage.refused else 0
        if master.limit == 50_000 and 50_000 in master.acks:
            master.limit = 2**62
            stage.hang_up()
        return at_end(master)()

    stage.until = hang_up_once
    stage.follow(log)

    assert 10 * (1 + 2 + 4 + 8) + next_ms == stage.paused_ms
    assert ["no master is there", "the master closed the connection"] == stage.said


def test_a_peer_that_closes_at_once_is_tried_with_back_off(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    A link without bytes is no success.
    """
    stage = Stage(master, lambda: stage.dialled > 5, tick_ms=0)
    stage.answer = socket.socket.close

    stage.follow(log)

    assert 10 * (1 + 2 + 4 + 8 + 16) <= stage.paused_ms
    assert 1 == len(stage.said)


@pytest.mark.parametrize("seed", range(8))
def test_garbage_from_the_peer_ends_the_link_only(
    master: LegacyMaster, log: ReplicaLog, seed: int
) -> None:
    """
    It is said in one line, and changes nothing in the log.
    """
    kept: list[socket.socket] = []

    def answer(link: socket.socket) -> None:
        link.send(os.urandom(5000) if seed else b"HTTP/1.1 400 Bad Request\r\n\r\n")
        kept.append(link)

    stage = Stage(master, lambda: stage.dialled > 3, answer=answer)

    stage.follow(log)

    assert log.log().is_empty
    assert all("\n" not in line for line in stage.said)
    assert stage.said
    for link in kept:
        link.close()


def test_a_peer_that_says_nothing_is_left_after_five_seconds(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    Its answer to the handshake is overdue, by the clock that was given.
    """
    kept: list[socket.socket] = []
    stage = Stage(master, lambda: stage.dialled > 1, tick_ms=250, answer=kept.append)

    standing = stage.follow(log)

    assert 2 >= standing.links
    assert 1 == len(stage.said)
    assert 5 <= stage._now_ms / 1000 <= 8
    for link in kept:
        link.close()


def test_a_master_that_stops_sending_is_left_after_twenty_seconds(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    Its heartbeats are missing; the slave's own were sent every five.
    """
    master.limit = 50_000
    stage = Stage(master, lambda: stage.dialled > 1, tick_ms=250)

    stage.follow(log)

    assert 20 <= stage._now_ms / 1000 <= 26
    assert 3 <= master.acks.count(50_000) <= 6


def test_a_violation_that_a_connection_lets_out_ends_the_link(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    Whatever breaks the protocol is not the end of the follower (RMQ-R182).
    """

    class Careless(LegacySlaveProtocol):
        def receive(self, data: memoryview, now_ms: int) -> int:
            del data, now_ms
            raise RemoteViolation("not this")

    stage = Stage(master, lambda: stage.dialled > 2)
    stage.make = lambda: Careless(TERMS)

    stage.follow(log)

    assert ["not this"] == stage.said


@pytest.mark.parametrize("retry", [Retry.OPERATOR, Retry.ASK_CONTROLLER, Retry.SOON])
def test_a_refusal_is_logged_once_and_tried_again(
    master: LegacyMaster, log: ReplicaLog, retry: Retry
) -> None:
    """
    The operator may change something meanwhile.
    """
    stage = Stage(master, lambda: stage.dialled > 4)
    stage.make = refusing(retry)

    stage.follow(log)

    assert ["wrong cluster"] == stage.said


def test_a_final_refusal_ends_it(master: LegacyMaster, log: ReplicaLog) -> None:
    """
    With the reason as the error.
    """
    stage = Stage(master, lambda: False)
    stage.make = refusing(Retry.NEVER)

    with pytest.raises(UnavailableError, match="wrong cluster"):
        stage.follow(log)
    assert 1 == stage.dialled


def refusing(retry: Retry) -> Callable[[], SlaveProtocol]:
    """
    Connections that close when they hear something.
    """

    class Refusing(LegacySlaveProtocol):
        def receive(self, data: memoryview, now_ms: int) -> int:
            del now_ms
            self._close("wrong cluster", retry)
            return len(data)

    return lambda: Refusing(TERMS)


# -- our own disk --------------------------------------------------------------


def test_a_full_disk_is_no_lost_link(
    master: LegacyMaster, log: ReplicaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The reason names the disk, and when there is space again the log goes on.
    """
    append = LogHandle.append_raw
    tries = []

    def refuse(handle: LogHandle, offset: int, data: memoryview) -> int:
        tries.append(offset)
        if 3 <= len(tries) <= 5:
            raise FullError("no space: make some", errno=28)
        return append(handle, offset, data)

    monkeypatch.setattr(LogHandle, "append_raw", refuse)
    stage = Stage(master, at_end(master))

    stage.follow(log)

    assert master.end == log.log().end_offset
    # Of the links that end so, one after the other, the first has brought bytes.
    assert ["Append: no space: make some"] * 2 == stage.said
    assert 3 == stage.dialled - 1


def test_a_poisoned_disk_ends_it(
    master: LegacyMaster, log: ReplicaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Nothing more gets durable: the error of the disk is the end, not a lost link.
    """

    def refuse(*_: object) -> int:
        raise PoisonedError("a write-back failed", errno=5)

    monkeypatch.setattr(LogHandle, "append_raw", refuse)

    with pytest.raises(PoisonedError, match="a write-back failed"):
        Stage(master, lambda: False).follow(log)


def test_a_write_back_that_fails_behind_the_scenes_ends_it(
    master: LegacyMaster, log: ReplicaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Also when no byte comes any more that would notice.
    """
    stand = ReplicaLog.log
    monkeypatch.setattr(
        ReplicaLog,
        "log",
        lambda own: replace(stand(own), is_poisoned=bool(master.acks)),
    )

    with pytest.raises(PoisonedError, match="check the disk"):
        Stage(master, lambda: False).follow(log)


def test_a_cut_that_the_disk_refused_is_mended_before_the_next_link(
    master: LegacyMaster, log: ReplicaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The cut is done again, in the same incarnation (B14).
    """
    master.confirm = 0
    Stage(master, at_end(master)).follow(log)
    end = master.epochs[1][1]
    other = LegacyMaster(master.log, [master.epochs[0], (3, end)])
    apply = LogHandle.cut_apply
    tries = []

    def refuse(handle: LogHandle) -> object:
        tries.append(1)
        if len(tries) == 1:
            raise StorageError("the disk says no", errno=5)
        return apply(handle)

    monkeypatch.setattr(LogHandle, "cut_apply", refuse)
    stage = Stage(other, at_end(other))
    incarnation = log.incarnation

    stage.follow(log)

    assert incarnation == log.incarnation
    assert any("the disk says no" in line for line in stage.said)
    assert [master.epochs[0], (3, end)] == log.log().epochs.pairs()
    assert other.end == log.log().end_offset


def test_effects_behind_a_close_are_void(master: LegacyMaster, log: ReplicaLog) -> None:
    """
    Not one byte is appended behind it.
    """

    class Closing(LegacySlaveProtocol):
        def receive(self, data: memoryview, now_ms: int) -> int:
            self._effects.insert(0, LeaveMaster("over", Retry.SOON))
            return super().receive(data, now_ms)

    stage = Stage(master, lambda: stage.dialled > 2)
    stage.make = lambda: Closing(TERMS)

    stage.follow(log)

    assert log.log().is_empty
    assert [] == master.acks
