"""
The controller as a replica asks it: from any thread, over the event loop of a client.

It is `pystore.ha.master.set_change_requests.ControllerGateway`. Each change of the
SyncStateSet is sent once. What a refusal leaves open is read from the controller
(1004), because RocketMQ's tells no set with one; without a newer set a refusal settles
the change that it answers and no earlier one. So with a controller of RocketMQ, which
refuses a fence (2013), a change without an answer counts until the set moves on.

Source: R93, R101 to R112, R117 to R119; formats 4.2; docs/in-sync.md.
"""

from __future__ import annotations

import asyncio
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
    GetNextBrokerId,
    GetReplicaInfo,
    MasterInfo,
)
from pystore.ha.insync.set_change import SetChange
from pystore.ha.master.insync_monitor import SetRefusal
from pystore.remoting.codes import ResponseCode
from pystore.replicaset import AgreedSet
from pystore.rocketmq.identity_file import BrokerIdentity

__all__ = ["ThreadedGateway", "alteration"]

_Answer = AgreedSet | SetRefusal | None

# The set may be another than the one from which the change was computed.
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
    Asks until it is closed. Any thread, but for what says otherwise.

    Args:
        calls: to the controller.
        loop: that carries the calls out, and runs until this is closed.
        identity: the broker's.
        heard: is told who is master, where that was read on the way; on the loop.
    """

    def __init__(
        self,
        calls: ControllerCalls,
        loop: asyncio.AbstractEventLoop,
        identity: BrokerIdentity,
        heard: Callable[[MasterInfo], object],
    ) -> None:
        self._calls = calls
        self._loop = loop
        self._identity = identity
        self._heard = heard
        self._broker_ids = frozenset({identity.broker_id})
        self._resigned_epoch = -1
        self._lock = threading.Lock()
        self._under_way: set[Future[_Answer]] = set()
        self._is_closed = False

    @property
    def resigned_epoch(self) -> int:
        """
        Of the mastership that was given up last; -1: none. Heartbeats tell it (C3).
        """
        return self._resigned_epoch

    def broker_ids(self) -> frozenset[int]:
        """
        Whom the controller knew when `learn_brokers` asked.
        """
        return self._broker_ids

    async def learn_brokers(self) -> None:
        """
        Asks which ids were given away in this set; on the loop. They are those below
        the next one. Without an answer what is known stays.
        """
        who = self._identity
        request = GetNextBrokerId(who.cluster, who.broker)
        answer = await self._calls.get_next_broker_id(request)
        if isinstance(answer, NextBrokerId):
            self._broker_ids = frozenset({*range(1, answer.broker_id), who.broker_id})

    def ask(self, change: SetChange) -> AgreedSet | SetRefusal | None:
        """
        Asks for a change of the SyncStateSet, and waits for the answer, which comes in
        bounded time; see `pystore.ha.master.set_change_requests.ControllerGateway.ask`.
        Not on the loop.
        """
        with self._lock:
            if self._is_closed:
                return SetRefusal()
            asking = asyncio.run_coroutine_threadsafe(self._alter(change), self._loop)
            self._under_way.add(asking)
        try:
            return asking.result()
        except CancelledError:
            # Closed meanwhile: it may have been sent.
            return None
        finally:
            with self._lock:
                self._under_way.discard(asking)

    def resign(self, epoch: int, reason: str) -> None:  # noqa: ARG002
        """
        Keeps, for the next heartbeat, that an epoch was given up.
        """
        self._resigned_epoch = max(epoch, self._resigned_epoch)

    def close(self) -> None:
        """
        Asks no more; who waits for an answer gets none. Again is fine.
        """
        with self._lock:
            self._is_closed = True
            under_way = list(self._under_way)
        for asking in under_way:
            asking.cancel()

    async def _alter(self, change: SetChange) -> _Answer:
        who = self._identity
        request = AlterSyncStateSet(who.broker, alteration(change, who.broker_id))
        match await self._calls.alter_sync_state_set(request):
            case AgreedSet() as committed:
                # One that did not rise would leave the change open for ever.
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
        The set of this mastership as it is now; ``None``: it stayed, or it is not
        known, or the mastership is over.
        """
        if refused.code not in _OUTDATED:
            return None
        if (
            refused.code == ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
            and refused.agreed is not None
        ):
            return refused.agreed
        found = await self._calls.get_replica_info(
            GetReplicaInfo(self._identity.broker)
        )
        if not isinstance(found, MasterInfo):
            return None
        self._heard(found)
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
    )
