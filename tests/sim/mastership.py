"""
A broker as a master for one epoch: real links, real in-sync decisions.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace

from lib.ha.ack_waits import AckWaits
from sim.environment import MasterEnvironment
from sim.network import Stream
from sim.store import SimStore

from pystore.errors import RemoteViolation
from pystore.ha.insync.ack import Ack
from pystore.ha.insync.config import SetRules
from pystore.ha.insync.facts import SessionAcked, SessionEnded, SessionOpened
from pystore.ha.insync.in_sync import InSync
from pystore.ha.master.config import MasterConfig, SetView
from pystore.ha.master.effects import (
    CloseLink,
    MasterEffect,
    MasterProtocol,
    NewerEpochSeen,
    SendBlock,
)
from pystore.ha.master.lease import NO_LEASE
from pystore.ha.master.protocol_legacy import LegacyMasterProtocol
from pystore.ha.master.protocol_v3 import V3MasterProtocol
from pystore.ha.wire.effects import Send
from pystore.ha.wire.legacy import is_legacy
from pystore.replicaset import AgreedSet, Incarnation, Member

__all__ = ["SimMastership"]

_WINDOW_BYTES = 16_384
_BLOCK_BYTES = 700
"""Small, so that blocks end within records."""

WAIT_MS = 3_000


@dataclass(slots=True)
class _Link:
    """
    One slave's stream.

    Attributes:
        process: whose it is, which a legacy slave does not say.
        connection: ``None`` until the first bytes tell the protocol.
        broker_id: of the session, once there is one.
        incarnation: likewise.
    """

    stream: Stream
    process: Incarnation | None
    session_id: int
    accepted_ms: int
    connection: MasterProtocol | None = None
    buffer: bytearray = field(default_factory=bytearray)
    is_over: bool = False
    broker_id: int | None = None
    incarnation: Incarnation | None = None


class SimMastership:
    """
    One mastership.

    Args:
        member: ourselves.
        epoch: its number; its entry is in the store's table.
        store: ours.
        agreed: the set.
        rules: the numbers.
        environment: the rest.
    """

    def __init__(
        self,
        member: Member,
        epoch: int,
        store: SimStore,
        agreed: AgreedSet,
        *,
        rules: SetRules,
        environment: MasterEnvironment,
    ) -> None:
        self.epoch = epoch
        self.lease = NO_LEASE
        self.is_over = False
        self.start = store.end
        self._store = store
        self._environment = environment
        self._links: list[_Link] = []
        self._config = MasterConfig(
            cluster="sim",
            broker_name="set",
            broker_id=member.broker_id,
            # A Java master goes by its table, whatever the controller says (RMQ-R137).
            epoch=store.epochs.last_epoch if environment.is_java else epoch,
            segment_size=4096,
            block_bytes_max=_BLOCK_BYTES,
            legacy_block_bytes_max=_BLOCK_BYTES,
            has_block_crc=True,
        )
        self.monitor = InSync(
            member,
            epoch,
            store.end,
            agreed,
            flushed_offset=store.flushed,
            confirm_offset=store.confirm,
            now_ms=environment.now(),
            rules=rules,
        )
        self._waits = AckWaits(self.monitor.ack_policy)
        self.after()

    @property
    def is_leased(self) -> bool:
        """
        Whether `leader` may be decided (C1).
        """
        now = self._environment.now()
        wall_ms = now + self._environment.wall_ms()
        return not self.is_over and self.lease.left_ms(now * 1_000_000, wall_ms) > 0

    # -- slaves ---------------------------------------------------------------

    def accept(self, stream: Stream, slave: Member) -> None:
        """
        A slave connects.
        """
        link = _Link(
            stream,
            slave.incarnation,
            self._environment.number(),
            self._environment.now(),
        )
        self._links = [one for one in self._links if not one.is_over]
        self._links.append(link)
        stream.up.receive = lambda piece: self._receive(link, piece)
        stream.up.lost = lambda: self._lost(link)

    def _set_view(self) -> SetView:
        known, monitor = self._environment.broker_ids(), self.monitor
        live = [one for one in self._links if not one.is_over]
        return SetView(
            broker_ids=known,
            members=frozenset(one for one in known if not monitor.may_suspend(one)),
            sessions={
                one.broker_id: one.incarnation
                for one in live
                if one.broker_id is not None
            },
            is_master=not self.is_over,
        )

    def _receive(self, link: _Link, piece: bytes) -> None:
        if link.is_over:
            return
        link.buffer += piece
        while not link.is_over:
            view = memoryview(bytes(link.buffer))
            log, now = self._store.master_log(), self._environment.now()
            connection = link.connection or self._greet(link, view)
            if connection is None:
                break
            taken = connection.receive(view, log, now)
            did = self._carry_out(link)
            if not taken and not did:
                break
            del link.buffer[:taken]
        self.after()

    def _greet(self, link: _Link, data: memoryview) -> MasterProtocol | None:
        """
        The first bytes tell what the slave speaks.
        """
        is_old = is_legacy(data)
        if is_old is None:
            return None
        if self._environment.is_java and not is_old:
            self._end(link)
            return None
        kind = LegacyMasterProtocol if is_old else V3MasterProtocol
        config = replace(self._config, wall_ms=self._environment.wall_ms())
        link.connection = kind(
            config, self._set_view, link.session_id, link.accepted_ms
        )
        return link.connection

    def _lost(self, link: _Link) -> None:
        if not link.is_over:
            if link.connection is not None:
                link.connection.lost("the stream is gone")
                self._carry_out(link)
            self._end(link)
            self.after()

    # -- our own log ----------------------------------------------------------

    def appended(self, ack: Ack, end: int) -> None:
        """
        A record is in the log, and its ack is waited for.
        """
        now, store = self._environment.now(), self._store
        self.monitor.grew(store.published, store.flushed, now)
        self._waits.begin(ack, end, now + WAIT_MS)
        self.after()

    def flushed(self) -> None:
        """
        More of the log is durable, or never will be.
        """
        if self._store.is_poisoned:
            self.monitor.poisoned(self._environment.now())
        self.monitor.grew(
            self._store.published, self._store.flushed, self._environment.now()
        )
        self.after()

    def tick(self) -> None:
        """
        Time passed.
        """
        now = self._environment.now()
        for link in self._links:
            due = self._deadline(link)
            if link.is_over or due is None or due > now:
                continue
            if link.connection is None:
                self._end(link)
                continue
            link.connection.tick(self._store.master_log(), now)
            self._carry_out(link)
        if self.monitor.next_deadline() <= now:
            self.monitor.tick(now)
        self.after()

    def next_deadline(self) -> int:
        """
        When `tick` is due.
        """
        dues = [self.monitor.next_deadline(), self._waits.next_deadline()]
        dues += [self._deadline(one) for one in self._links]
        return min(one for one in dues if one is not None)

    def _deadline(self, link: _Link) -> int | None:
        if link.is_over:
            return None
        if link.connection is None:
            return link.accepted_ms + self._config.reply_ms
        return link.connection.next_deadline()

    def step_down(self, epoch: int) -> None:
        """
        Another epoch has begun: no ack is given, no slave is served.
        """
        self.is_over = True
        self.monitor.step_down(epoch)
        for link in self._links:
            if link.connection is None:
                self._end(link)
            elif not link.is_over:
                link.connection.shutdown(self._environment.now())
                self._carry_out(link)
        self._settle()

    def drop(self) -> None:
        """
        The process is gone.
        """
        self.is_over = True
        for link in self._links:
            self._end(link)

    def link_of(self, broker_id: int) -> MasterProtocol | None:
        """
        The live connection of a slave.
        """
        live = (one for one in self._links if not one.is_over)
        found = (one.connection for one in live if one.broker_id == broker_id)
        return next(found, None)

    # -- what follows ---------------------------------------------------------

    def after(self) -> None:
        """
        What every change leads to: the confirm offset, waits, blocks for slaves.
        """
        if self.is_over:
            return
        if self.monitor.confirm_offset > self._store.confirm:
            self._environment.step()
            self._store.confirm = self.monitor.confirm_offset
            self._environment.confirmed()
        self._settle()
        self._pump()

    def _settle(self) -> None:
        now = self._environment.now()
        for one in self._waits.settle(now, now if self.is_leased else now - 1):
            self._environment.settled(one)

    def _pump(self) -> None:
        log, now = self._store.master_log(), self._environment.now()
        for link in self._links:
            connection = link.connection
            if connection is None:
                continue
            while not link.is_over and link.stream.down.in_flight < _WINDOW_BYTES:
                block = connection.next_block(log, _WINDOW_BYTES, now)
                if block is None:
                    break
                self._send(link, block)
            self._carry_out(link)

    def _send(self, link: _Link, block: SendBlock) -> None:
        data = self._store.bytes_at(block.offset, block.offset + block.size)
        head = block.head
        if block.crc_at is not None:
            crc = zlib.crc32(data).to_bytes(4, "big")
            head = head[: block.crc_at] + crc + head[block.crc_at + 4 :]
        link.stream.down.send(head + data)

    def _carry_out(self, link: _Link) -> bool:
        effects = link.connection.effects() if link.connection else []
        for effect in effects:
            if link.is_over and not isinstance(effect, SessionEnded):
                continue
            self._do(link, effect)
        return bool(effects)

    def _do(self, link: _Link, effect: MasterEffect) -> None:
        now = self._environment.now()
        match effect:
            case Send():
                link.stream.down.send(effect.data)
            case SendBlock():
                self._send(link, effect)
            case SessionOpened():
                link.broker_id = effect.broker_id
                link.incarnation = effect.incarnation
                closing = self.monitor.opened(effect, now)
                for other in self._links:
                    if other.session_id == closing:
                        self._end(other)
            case SessionAcked():
                self._environment.acked(effect, link.process)
                try:
                    self.monitor.acked(effect, self._store.published, now)
                except RemoteViolation as error:
                    # The connection lets no such ack through.
                    raise AssertionError(f"ack {effect}: {error}") from error
            case SessionEnded():
                self.monitor.left(effect, now)
            case NewerEpochSeen():
                self._environment.stepped_down(effect.epoch)
            case CloseLink():
                self._end(link)
            case _:
                raise AssertionError(f"no effect of a master: {effect}")

    def _end(self, link: _Link) -> None:
        if not link.is_over:
            link.is_over = True
            link.stream.close(link.stream.down, link.stream.up)
            if link.connection is None:
                return
            link.connection.lost("closed")
            for effect in link.connection.effects():
                if isinstance(effect, SessionEnded):
                    self.monitor.left(effect, self._environment.now())
