"""
One controller: its server, its heartbeats and its campaign.

Source: docs/controller.md.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, aclosing
from dataclasses import replace

from pystore.access.certificate_watch import CertificateWatch
from pystore.access.gate import Gate
from pystore.access.mode import AccessMode
from pystore.access.signer import RequestSigner
from pystore.clocks import boottime_ns
from pystore.controller.liveness.authority import Authority
from pystore.controller.model.limits import REQUEST_BYTES_MAX
from pystore.controller.model.state import SetKey, SetState
from pystore.controller.model.views import leadership_of
from pystore.controller.protocol.cluster_id import cluster_id_fields
from pystore.controller.protocol.set_extensions import links_fields
from pystore.controller.server.config import ControllerConfig
from pystore.controller.server.context import ControllerContext
from pystore.controller.server.controller_events import log_event
from pystore.controller.server.death_check import DeathCheck
from pystore.controller.server.dynamic_config import DynamicConfig
from pystore.controller.server.handlers import Handlers
from pystore.controller.server.leadership import Campaign, OtherControllers
from pystore.controller.server.name_server import EmbeddedNameServer
from pystore.controller.server.new_cluster import NewCluster
from pystore.controller.server.notifications import Notification
from pystore.controller.server.notifier import NotificationSender
from pystore.controller.server.pause_detector import PauseDetector
from pystore.controller.server.store_threads import CallKind
from pystore.controller.server.term import HandedOver, LeaderTerm
from pystore.controller.server.user_records import UserRecords
from pystore.controller.server.watchdog import Watchdog
from pystore.errors import FormatError, InvalidError, PystoreError
from pystore.events.event import Event
from pystore.net.tls import ClientTls, ServerTls, TlsMode
from pystore.records.record_store import RecordStore
from pystore.records.term import Term
from pystore.remoting.admission import Signs
from pystore.remoting.client import CALL_TIMEOUT_MS, RemotingClient
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.limits import RemotingLimits
from pystore.remoting.server import RemotingServer

__all__ = ["Controller"]

_REFRESH_S = 5.0
_FIRST_S = 0.1
"""Until the users are known, each request is refused."""
_S = 1_000_000_000


class Controller:
    """
    A controller. For one event loop.

    Args:
        settings: from file and command line.
        open_store: opens a session with the record store; may block.
        say: receives one line for people.
        tell: receives each event; the default writes it to `LOGGER`.
        clock_ns: boot time, the clock of the terms.
        draw: randomness for pauses.
        waking_ns: a clock that advances while the process is paused (`PauseDetector`).
        end: ends the process, from any thread, with a reason for people (C2a);
            ``None``: nothing is watched.

    Attributes:
        context: its context.
        names: its name server.
        users: as it knows them.

    Raises:
        InvalidError: the key file is none, or others may read it, or the files of TLS
            do not fit each other.
        OSError: it cannot be read.
    """

    def __init__(
        self,
        settings: ControllerConfig,
        open_store: Callable[[], RecordStore],
        say: Callable[[str], object],
        *,
        tell: Callable[[Event], object] = log_event,
        clock_ns: Callable[[], int] = boottime_ns,
        draw: random.Random | None = None,
        waking_ns: Callable[[], int] = boottime_ns,
        end: Callable[[str], object] | None = None,
    ) -> None:
        self._end = end
        kept = DynamicConfig(settings, say)
        self.context = ControllerContext(
            kept, say, clock_ns, draw or random.Random(), settings.address, tell
        )
        self.users = UserRecords(settings.key_file, say)
        self._gate = Gate(
            lambda: AccessMode(kept.now.authentication),
            lambda: self.users.now,
            say,
            lambda: clock_ns() / _S,
        )
        tls = settings.tls
        is_plain = tls.mode is TlsMode.DISABLED
        self._tls = None if is_plain else ServerTls(tls, say)
        self._client_tls = ClientTls(tls, say) if settings.tls_client else None
        self.names = EmbeddedNameServer(
            settings, clock_ns, say, self._gate, tls=self._tls
        )
        self._new_cluster = NewCluster(self.context)
        self._open_store = open_store
        self._waking_ns = waking_ns
        self._client = RemotingClient(signs=self._signs(), tls=self._client_tls)
        self._notifier = NotificationSender(
            self._send, clock_ns=clock_ns, draw=self.context.draw
        )

    @property
    def leads(self) -> bool:
        """
        Whether it leads and can prove that.
        """
        return self.context.leader is not None and self.context.leader.is_proven

    async def run(self, ready: Callable[[str], object] = bool) -> None:
        """
        Serves until it is cancelled.

        Args:
            ready: called with the address where it listens.

        Raises:
            StorageError: it cannot listen, or cannot open the record store.
            PystoreError: the record store cannot be opened, and a retry does not help.
        """
        with ExitStack() as stack:
            if self._end is not None:
                session_s = self.context.settings.now.zookeeper_session_timeout / 1000
                stack.enter_context(Watchdog(session_s / 2, self._end))
            stack.callback(self.context.threads.close)
            await self._serve(ready)

    async def _serve(self, ready: Callable[[str], object]) -> None:
        context = self.context
        deaths = DeathCheck(
            context, self._check_soon, self._signs(), tls=self._client_tls
        )
        others = OtherControllers(context)
        handlers = Handlers(
            context,
            others,
            deaths,
            self._new_cluster,
            users=self.users,
            gate=self._gate,
        )

        def closed(connection: Connection) -> None:
            handlers.closed(connection)
            self.names.closed(connection)

        async with (
            RemotingServer(
                self.names.beside(handlers.table()),
                self._limits(),
                say=context.say,
                opened=handlers.opened,
                closed=closed,
                admission=self._gate,
                tls=self._tls,
            ) as server,
            self._client,
            aclosing(self.names),
            aclosing(deaths),
        ):
            host, port = await server.start(*context.settings.now.listen_at)
            context.address = context.address or f"{host}:{port}"
            await self.names.start()
            ready(f"{host}:{port}")
            campaign = Campaign(context, self._open_store, self._lead, self._end)
            await _all(
                campaign.run(),
                self._notifier.run(),
                self._refresh(),
                self.names.run(),
            )

    def _signs(self) -> Signs[Connection] | None:
        """
        Returns what signs the requests of this controller to brokers of pystore.
        """
        own = self.users.own()
        # A key that comes later counts from the next start on.
        return None if own is None else RequestSigner(lambda: own).sign

    def _limits(self) -> RemotingLimits:
        if self.context.settings.now.shares_port:
            # A broker registers all its topics with the name server in one request.
            return RemotingLimits()
        return RemotingLimits(received_bytes_max=REQUEST_BYTES_MAX)

    async def _lead(self, store: RecordStore, authority: Authority) -> None:
        context = self.context
        leader = LeaderTerm(
            store,
            authority,
            context.liveness,
            lambda: context.settings.now,
            self._changed,
            clock_ns=context.clock_ns,
            draw=context.draw,
            say=context.say,
            tell=context.tell,
            address=context.address,
            pause_detector=PauseDetector(self._waking_ns),
            threads=context.threads,
        )
        run = context.threads.run
        await run(CallKind.OTHER, context.settings.read, store)
        if context.settings.unfit:
            raise HandedOver(context.settings.unfit)
        await self._begin_users(store, authority.term)
        await run(CallKind.OTHER, leader.sets.load)
        await run(CallKind.OTHER, leader.audit.load, store)
        await run(CallKind.OTHER, leader.host_records.load, context.clock_ns())
        has_sets = bool(leader.sets.names())
        await self._new_cluster.look(store, authority.term, has_sets=has_sets)
        context.leader = leader
        context.say(f"this controller leads: {context.address}")
        try:
            await leader.run()
        finally:
            context.leader = None

    async def _begin_users(self, store: RecordStore, term: Term) -> None:
        """
        Reads the users, and adds those of a new cluster.
        """
        run, path = self.context.threads.run, self.context.settings.now.initial_users
        await run(CallKind.OTHER, self.users.read, store)
        if not path:
            return
        try:
            await run(CallKind.OTHER, self.users.begin, store, term, path)
        except (FormatError, InvalidError, OSError) as error:
            # Without users each request is refused; the line says why.
            self.context.say(f"initialUsers: no user was added: {error}")

    def _check_soon(self, key: SetKey) -> None:
        if self.context.leader is not None:
            self.context.leader.check_soon(key)

    async def _refresh(self) -> None:
        """
        Reads the settings at intervals: another controller may have changed them.
        """
        certificate = None if self._tls is None else self._tls.certificate
        watch = CertificateWatch(certificate, self.context.say)
        while True:
            if certificate is not None:
                await asyncio.to_thread(watch.look)
            await asyncio.sleep(_REFRESH_S if self.users.now is not None else _FIRST_S)
            context = self.context
            self._gate.refusals.flush(context.clock_ns() / _S)
            if context.store is None:
                continue
            try:
                read = context.settings.read
                await context.threads.run(CallKind.OTHER, read, context.store)
                await context.threads.run(
                    CallKind.OTHER, self.users.read, context.store
                )
            except PystoreError:
                # The campaign gets the same error, and reports it.
                continue

    def _changed(self, before: SetState, after: SetState) -> None:
        context = self.context
        leadership = leadership_of(after)
        notifies = context.settings.now.notify_broker_role_changed
        is_news = (after.epoch, after.learners) != (before.epoch, before.learners)
        if leadership is None or not is_news or not notifies:
            return
        now_ns = context.clock_ns()
        alive = context.liveness.last_heartbeats(after.key, now_ns)
        for one in after.replicas:
            if one.broker_id in alive and one.address:
                self._notifier.notifications.put(
                    Notification(
                        after.key,
                        one.broker_id,
                        one.address,
                        leadership,
                        after.agreed,
                        after.learners,
                        confirms=False,
                    ),
                    now_ns,
                )
        self._notifier.wake()

    async def _send(self, notification: Notification, request: RemotingCommand) -> None:
        """
        Sends to a broker of pystore on the connection of its heartbeats, so that it
        need not listen; to a broker of RocketMQ at its address.
        """
        context = self.context
        told = cluster_id_fields(context.cluster_id)
        if self.users.keys is not None:
            told |= links_fields(AccessMode(context.settings.now.authentication))
        request = replace(request, ext_fields={**request.ext_fields, **told})
        for beat in context.liveness.alive(notification.key, context.clock_ns()):
            connection = context.connections.get(beat.connection)
            is_ours = beat.incarnation is not None
            if beat.broker_id == notification.broker_id and is_ours and connection:
                await connection.send(request, CALL_TIMEOUT_MS)
                return
        await self._client.send(notification.address, request)


async def _all(*works: Coroutine[None, None, None]) -> None:
    """
    Runs several tasks until one of them fails, or all are cancelled.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            # A second cancellation would interrupt its clean-up.
            if not task.cancelling():
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
