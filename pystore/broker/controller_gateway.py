"""
The gateway of a replica to its controller: from any thread to a client's event loop.

It implements `pystore.ha.master.set_change_requests.ControllerGateway`. Each change of
the SyncStateSet is sent once. RocketMQ's refusals contain no set, so after a refusal
the set is read from the controller (1004). Without a newer set a refusal settles only
the change that it answers, and no earlier one. So with a controller of RocketMQ, which
refuses a fence (2013), an unanswered change counts until the set changes.

Source: RMQ-R93, RMQ-R101 to RMQ-R112, RMQ-R117 to RMQ-R119; formats 4.2;
docs/in-sync.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future

from pystore.controller.model.commands import AlterSet
from pystore.controller.model.replies import NextBrokerId
from pystore.controller.protocol.calls import (
    AlterSyncStateSet,
    CallRefused,
    CallUnanswered,
    ControllerCalls,
    ElectMaster,
    GetNextBrokerId,
    GetReplicaInfo,
    MasterInfo,
)
from pystore.errors import UnavailableError
from pystore.ha.insync.set_change import SetChange
from pystore.ha.master.insync_monitor import SetRefusal
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import AgreedSet, Incarnation
from pystore.rocketmq.identity_file import BrokerIdentity

__all__ = ["ThreadedGateway", "alteration"]

_Answer = AgreedSet | SetRefusal | None
_ELECT_S = 15  # longer than a lease
_LOOK_S = 0.2

# The set may differ from the one that the change was computed from.
_OUTDATED = frozenset(
    {
        ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
        ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
        ResponseCode.CONTROLLER_INVALID_MASTER,
        ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
    }
)


class ThreadedGateway:
    """
    The gateway, until it is closed. Any thread, unless a method says otherwise.

    Args:
        calls: to the controller.
        loop: the event loop of the calls; it runs until this is closed.
        identity: of the broker.
        on_master: called on the loop with each master that was read on the way.
        incarnation: of this process.
    """

    def __init__(
        self,
        calls: ControllerCalls,
        loop: asyncio.AbstractEventLoop,
        identity: BrokerIdentity,
        on_master: Callable[[MasterInfo], object],
        incarnation: Incarnation,
    ) -> None:
        self._calls = calls
        self._loop = loop
        self._identity = identity
        self._on_master = on_master
        self._incarnation = incarnation
        self._broker_ids = frozenset({identity.broker_id})
        self._resigned_epoch = -1
        self._lock = threading.Lock()
        self._in_flight: set[Future[_Answer] | Future[str]] = set()
        self._is_closed = False
        self._learning: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[MasterInfo | None] | None = None

    @property
    def resigned_epoch(self) -> int:
        """
        The epoch of the last resigned mastership; -1: none. Heartbeats contain it (C3).
        """
        return self._resigned_epoch

    def broker_ids(self) -> frozenset[int]:
        """
        Returns the ids that the controller had allocated at the last `learn_brokers`. A
        master calls this as a slave connects, which may have got its id just now: they
        are read again for its next try.
        """
        with contextlib.suppress(RuntimeError):
            # The loop may have ended.
            self._loop.call_soon_threadsafe(self._learn_soon)
        return self._broker_ids

    def _learn_soon(self) -> None:
        if self._is_closed:
            return
        if self._learning is None or self._learning.done():
            self._learning = self._loop.create_task(self.learn_brokers())

    async def learn_brokers(self) -> None:
        """
        Reads which ids are allocated in this set: those below the next id. On the loop.
        Without an answer the known ids stay.
        """
        identity = self._identity
        request = GetNextBrokerId(identity.cluster, identity.broker)
        answer = await self._calls.get_next_broker_id(request)
        if isinstance(answer, NextBrokerId):
            self._broker_ids = frozenset(
                {*range(1, answer.broker_id), identity.broker_id}
            )

    def ask(self, change: SetChange) -> AgreedSet | SetRefusal | None:
        """
        Requests a change of the SyncStateSet and waits for the answer, in bounded time;
        see `pystore.ha.master.set_change_requests.ControllerGateway.ask`. Not on the
        loop.
        """
        with self._lock:
            if self._is_closed:
                return SetRefusal()
            pending = asyncio.run_coroutine_threadsafe(self._alter(change), self._loop)
            self._in_flight.add(pending)
        try:
            return pending.result()
        except CancelledError:
            # Closed during the wait: the request may have been sent.
            return None
        finally:
            with self._lock:
                self._in_flight.discard(pending)

    def elect(self, broker_id: int, epoch: int) -> None:
        """
        Lets the controller elect a broker in place of this one, which acknowledges
        nothing more in its epoch; returns when it has. Not on the loop.

        Raises:
            UnavailableError: it has not elected it.
        """
        with self._lock:
            if self._is_closed:
                raise UnavailableError("this broker ends")
            pending = asyncio.run_coroutine_threadsafe(
                self._elect(broker_id, epoch), self._loop
            )
            self._in_flight.add(pending)
        try:
            refusal = pending.result()
        except CancelledError as error:
            # Closed during the wait.
            raise UnavailableError("this broker ends") from error
        finally:
            with self._lock:
                self._in_flight.discard(pending)
        if refusal:
            raise UnavailableError(
                f"the controller did not elect broker {broker_id}: {refusal}"
            )

    async def _elect(self, broker_id: int, epoch: int) -> str:
        """
        Returns why a broker was not elected; empty: it was. Without an answer it may
        have been: then the master is asked for, until a controller answers or no lease
        of this broker can run any more, so that no `leader` record is cut.
        """
        identity = self._identity
        request = ElectMaster(
            identity.cluster,
            identity.broker,
            broker_id,
            is_designated=True,
            handed_over=(self._incarnation, epoch),
        )
        answer = await self._calls.elect_master(request)
        if isinstance(answer, CallUnanswered) and not answer.may_be_done:
            return answer.reason
        until_s = self._loop.time() + _ELECT_S
        while isinstance(answer, CallUnanswered):
            if self._loop.time() > until_s:
                return answer.reason
            await asyncio.sleep(_LOOK_S)
            answer = await self._calls.get_replica_info(GetReplicaInfo(identity.broker))
        if isinstance(answer, CallRefused):
            return answer.remark
        self._on_master(answer)
        master = answer.master
        if master is not None and master.broker_id == broker_id:
            return ""
        return f"the master is {'none' if master is None else master.broker_id}"

    def newer_epoch_told(self, epoch: int) -> None:  # noqa: ARG002
        """
        Reads the master from the controller, once at a time: a peer may be wrong.
        """
        with contextlib.suppress(RuntimeError):
            # The loop may have ended.
            self._loop.call_soon_threadsafe(self._look_soon)

    def _look_soon(self) -> None:
        if self._is_closed:
            return
        if self._looking is None or self._looking.done():
            self._looking = self._loop.create_task(self._look())

    async def _look(self) -> MasterInfo | None:
        found = await self._calls.get_replica_info(
            GetReplicaInfo(self._identity.broker)
        )
        if not isinstance(found, MasterInfo):
            return None
        self._on_master(found)
        return found

    def resign(self, epoch: int, reason: str) -> None:  # noqa: ARG002
        """
        Stores the resigned epoch for the next heartbeat.
        """
        self._resigned_epoch = max(epoch, self._resigned_epoch)

    def close(self) -> None:
        """
        Closes the gateway; waiting calls get no answer. Idempotent.
        """
        with self._lock:
            self._is_closed = True
            in_flight = list(self._in_flight)
        for pending in in_flight:
            pending.cancel()
        for task in (self._learning, self._looking):
            if task is not None:
                with contextlib.suppress(RuntimeError):
                    # The loop may have ended.
                    self._loop.call_soon_threadsafe(task.cancel)

    async def _alter(self, change: SetChange) -> _Answer:
        identity = self._identity
        request = AlterSyncStateSet(
            identity.broker, alteration(change, identity.broker_id)
        )
        match await self._calls.alter_sync_state_set(request):
            case AgreedSet() as committed:
                # A set with the same epoch would leave the change open for ever.
                return self._newer(committed, change)
            case CallUnanswered(may_be_done=True):
                return None
            case CallUnanswered():
                return SetRefusal()
            case CallRefused() as refused:
                now = await self._set_after(refused, change)
                newer = None if now is None else self._newer(now, change)
                return newer or SetRefusal(refused.broker_ids)

    def _newer(self, committed: AgreedSet, change: SetChange) -> AgreedSet | None:
        return committed if committed.set_epoch > change.set_epoch else None

    async def _set_after(
        self, refused: CallRefused, change: SetChange
    ) -> AgreedSet | None:
        """
        Returns the present set of this mastership; ``None``: it did not change, it is
        unknown, or the mastership is over.
        """
        if refused.code not in _OUTDATED:
            return None
        if (
            refused.code == ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
            and refused.agreed is not None
        ):
            return refused.agreed
        found = await self._look()
        if found is None:
            return None
        master = found.master and found.master.broker_id
        is_ours = (found.master_epoch, master) == (
            change.epoch,
            self._identity.broker_id,
        )
        return found.agreed if is_ours else None


def alteration(change: SetChange, master_id: int) -> AlterSet:
    """
    Returns a change as the request to a controller.

    Args:
        change: the master is in its set.
        master_id: broker id of the master, which sends the request.
    """
    (master,) = (one for one in change.members if one.broker_id == master_id)
    return AlterSet(
        master,
        change.epoch,
        change.set_epoch,
        change.members,
        change.candidates,
        change.is_fence,
        change.filling,
    )
