"""
A broker as a master: real connections, the real judgement, for one epoch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from sim.network import Stream
from sim.store import SimStore

from pystore.errors import RemoteViolation
from pystore.ha.insync.ack import Ack, Settled
from pystore.ha.insync.in_sync import InSync
from pystore.ha.insync.member import AgreedSet, Member
from pystore.ha.insync.rules import SetRules
from pystore.ha.master.connection import MasterConnection
from pystore.ha.master.effects import (
    Acked,
    Close,
    Effect,
    Left,
    Opened,
    Send,
    SendBlock,
    StepDown,
)
from pystore.ha.master.terms import Incarnation, Roster, Terms

__all__ = ["Mastering", "Rim"]

_WINDOW_BYTES = 16_384
_BLOCK_BYTES = 700
"""Small, so that blocks end within records."""

WAIT_MS = 3_000


@dataclass(frozen=True, slots=True)
class Rim:
    """
    What a mastership is given, and whom it tells.

    Attributes:
        now: the clock.
        broker_ids: whom the controller knows.
        step: is called before each effect; may raise what a crash is.
        acked: an ack was taken, of a process.
        confirmed: the confirm offset moved.
        settled: a wait ended.
        stepped_down: a newer epoch is known.
        number: of a session; not 0.
    """

    now: Callable[[], int]
    broker_ids: Callable[[], frozenset[int]]
    step: Callable[[], None]
    acked: Callable[[Acked, Incarnation | None], None]
    confirmed: Callable[[], None]
    settled: Callable[[Settled], None]
    stepped_down: Callable[[int], None]
    number: Callable[[], int]


@dataclass(slots=True)
class _Link:
    """
    One slave's stream.
    """

    connection: MasterConnection
    stream: Stream
    buffer: bytearray = field(default_factory=bytearray)
    is_over: bool = False
    broker_id: int | None = None
    incarnation: Incarnation | None = None


class Mastering:
    """
    One mastership.

    Args:
        member: ourselves.
        epoch: its number; its entry is in the store's table.
        store: ours.
        agreed: the set.
        rules: the numbers.
        rim: the rest.
    """

    def __init__(
        self,
        member: Member,
        epoch: int,
        store: SimStore,
        agreed: AgreedSet,
        *,
        rules: SetRules,
        rim: Rim,
    ) -> None:
        self.epoch = epoch
        self.lease_ms: int | None = 0
        self.is_over = False
        self.start = store.end
        self._store = store
        self._rim = rim
        self._links: list[_Link] = []
        self._terms = Terms(
            cluster="sim",
            broker_name="set",
            broker_id=member.broker_id,
            epoch=epoch,
            segment_size=4096,
            block_bytes_max=_BLOCK_BYTES,
            has_block_crc=True,
        )
        self.judge = InSync(
            member,
            epoch,
            store.end,
            agreed,
            flushed_offset=store.flushed,
            confirm_offset=store.confirm,
            now_ms=rim.now(),
            rules=rules,
        )
        self.after()

    # -- slaves ---------------------------------------------------------------

    def accept(self, stream: Stream) -> None:
        """
        A slave connects.
        """
        connection = MasterConnection(
            self._terms, self._roster, self._rim.number(), self._rim.now()
        )
        link = _Link(connection, stream)
        self._links = [one for one in self._links if not one.is_over]
        self._links.append(link)
        stream.up.receive = lambda piece: self._receive(link, piece)
        stream.up.lost = lambda: self._lost(link)

    def _roster(self) -> Roster:
        known, judge = self._rim.broker_ids(), self.judge
        live = [one for one in self._links if not one.is_over]
        return Roster(
            broker_ids=known,
            members=frozenset(one for one in known if not judge.may_suspend(one)),
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
            log, now = self._store.master_log(), self._rim.now()
            taken = link.connection.receive(view, log, now)
            did = self._carry_out(link)
            if not taken and not did:
                break
            del link.buffer[:taken]
        self.after()

    def _lost(self, link: _Link) -> None:
        if not link.is_over:
            link.connection.lost("the stream is gone")
            self._carry_out(link)
            self._end(link)
            self.after()

    # -- our own log ----------------------------------------------------------

    def appended(self, ack: Ack, end: int) -> int:
        """
        A record is in the log; answers the ticket of its wait.
        """
        now, store = self._rim.now(), self._store
        self.judge.grew(store.published, store.flushed, now)
        ticket = self.judge.promises.wait(ack, end, now + WAIT_MS)
        self.after()
        return ticket

    def flushed(self) -> None:
        """
        More of the log is durable, or never will be.
        """
        if self._store.is_poisoned:
            self.judge.poisoned(self._rim.now())
        self.judge.grew(self._store.published, self._store.flushed, self._rim.now())
        self.after()

    def tick(self) -> None:
        """
        Time passed.
        """
        now = self._rim.now()
        for link in self._links:
            due = link.connection.next_deadline()
            if not link.is_over and due is not None and due <= now:
                link.connection.tick(self._store.master_log(), now)
                self._carry_out(link)
        if self.judge.next_deadline() <= now:
            self.judge.tick(now)
        self.after()

    def next_deadline(self) -> int:
        """
        When `tick` is due.
        """
        dues = [self.judge.next_deadline(), self.judge.promises.next_deadline()]
        dues += [one.connection.next_deadline() for one in self._links]
        return min(one for one in dues if one is not None)

    def step_down(self, epoch: int) -> None:
        """
        Another epoch has begun: nothing is acknowledged, nobody is served.
        """
        self.is_over = True
        self.judge.step_down(epoch)
        for link in self._links:
            if not link.is_over:
                link.connection.shutdown(self._rim.now())
                self._carry_out(link)
        self._settle()

    def drop(self) -> None:
        """
        The process is gone.
        """
        self.is_over = True
        for link in self._links:
            self._end(link)

    def link_of(self, broker_id: int) -> MasterConnection | None:
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
        if self.judge.confirm_offset > self._store.confirm:
            self._rim.step()
            self._store.confirm = self.judge.confirm_offset
            self._rim.confirmed()
        self._settle()
        self._pump()

    def _settle(self) -> None:
        for one in self.judge.promises.settle(self._rim.now(), self.lease_ms):
            self._rim.settled(one)

    def _pump(self) -> None:
        log, now = self._store.master_log(), self._rim.now()
        for link in self._links:
            while not link.is_over and link.stream.down.in_flight < _WINDOW_BYTES:
                block = link.connection.next_block(log, _WINDOW_BYTES, now)
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
        effects = link.connection.effects()
        for effect in effects:
            if link.is_over and not isinstance(effect, Left):
                continue
            self._do(link, effect)
        return bool(effects)

    def _do(self, link: _Link, effect: Effect) -> None:
        now = self._rim.now()
        match effect:
            case Send():
                link.stream.down.send(effect.data)
            case SendBlock():
                self._send(link, effect)
            case Opened():
                link.broker_id = effect.broker_id
                link.incarnation = effect.incarnation
                closing = self.judge.opened(effect, now)
                for other in self._links:
                    if other.connection.session_id == closing:
                        self._end(other)
            case Acked():
                self._rim.acked(effect, link.incarnation)
                try:
                    self.judge.acked(effect, self._store.published, now)
                except RemoteViolation as error:
                    # The connection lets no such ack through.
                    raise AssertionError(f"ack {effect}: {error}") from error
            case Left():
                self.judge.left(effect, now)
            case StepDown():
                self._rim.stepped_down(effect.epoch)
            case Close():
                self._end(link)
            case _:
                raise AssertionError(f"no effect of a v3 master: {effect}")

    def _end(self, link: _Link) -> None:
        if not link.is_over:
            link.is_over = True
            link.stream.close(link.stream.down, link.stream.up)
            link.connection.lost("closed")
            for effect in link.connection.effects():
                if isinstance(effect, Left):
                    self.judge.left(effect, self._rim.now())
