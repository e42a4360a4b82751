"""
A stage for followers: a master of the test's, real sockets, and a clock of its own.

Both ends of a link run in one thread, taking turns. Time moves on when the follower
looks, and a wait without progress fails.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lib.ha.legacy_master_server import LegacyMaster, MasterLink
from lib.ha.told_reasons import reasons_to
from lib.store.stores import SEGMENT, fill
from pystore.ha.slave.backoff import BackOff
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.effects import SlaveProtocol
from pystore.ha.slave.follower import Follower, FollowerEnvironment, FollowerStatus
from pystore.ha.slave.protocol_legacy import LegacySlaveProtocol
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.ha.slave.transport import MasterStream, StreamLost
from pystore.store.commit_log import CommitLog

TERMS = SlaveConfig("cluster", "broker", 7, is_learner=True)
SLICE_MS = 10
TURNS_MAX = 20_000


@dataclass
class Stage:
    """
    Everything around a follower.

    Attributes:
        master: of the follower.
        until: asked in every turn; stops the follower.
        tick_ms: how far the clock goes in each turn.
        answer: what the master does with each of its links; ``None``: what a master
            does.
        make: the connection.
        said: why it had no link.
        paused_ms: how long it waited between links, all in all.
        dialled: how many times it tried.
        refused: how many of the first tries fail.
    """

    master: LegacyMaster
    until: Callable[[], bool]
    tick_ms: int = 10
    answer: Callable[[socket.socket], object] | None = None
    make: Callable[[], SlaveProtocol] = lambda: LegacySlaveProtocol(TERMS)
    said: list[str] = field(default_factory=list)
    paused_ms: int = 0
    dialled: int = 0
    refused: int = 0
    _turns: int = 0
    _now_ms: int = 0
    _links: list[tuple[MasterLink, socket.socket]] = field(default_factory=list)

    def follow(self, log: ReplicaLog) -> FollowerStatus:
        """
        Follows until it is time to stop.
        """
        environment = FollowerEnvironment(
            dial=self._dial,
            make=self.make,
            now_ms=lambda: self._now_ms,
            pause=self._pause,
            is_stopping=self.until,
            tell=reasons_to(self.said),
            turn=self._turn,
        )
        follower = Follower(log, environment, BackOff(lambda: 0.0))
        try:
            follower.run()
        finally:
            self.hang_up()
        return follower.status()

    def hang_up(self) -> None:
        """
        The master's end of every link is closed.
        """
        for _, link in self._links:
            link.close()
        self._links.clear()

    def _dial(self) -> MasterStream:
        self.dialled += 1
        if self.dialled <= self.refused:
            raise StreamLost("no master is there")
        ours, theirs = socket.socketpair()
        if self.answer is None:
            self._links.append((MasterLink(self.master, theirs), theirs))
        else:
            self.answer(theirs)
        return MasterStream(ours)

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


def make_master(root: Path) -> LegacyMaster:
    """
    A log of 3000 records over several segments, of two epochs.
    """
    with CommitLog(root, segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        fill(log, 1000)
        log.begin_epoch(2)
        fill(log, 2000)
        table = log.epochs
        data = b"".join(bytes(block.view) for block in log.blocks())
    return LegacyMaster(data, table.pairs())


def at_end(master: LegacyMaster) -> Callable[[], bool]:
    """
    Whether the master has heard that all is there.
    """
    return lambda: bool(master.acks) and master.acks[-1] == master.end
