"""
An in-sync monitor over a real log, for tests of it and of appends that wait there.
"""

from __future__ import annotations

from lib.store.stores import message
from pystore.ha.insync.config import SetRules
from pystore.ha.insync.facts import SessionAcked, SessionEnded, SessionOpened
from pystore.ha.insync.in_sync import InSync
from pystore.ha.master.effects import MasterLog
from pystore.ha.master.insync_monitor import InSyncMonitor
from pystore.ha.wire.codes import AckStatus
from pystore.replicaset import AgreedSet, Member
from pystore.store.commit_log import CommitLog

__all__ = ["EPOCH", "LONG_MS", "InSyncFixture"]

EPOCH = 3
"""Of the mastership."""

LONG_MS = 10_000
"""No test takes so long."""


class InSyncFixture:
    """An in-sync monitor over a real log, with a clock of the test's."""

    def __init__(
        self, log: CommitLog, *members: int, rules: SetRules | None = None
    ) -> None:
        self.log = log
        self.now_ms = 0
        self.lease_ms: int | None = None
        ends = log.writer.log.ends()
        agreed = AgreedSet(frozenset(map(Member, (1, *members))), 1)
        self.in_sync = in_sync = InSync(
            Member(1),
            EPOCH,
            log.end_offset,
            agreed,
            flushed_offset=ends.synced_end,
            confirm_offset=ends.confirm_offset,
            now_ms=0,
            rules=rules,
        )
        self.monitor = InSyncMonitor(
            in_sync,
            log.writer.log,
            lambda: frozenset({1, 2, 3}),
            lambda: self.now_ms,
            lambda: self.lease_ms,
        )

    def open(self, broker_id: int, session_id: int) -> int | None:
        """A legacy slave's session, which needs no incarnation."""
        return self.monitor.opened(
            SessionOpened(
                broker_id, None, session_id, 0, is_learner=False, is_legacy=True
            )
        )

    def ack(self, broker_id: int, session_id: int, received: int) -> None:
        """It holds so much."""
        ends = self.log.writer.log.ends()
        state = MasterLog(
            ends.min_offset,
            ends.published_end,
            ends.synced_end,
            ends.confirm_offset,
            self.log.epochs,
            ends.segment_size,
            is_poisoned=ends.poisoned,
        )
        self.monitor.acked(
            SessionAcked(
                broker_id, session_id, received, None, self.now_ms, AckStatus.OK
            ),
            state,
        )

    def leave(self, broker_id: int, session_id: int) -> None:
        """Its link is gone."""
        self.monitor.left(SessionEnded(broker_id, session_id, is_graceful=False))

    def agree(self, version: int, *members: int) -> None:
        """The controller's set is the master and these."""
        agreed = frozenset(map(Member, (1, *members)))
        self.monitor.agreed(AgreedSet(agreed, version))

    def append(self) -> int:
        """One record; answers its end."""
        return self.log.append(message(1)).end
