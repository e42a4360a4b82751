"""
A replica, as a broker embeds it: a store that is master or slave, as the controller
decides.

It owns the log of one store, and at most one mastership or one follower. A decision of
the controller is taken at once, and a thread carries it out step by step
(`pystore.ha.role`). So the caller never waits for a disk or a peer, and between two
steps a newer decision replaces an older one.

Source: docs/replication.md; RMQ-R156, RMQ-R160 to RMQ-R165, RMQ-R206; B5, B6, B8,
B15.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Unpack

from pystore.clocks import clock_ms
from pystore.errors import (
    BusyError,
    FencedError,
    PoisonedError,
    StorageError,
)
from pystore.ha.config import ReplicaConfig
from pystore.ha.decision import Decision, with_newer_set
from pystore.ha.insync.ack import Ack, AckResult
from pystore.ha.insync.config import SetRules
from pystore.ha.master.append_future import AppendFuture, wait_all
from pystore.ha.master.handover import ElectSuccessor, hand_over
from pystore.ha.master.lease import NO_LEASE, Lease
from pystore.ha.master.service import MasterService, Mastership
from pystore.ha.master.set_change_requests import ControllerGateway
from pystore.ha.master.write_authority import WriteAuthority
from pystore.ha.result import AppendResult, ReplicaStatus
from pystore.ha.role import (
    BeginMastership,
    Follow,
    RenewLease,
    Resign,
    Role,
    RoleEffect,
    RoleMachine,
    StopFollowing,
    StopServing,
    TakeSet,
)
from pystore.ha.role_events import RoleEvents
from pystore.ha.slave.follower_thread import FollowerThread
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.ha.wire.effects import Promise
from pystore.message.message import Message
from pystore.rates.latency_samples import LatencyKind
from pystore.replicaset import Member, ids_of

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from pystore.core.log_writer import AppendPositions
    from pystore.core.options import LogArguments
    from pystore.store.commit_log import CommitLog

__all__ = ["Replica"]

_LOOK_S = 0.01
_DAMAGED_KEPT = 64


class Replica:
    """
    A store that is a master or a slave. A context manager; any thread.

    Args:
        store: its directory; a missing or empty one becomes a store. Or the log of a
            store that is open; the replica closes it.
        config: of this replica.
        controller: takes requests for changes of the set, and resignations.
        now_ms: a clock that never steps back.
        **options: of `pystore.store.commit_log.CommitLog`, for a directory.

    Attributes:
        log: of the store; read only.
        me: this replica in this incarnation, as decisions name it.

    Raises:
        PystoreError: as `pystore.store.store.Store`.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | ReplicaLog,
        config: ReplicaConfig,
        controller: ControllerGateway,
        now_ms: Callable[[], int] = clock_ms,
        **options: Unpack[LogArguments],
    ) -> None:
        self._config = config
        self._controller = controller
        self._now_ms = now_ms
        if not isinstance(store, ReplicaLog):
            store = ReplicaLog(store, **options)
        self.log = store
        self.me = Member(config.broker_id, self.log.incarnation)
        self._machine = RoleMachine(self.me, self.log.log().promised_epoch)
        self._authority = WriteAuthority(now_ms)
        self._latency = config.rates.latency
        self._service: MasterService | None = None
        self._following: FollowerThread | None = None
        self._begun: tuple[int, CommitLog] | None = None
        self._failing: tuple[int, int] | None = None
        self._drain_ms = 0
        self._problem = ""
        self._came_damaged: dict[tuple[int, int], None] = {}
        self._inbox: SimpleQueue[Callable[[RoleMachine], object]] = SimpleQueue()
        self._changed = threading.Condition()
        self._tell = config.teller
        self._events = RoleEvents(self._tell)
        self._now = self._machine.role, self._machine.known
        self._newest_set = self._machine.known
        self._thread = threading.Thread(target=self._run, name="pystore-ha-role")
        self._thread.daemon = True
        self._thread.start()

    def __enter__(self) -> Replica:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- decisions of the controller -----------------------------------------

    def decided(self, decision: Decision) -> None:
        """
        Takes a decision; returns at once. One that is not newer changes no role.
        """
        with self._changed:
            before = self._newest_set
            self._newest_set = with_newer_set(before, decision)
            is_news = self._newest_set is not before
        following = self._following
        if is_news and following is not None:
            # A master that refused this replica may take it now.
            following.hurry()
        self._inbox.put(lambda machine: machine.decided(decision))

    def guard_changed(self) -> None:
        """
        What this process knows about proofs of links has changed: a link that lacked a
        secret is made at once. Any thread.
        """
        following = self._following
        if following is not None:
            following.hurry()

    def leased(self, epoch: int, lease: Lease) -> None:
        """
        Takes the lease of a mastership; returns at once.
        """
        self._inbox.put(lambda machine: self._take_lease(machine, epoch, lease))

    def may_wipe(self) -> bool:
        """
        Returns whether this store may be emptied to be filled again: no acknowledged
        record depends on it. The newest set of any decision says so, also of one that
        the thread of roles has not taken yet (B15). A broker that an operator removed
        is in no set either, and keeps its records until it is registered again.
        """
        is_listed = self._is_listed()
        return not is_listed and self._config.is_registered()

    def _is_listed(self) -> bool:
        return self._newest_set.lists(self.me.broker_id)

    def is_learner(self) -> bool:
        """
        Returns whether this replica only follows: its configuration says so for good,
        or the newest decision. Any thread.
        """
        return self._config.is_learner or self._newest_set.is_learner

    def _is_member(self) -> bool:
        return self.me.broker_id in ids_of(self._newest_set.agreed.members)

    # -- appending -----------------------------------------------------------

    def append(
        self,
        messages: Message | Iterable[Message],
        ack: Ack = Ack.ALL,
        timeout_ms: int = 3_000,
    ) -> AppendResult:
        """
        Appends as the master, all or none, and waits for the ack.

        Returns:
            where the records are, the ack, and what was reached. If the ack was not
            reached, the next election may lose the records.

        Raises:
            FencedError: this is not the master, or the ack needs a lease and it has
                ended. Nothing was appended, unless the lease ended meanwhile.
            UnavailableError: the ack could not be reached, so nothing was appended.
            PoisonedError: the disk of this replica failed.
            PystoreError: as `pystore.store.commit_log.CommitLog.append_batch`.
        """
        future = self.submit(messages, ack)
        return AppendResult(future.appended, future.wait(timeout_ms))

    def submit(
        self,
        messages: Message | Iterable[Message],
        ack: Ack = Ack.ALL,
        positions: AppendPositions | None = None,
    ) -> AppendFuture:
        """
        Appends as `append` does, with the same checks, but without waiting: the
        future waits for the ack later. So one producer can have many appends under
        way.

        Args:
            messages: to append.
            ack: that the future waits for.
            positions: as in `pystore.store.commit_log.CommitLog.append_batch`.

        Raises:
            PystoreError: as `append`.
        """
        service = self._service
        if service is None:
            raise FencedError(self._no_master())
        appends = service.monitor.appends
        appends.check(ack)
        given = [messages] if isinstance(messages, Message) else messages
        try:
            is_quiet = positions is None and appends.is_sent_soon(ack)
            latency = self._latency
            began_ns = latency.begin_some() if latency.is_wanted else 0
            appended = self._authority.append(given, ack, positions, is_quiet=is_quiet)
            if began_ns:
                latency.end(LatencyKind.APPEND, began_ns)
        except StorageError as error:
            # Such as for a full disk: the caller learns it, and the mastership, too.
            appends.refused(error)
            raise
        return appends.future(appended, ack)

    def wait_all(
        self, futures: Sequence[AppendFuture], timeout_ms: int = 3_000
    ) -> list[AckResult]:
        """
        Waits for futures, of this mastership or earlier ones; see
        `pystore.ha.master.append_future.wait_all`.
        """
        return wait_all(futures, timeout_ms, self._now_ms)

    def hand_over(
        self, broker_id: int, elect: ElectSuccessor, timeout_ms: int = 3_000
    ) -> ReplicaStatus:
        """
        Hands this mastership over to a slave: no acknowledged record is cut. Appends
        are refused from the moment on at which the slave has nearly caught up.

        Args:
            broker_id: of the next master, a member of the SyncStateSet.
            elect: lets the controller elect it.
            timeout_ms: how long the slave may take to catch up, and then for the rest.

        Returns:
            the status after the change of the role, or at the timeout.

        Raises:
            FencedError: this is not the master.
            PystoreError: as `pystore.ha.master.handover.hand_over`; this broker stays
                master.
        """
        service, (_, known) = self._service, self._now
        if service is None:
            raise FencedError(self._no_master())
        hand_over(
            service,
            self._authority,
            known.epoch,
            broker_id,
            elect,
            now_ms=self._now_ms,
            timeout_ms=timeout_ms,
        )
        return self.wait_for(lambda it: it.role is not Role.MASTER, timeout_ms)

    def _no_master(self) -> str:
        role, known = self._now
        text = f"broker {self.me.broker_id} is not the master, its role is {role.value}"
        if known.master in (None, self.me):
            return f"{text}, in epoch {known.epoch}: try again later"
        assert known.master is not None
        where = f"broker {known.master.broker_id}"
        return f"{text}; the master of epoch {known.epoch} is {where}: append there"

    # -- status --------------------------------------------------------------

    def standing(self) -> ReplicaStatus:
        """
        Returns the status of the replica now.
        """
        role, known = self._now
        service, following = self._service, self._following
        address, agreed, problem = known.address, known.agreed, self._problem
        gap: int | None = None
        if service is not None:
            host, port = service.address
            address, agreed = f"{host}:{port}", service.monitor.set_now
            log = self.log.log()
            gap = log.end_offset - log.confirm_offset
            problem = problem or service.monitor.problem
        elif following is not None:
            stands = following.status()
            if stands.is_linked and stands.master_end is not None:
                gap = max(0, stands.master_end - self.log.log().received_offset)
            # Of a link that is open the reason of the one before is past.
            reason = "" if stands.is_linked else stands.reason
            problem = problem or str(following.problem or reason)
        left_ms = None if service is None else self._authority.left_ms()
        return ReplicaStatus(
            role, known.epoch, known.master, address, agreed, gap, left_ms, problem
        )

    def serving_problem(self) -> str:
        """
        Returns what keeps this replica from serving as a master, one line; empty:
        nothing that is known. Heartbeats carry it: elections prefer other brokers.
        """
        role, known = self._now
        service, following = self._service, self._following
        if service is not None:
            return service.monitor.problem
        if role is Role.PENDING and known.master == self.me:
            return self._problem
        failed = None if following is None else following.problem
        return str(failed) if isinstance(failed, StorageError) else ""

    def came_damaged(self) -> tuple[tuple[int, int], ...]:
        """
        Returns what came damaged from masters since this process began: the broker id
        of the master and the offset of the record, oldest first. It is evidence against
        the master's copy, not against this one.
        """
        return tuple(self._came_damaged)

    def _note_damaged(self, master_id: int, offset: int) -> None:
        # One thread at a time: that of the link.
        noted = {**self._came_damaged, (master_id, offset): None}
        if len(noted) > _DAMAGED_KEPT:
            del noted[next(iter(noted))]
        self._came_damaged = noted

    def wait_for(
        self, is_so: Callable[[ReplicaStatus], bool], timeout_ms: int = 10_000
    ) -> ReplicaStatus:
        """
        Waits until the status is as wanted: checks at each change of the role, and
        every 10 ms.

        Returns:
            the status then, or at the timeout.
        """
        until_ms = self._now_ms() + timeout_ms
        while not is_so(standing := self.standing()) and self._now_ms() < until_ms:
            with self._changed:
                self._changed.wait(_LOOK_S)
        return standing

    # -- the end -------------------------------------------------------------

    def close(self, drain_ms: int = 0) -> None:
        """
        Ends its role and closes the store; may be called again.

        Args:
            drain_ms: how long slaves of a master may take to receive the rest.

        Raises:
            PoisonedError: a write-back failed: closed, but without the clean mark.
            StorageError: the system refused; the store is closed nevertheless.
        """
        self._drain_ms = drain_ms
        self._inbox.put(lambda machine: machine.shutdown())
        self._thread.join()
        self.log.close()

    # -- the thread of roles -------------------------------------------------

    def _run(self) -> None:
        machine, wait_ms = self._machine, 0
        while True:
            effect = machine.next_effect()
            self._publish()
            if effect is None and machine.role is Role.SHUTDOWN:
                return
            self._take_inputs(is_idle=effect is None, wait_ms=wait_ms)
            if self._service is not None:
                self._events.looked(self._authority.left_ms())
            # Before the next step, which may take a while.
            self._publish()
            wait_ms = 0
            effect = machine.next_effect()
            if effect is not None:
                wait_ms = self._step(effect)

    def _take_inputs(self, *, is_idle: bool, wait_ms: int) -> None:
        """
        Takes all inputs; waits for one if there is no effect to carry out.
        """
        try:
            if is_idle:
                self._inbox.get(timeout=self._lease_s())(self._machine)
            elif wait_ms:
                self._inbox.get(timeout=wait_ms / 1000)(self._machine)
            while True:
                self._inbox.get_nowait()(self._machine)
        except Empty:
            # No more inputs.
            return

    def _lease_s(self) -> float | None:
        """
        Returns in how many seconds the lease runs out; ``None``: none runs.
        """
        left_ms = self._authority.left_ms() if self._events.has_lease else None
        return None if left_ms is None else max(1, left_ms) / 1000

    def _take_lease(self, machine: RoleMachine, epoch: int, lease: Lease) -> None:
        machine.leased(epoch, lease)
        # One that takes a lease away is an effect; there was none to take away.
        is_ours = machine.role is Role.MASTER and machine.known.epoch == epoch
        if is_ours and lease == NO_LEASE and machine.next_effect() is None:
            self._events.refused(epoch)

    def _publish(self) -> None:
        self._events.stands(self._machine.role, self._machine.known)
        with self._changed:
            self._now = self._machine.role, self._machine.known
            self._changed.notify_all()

    def _step(self, effect: RoleEffect) -> int:
        """
        Carries out one effect; returns how long to wait before the next one.
        """
        try:
            self._carry_out(effect)
        except Exception as error:
            # Any error: without this thread the replica would take no more inputs.
            is_final = not _is_transient(error) or self._is_ill_for_long(effect)
            self._problem = f"{type(effect).__name__}: {error}"
            self._config.say(self._problem)
            self._machine.failed(effect, str(error), is_final=is_final)
            return 0 if is_final else self._config.retry_ms
        self._problem = ""
        if isinstance(effect, BeginMastership):
            self._failing = None
        self._machine.did(effect)
        return 0

    def _is_ill_for_long(self, effect: RoleEffect) -> bool:
        """
        Whether a mastership could not begin for too long, such as for a port that is
        taken, and the set has another broker, which may be well (B13).
        """
        if not isinstance(effect, BeginMastership):
            return False
        now_ms = self._now_ms()
        if self._failing is None or self._failing[0] != effect.epoch:
            self._failing = effect.epoch, now_ms
        rules = self._config.rules or SetRules()
        agreed, mine = self._machine.known.agreed, self.me.broker_id
        others = {one.broker_id for one in agreed.members | agreed.candidates} - {mine}
        return bool(others) and now_ms - self._failing[1] > rules.ill_ms_max

    def _carry_out(self, effect: RoleEffect) -> None:
        match effect:
            case StopServing():
                self._stop_serving(effect.epoch)
            case StopFollowing():
                following, self._following = self._following, None
                if following is not None:
                    following.stop()
            case Promise():
                self.log.carry_out(effect)
            case BeginMastership():
                self._begin_mastership(effect)
            case Follow():
                self._follow(effect)
            case Resign():
                self._events.resigned(effect.reason)
                self._controller.resign(effect.epoch, effect.reason)
            case TakeSet():
                if self._service is not None:
                    self._service.monitor.agreed(effect.agreed)
            case RenewLease():
                self._authority.renew(effect.epoch, effect.lease)
                if effect.lease == NO_LEASE:
                    self._events.refused(effect.epoch)
                else:
                    self._events.leased(effect.epoch, self._authority.left_ms())

    def _begin_mastership(self, effect: BeginMastership) -> None:
        self.log.mend()
        if self._begun is None or self._begun[0] != effect.epoch:
            self._begun = effect.epoch, self.log.begin_mastership(effect.epoch)
        _, log = self._begun
        config, epoch = self._config, effect.epoch
        mastership = Mastership(
            config=config.master_config(epoch, self.log.log().segment_size),
            me=self.me,
            agreed=effect.agreed,
            broker_ids=self._controller.broker_ids,
            rules=config.rules,
            ask=self._controller.ask,
            lease_ms=self._authority.lease_ms,
            newer_epoch=self._controller.newer_epoch_told,
            resign=lambda reason: self._inbox.put(
                lambda machine: machine.cannot_serve(epoch, reason)
            ),
            say=config.say,
            tell=self._tell,
            host=config.host,
            port=config.port,
            guard=config.guard,
            tls=config.server_tls,
            bytes_per_second=config.bytes_per_second,
            outward=config.rates.outward,
            latency=config.rates.latency,
        )
        # No append is admitted yet, so the lease of an earlier mastership is no risk.
        self._authority.begin(log.writer.log, epoch, effect.lease)
        try:
            self._service = MasterService(
                log, mastership, self._now_ms, queues_at=self.log.queues_at
            )
        except BaseException:
            # Without a service no append could get its ack.
            self._authority.end(epoch)
            raise
        self._events.leased(epoch, self._authority.left_ms())

    def _stop_serving(self, epoch: int) -> None:
        self._authority.end(epoch)
        service, self._service = self._service, None
        if service is not None:
            service.close(self._drain_ms)

    def _follow(self, effect: Follow) -> None:
        self._authority.leave_to(effect.epoch)
        config = self._config
        follow = config.slave_config(self.me, effect.epoch, may_wipe=self.may_wipe)
        master = self._machine.known.master
        master_id = None if master is None else master.broker_id
        self._following = FollowerThread(
            self.log,
            effect.address,
            follow,
            self._now_ms,
            tell=self._tell.of_peer("master", master_id, effect.address),
            pace=config.pace,
            tls=config.client_tls,
            is_learner=self.is_learner,
            rates=config.rates,
            is_waited_for=self._is_listed,
            came_damaged=partial(self._note_damaged, master_id or 0),
            is_member=self._is_member,
        )


def _is_transient(error: Exception) -> bool:
    """
    Whether the same step may succeed a moment later.
    """
    if isinstance(error, PoisonedError):
        return False
    return isinstance(error, StorageError | BusyError)
