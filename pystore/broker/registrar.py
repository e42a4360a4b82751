"""
Keeps a broker registered with its controllers, and knows what they think of its log.

A broker registers when it starts, and again when the controllers have lost its set, or
while it is in no SyncStateSet and not master: the record may name another process of
its broker id, such as a copy of its disk that ran for a while, or one that ended before
the record was restored, or none, because an operator removed the broker. To register
again changes nothing if nothing differs.

Source: RMQ-R2 to RMQ-R4, RMQ-R43; B1, B4, B17.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from pystore.broker.recovery_facts import recovery_of
from pystore.controller.identity.negotiation import Negotiation
from pystore.controller.identity.registration import BrokerRegistration
from pystore.controller.model.explain import why_barred
from pystore.controller.protocol.calls import MasterInfo
from pystore.errors import PystoreError
from pystore.events.node_events import (
    AdmissionBarred,
    LossNoteKept,
    NodeEvent,
    NodeRefused,
    NodeRegistered,
)
from pystore.events.node_teller import NodeTeller
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.replicaset import Member

__all__ = ["Registrar"]


class Registrar:
    """
    The registrations of one broker. One event loop.

    Args:
        registration: of the broker.
        log: of its store.
        again_ms: after a registration, how long none is repeated for a broker that is
            in no set.
        teller: of the node.
    """

    def __init__(
        self,
        registration: BrokerRegistration,
        log: ReplicaLog,
        again_ms: int,
        teller: NodeTeller,
    ) -> None:
        self._registration = registration
        self._log = log
        self._again_ms = again_ms
        self._teller = teller
        self._is_told = False
        self._wanted = asyncio.Event()
        self._until_s = 0.0
        self._is_lossy = log.recovery.is_lossy
        self._barred = ""

    @property
    def problem(self) -> str:
        """
        Why the controllers do not register this broker, or why no master may admit it
        until an operator decides, one line; empty: neither.
        """
        refused = self._registration.negotiation.problem
        if not refused and self._barred:
            return f"no master may admit this broker: {self._barred}"
        return refused

    @property
    def is_registered(self) -> bool:
        """
        Whether the controllers took the last registration. Any thread.
        """
        return self._is_told

    async def register(self) -> Negotiation:
        """
        Registers the broker for the first time; returns how that ended.

        Raises:
            PystoreError: as `BrokerRegistration.run`.
        """
        done = await self._registration.run()
        await self._note(done)
        return done

    async def run(self, told: Callable[[MasterInfo], object]) -> None:
        """
        Registers the broker again whenever that is wanted.

        Args:
            told: receives who is master, as the controller answers.

        Raises:
            PystoreError: as `BrokerRegistration.run`.
        """
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                # The log has grown since its opening, or was cut as a master ordered.
                recovery = recovery_of(self._log)
            except PystoreError:
                # It is opened again after a cut: the next answer wants it, too.
                continue
            registration = self._registration
            registration.negotiation = replace(
                registration.negotiation.again(), recovery=recovery
            )
            done = await registration.run()
            await self._note(done)
            if done.mastership is not None:
                told(done.mastership)

    def refused(self, reason: str) -> None:
        """
        The controllers do not register this broker yet, for a new reason.
        """
        self._is_told = False
        self._tell(NodeRefused, reason=reason)

    def lost(self) -> None:
        """
        The controllers do not know the set.
        """
        self._wanted.set()

    async def found(self, found: MasterInfo, me: Member) -> None:
        """
        Takes the master and the set that a controller named.

        Args:
            found: with a master or without.
            me: this process.
        """
        if me in found.agreed.members:
            self._barred = ""
            await self._forget_loss()
            return
        now_s = asyncio.get_running_loop().time()
        if found.master != me and now_s >= self._until_s:
            self._wanted.set()

    def _tell(self, kind: type[NodeEvent], **fields: object) -> None:
        identity = self._registration.negotiation.identity
        own = None if identity is None else identity.broker_id
        replace(self._teller, broker_id=own)(kind, **fields)

    async def _note(self, done: Negotiation) -> None:
        if not self._is_told:
            self._is_told = True
            self._tell(NodeRegistered)
        self._wanted.clear()
        now_s = asyncio.get_running_loop().time()
        self._until_s = now_s + self._again_ms / 1000
        told = done.mastership
        barred = "" if told is None else why_barred(told.standing)
        if barred and barred != self._barred:
            self._tell(AdmissionBarred, reason=barred)
        self._barred = barred
        try:
            await asyncio.to_thread(self._log.registered)
        except PystoreError:
            # Such as for a full disk: the starts before it are told once more.
            return

    async def _forget_loss(self) -> None:
        """
        A master has admitted this process: it holds again what it gave up (B4).
        """
        if not self._is_lossy:
            return
        try:
            await asyncio.to_thread(self._log.admitted)
            self._is_lossy = False
        except PystoreError as error:
            # Such as for a full disk: with the next answer.
            self._tell(LossNoteKept, reason=str(error))
