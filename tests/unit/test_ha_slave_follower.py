"""
A follower: one link after the other, effects in order, and nothing that hangs.

The master is real and its link a real socket; both ends run in one thread, taking
turns. Time is the test's: it moves on when the follower looks.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from serving_master import LegacyMaster, MasterLink
from stores import SEGMENT, fill

from pystore.epochs import EpochTable
from pystore.errors import (
    FullError,
    PoisonedError,
    RemoteViolation,
    StorageError,
    UnavailableError,
)
from pystore.ha.codes import State
from pystore.ha.slave import follower as module
from pystore.ha.slave.backoff import BackOff
from pystore.ha.slave.effects import Close, Connection, Retry
from pystore.ha.slave.follower import Follower, Rim, Standing
from pystore.ha.slave.legacy import LegacySlaveConnection
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.ha.slave.stream import Stream, StreamLost
from pystore.ha.slave.terms import Terms
from pystore.handle import LogHandle
from pystore.log import CommitLog
from pystore.verify import verify_store

TERMS = Terms("cluster", "broker", 7, is_learner=True)
SLICE_MS = 10
TURNS_MAX = 20_000


@dataclass
class Stage:
    """
    Everything around a follower.

    Attributes:
        master: whom it follows.
        until: asked in every turn; stops the follower.
        tick_ms: how far the clock goes in each turn.
        answer: what the master does with each of its links; ``None``: what a master
            does.
        make: the connection.
        said: every line for people.
        paused_ms: how long it waited between links, all in all.
        dialled: how many times it tried.
        refused: so many of the first tries find nobody.
    """

    master: LegacyMaster
    until: Callable[[], bool]
    tick_ms: int = 10
    answer: Callable[[socket.socket], object] | None = None
    make: Callable[[], Connection] = lambda: LegacySlaveConnection(TERMS)
    said: list[str] = field(default_factory=list)
    paused_ms: int = 0
    dialled: int = 0
    refused: int = 0
    _turns: int = 0
    _now_ms: int = 0
    _links: list[tuple[MasterLink, socket.socket]] = field(default_factory=list)

    def follow(self, log: ReplicaLog) -> Standing:
        """
        Follows until it is time to stop.
        """
        rim = Rim(
            dial=self._dial,
            make=self.make,
            now_ms=lambda: self._now_ms,
            pause=self._pause,
            is_stopping=self.until,
            say=self.said.append,
            turn=self._turn,
        )
        follower = Follower(log, rim, BackOff(lambda: 0.0))
        try:
            follower.run()
        finally:
            self.hang_up()
        return follower.standing()

    def hang_up(self) -> None:
        """
        The master's end of every link is closed.
        """
        for _, link in self._links:
            link.close()
        self._links.clear()

    def _dial(self) -> Stream:
        self.dialled += 1
        if self.dialled <= self.refused:
            raise StreamLost("nobody is there")
        ours, theirs = socket.socketpair()
        if self.answer is None:
            self._links.append((MasterLink(self.master, theirs), theirs))
        else:
            self.answer(theirs)
        return Stream(ours)

    def _pause(self, wait_ms: int) -> None:
        assert 0 < wait_ms <= SLICE_MS
        self.paused_ms += wait_ms
        self._now_ms += wait_ms

    def _turn(self) -> None:
        self._turns += 1
        assert self._turns < TURNS_MAX, "the follower gets nowhere"
        self._now_ms += self.tick_ms
        for end, link in self._links[-1:]:
            try:
                end.step()
            except OSError:  # the slave has closed its end
                link.close()
                self._links.clear()


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Nobody waits for a socket that is quiet.
    """
    monkeypatch.setattr(module, "SLICE_MS", SLICE_MS)


@pytest.fixture
def master(tmp_path: Path) -> LegacyMaster:
    """
    A log of 3000 records over seven segments, of two epochs.
    """
    with CommitLog(tmp_path / "master", segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        fill(log, 1000)
        log.begin_epoch(2)
        fill(log, 2000)
        table = log.epochs
        data = b"".join(bytes(block.view) for block in log.blocks())
    return LegacyMaster(data, table.pairs())


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ReplicaLog]:
    """
    An empty replica with the master's segment size.
    """
    with ReplicaLog(tmp_path / "slave", segment_size=SEGMENT) as opened:
        yield opened


