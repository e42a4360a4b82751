"""
A broker as a slave: the real protocol, its stream and its store.
"""

from __future__ import annotations

from collections.abc import Callable

from sim.false_acks import inflated_ack
from sim.network import Stream
from sim.store import SimStore

from pystore.errors import CorruptError, FullError, PoisonedError, PystoreError
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.effects import (
    Append,
    Compare,
    LeaveMaster,
    SlaveEffect,
    SlaveLog,
    SlaveProtocol,
)
from pystore.ha.slave.protocol_legacy import LegacySlaveProtocol
from pystore.ha.slave.protocol_v3 import V3SlaveProtocol
from pystore.ha.wire.codes import AckStatus, State
from pystore.ha.wire.effects import Send

__all__ = ["SimFollower"]


class SimFollower:
    """
    One link to a master, from connecting to its end.

    Args:
        config: of the slave.
        stream: to the master.
        store: ours.
        now: the clock.
        step: is called before each effect on the store; may raise what a crash is.
        changed: is called after each, with what was carried out; and before what a
            v3 handshake says.
        role_epoch: of the role that made us follow.
        is_legacy: by which protocol.
        inflates_acks: whether its acks say more than it holds (v3).

    Attributes:
        is_over: nothing comes of it any more.
        reason: why.
    """

    def __init__(
        self,
        config: SlaveConfig,
        stream: Stream,
        store: SimStore,
        *,
        now: Callable[[], int],
        step: Callable[[], None],
        changed: Callable[[SlaveEffect], None],
        role_epoch: int,
        is_legacy: bool = False,
        inflates_acks: bool = False,
    ) -> None:
        self.is_over = False
        self.role_epoch = role_epoch
        self.reason = ""
        self._is_legacy = is_legacy
        self._inflates_acks = inflates_acks
        self._stream = stream
        self._store = store
        self._now = now
        self._step = step
        self._changed = changed
        self._buffer = bytearray()
        kind = LegacySlaveProtocol if is_legacy else V3SlaveProtocol
        self._connection: SlaveProtocol = kind(config)
        self._log: SlaveLog | None = None

    def begin(self) -> None:
        """
        The stream is open.
        """
        self._connection.connected(self._store.slave_log(), self._now())
        self._carry_out()

    def receive(self, piece: bytes) -> None:
        """
        Bytes came.
        """
        if self.is_over:
            return
        self._buffer += piece
        now = self._now()
        while not self.is_over:
            view = memoryview(bytes(self._buffer))
            taken = self._connection.receive(view, now)
            if not taken and not self._carry_out():
                break
            del self._buffer[:taken]
            self._carry_out()
        if not self.is_over:
            self._connection.drained(now)
            self._carry_out()

    def flushed(self) -> None:
        """
        More of the store is durable, or never will be.
        """
        if not self.is_over:
            self._connection.flushed(self._store.slave_log(), self._now())
            self._carry_out()

    def tick(self) -> None:
        """
        Time passed.
        """
        if not self.is_over:
            self._connection.tick(self._now())
            self._carry_out()

    def lost(self) -> None:
        """
        The stream is gone.
        """
        if not self.is_over:
            self._connection.lost("the stream is gone")
            self._connection.effects()
            self._finish("the stream is gone")

    def leave(self) -> None:
        """
        A last ack, then the end.
        """
        if not self.is_over:
            self._connection.shutdown(self._now())
            self._carry_out()

    def drop(self) -> None:
        """
        The end, without a word: another master is to be followed, or a crash.
        """
        if not self.is_over:
            self._finish("dropped")

    def suspend(self, wanted: bool) -> None:
        """
        Asks for no more bytes, or for bytes again.
        """
        if not self.is_over:
            ask = self._connection.suspend if wanted else self._connection.resume
            ask(self._now())
            self._carry_out()

    def next_deadline(self) -> int | None:
        """
        When `tick` is due.
        """
        return None if self.is_over else self._connection.next_deadline()

    def _finish(self, reason: str) -> None:
        self.is_over, self.reason = True, reason
        self._stream.close(self._stream.up, self._stream.down)

    def _carry_out(self) -> bool:
        """
        Carries out what is to be done, and what follows from each before the next;
        answers whether there was anything.
        """
        effects = self._connection.effects()
        for effect in effects:
            if isinstance(effect, LeaveMaster):
                self._finish(effect.reason)
            elif isinstance(effect, Send):
                if self._connection.state is State.HANDSHAKE and not self._is_legacy:
                    self._changed(effect)
                data = inflated_ack(effect.data) if self._inflates_acks else effect.data
                self._stream.up.send(data)
            else:
                self._do(effect)
            if self.is_over:
                return True
        return bool(effects)

    def _do(self, effect: SlaveEffect) -> None:
        self._step()
        now = self._now()
        try:
            differs_at = self._store.carry_out(effect)
        except PystoreError as error:
            # The store refuses; the connection tells the master why.
            self._connection.failed(effect, str(error), now, _status(error))
            if isinstance(effect, Append):
                # What was whole of it is in.
                self._changed(effect)
            self._carry_out()
            return
        self._changed(effect)
        self._step()
        log = self._store.slave_log()
        if isinstance(effect, Compare) and differs_at is not None:
            self._connection.differs(effect, differs_at, log, now)
        else:
            self._connection.did(effect, log, now)
        self._carry_out()


def _status(error: PystoreError) -> AckStatus:
    if isinstance(error, FullError):
        return AckStatus.DISK_FULL
    if isinstance(error, PoisonedError):
        return AckStatus.POISONED
    return AckStatus.BAD_CRC if isinstance(error, CorruptError) else AckStatus.GAP