def at_end(master: LegacyMaster) -> Callable[[], bool]:
    """
    Whether the master has heard that all is there.
    """
    return lambda: bool(master.acks) and master.acks[-1] == master.end


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
    They rise, from 0 to the end, block by block (R181).
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


# -- links that break -------------------------------------------------------


def test_a_master_that_is_away_is_tried_with_back_off(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    1, 2, 4, 8, 16, then 30 s; the same reason is told once.
    """
    stage = Stage(master, at_end(master), tick_ms=0, refused=7)

    stage.follow(log)

    assert 1000 * (1 + 2 + 4 + 8 + 16 + 30 + 30) == stage.paused_ms
    assert ["nobody is there"] == stage.said


def test_a_link_that_brought_bytes_begins_the_back_off_anew(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    The wait after it is a second again.
    """
    stage = Stage(master, at_end(master), tick_ms=0, refused=4)
    master.limit = 50_000

    def hang_up_once() -> bool:
        if master.limit == 50_000 and 50_000 in master.acks:
            master.limit = 2**62
            stage.hang_up()
        return at_end(master)()

    stage.until = hang_up_once
    stage.follow(log)

    assert 1000 * (1 + 2 + 4 + 8 + 1) == stage.paused_ms
    assert ["nobody is there", "the master closed the link"] == stage.said


def test_a_peer_that_closes_at_once_is_tried_with_back_off(
    master: LegacyMaster, log: ReplicaLog
) -> None:
    """
    A link without bytes is no success.
    """
    stage = Stage(master, lambda: stage.dialled > 5, tick_ms=0)
    stage.answer = socket.socket.close

    stage.follow(log)

    assert 1000 * (1 + 2 + 4 + 8 + 16) <= stage.paused_ms
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
    Whatever breaks the protocol is not the end of the follower (R182).
    """

    class Careless(LegacySlaveConnection):
        def receive(self, data: memoryview, now_ms: int) -> int:
            del data, now_ms
            raise RemoteViolation("not this")

    stage = Stage(master, lambda: stage.dialled > 2)
    stage.make = lambda: Careless(TERMS)

    stage.follow(log)

    assert ["not this"] == stage.said


@pytest.mark.parametrize("retry", [Retry.OPERATOR, Retry.ASK_CONTROLLER, Retry.SOON])
def test_a_refusal_is_told_once_and_tried_again(
    master: LegacyMaster, log: ReplicaLog, retry: Retry
) -> None:
    """
    Somebody may change something meanwhile.
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


def refusing(retry: Retry) -> Callable[[], Connection]:
    """
    Connections that close when they hear something.
    """

    class Refusing(LegacySlaveConnection):
        def receive(self, data: memoryview, now_ms: int) -> int:
            del now_ms
            self._close("wrong cluster", retry)
            return len(data)

    return lambda: Refusing(TERMS)


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
    Nobody is called.
    """
    stage = Stage(master, lambda: True)

    stage.follow(log)

    assert 0 == stage.dialled


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
    assert 1 == len(stage.said)
    assert "no space: make some" in stage.said[0]
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


def test_a_cut_that_the_disk_refused_is_mended_before_the_next_link(
    master: LegacyMaster, log: ReplicaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The store is opened again, which ends the cut.
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

    stage.follow(log)

    assert any("the disk says no" in line for line in stage.said)
    assert [master.epochs[0], (3, end)] == log.log().epochs.pairs()
    assert other.end == log.log().end_offset


def test_effects_behind_a_close_are_void(master: LegacyMaster, log: ReplicaLog) -> None:
    """
    Not one byte is appended behind it.
    """

    class Closing(LegacySlaveConnection):
        def receive(self, data: memoryview, now_ms: int) -> int:
            self._effects.insert(0, Close("over", Retry.SOON))
            return super().receive(data, now_ms)

    stage = Stage(master, lambda: stage.dialled > 2)
    stage.make = lambda: Closing(TERMS)

    stage.follow(log)

    assert log.log().is_empty
    assert [] == master.acks
