"""
What AutoRecovery asks of a broker: how its copy stands, and jobs for single segments.

A broker also serves its own settled segments, on a port of their own, to the jobs of
other brokers of its set.

Each call answers at once: jobs go on in threads, files are looked at in another one.

Source: docs/autorecovery.md, *Orders to a replica*.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from functools import partial

from pystore.broker.config import NodeConfig
from pystore.broker.ill_store import IllStore
from pystore.broker.segment_jobs import SegmentJobs
from pystore.errors import (
    BusyError,
    ClosedError,
    InvalidError,
    PystoreError,
    RemoteViolation,
    UnavailableError,
)
from pystore.fs.layout import COMMIT_LOG, segment_name
from pystore.ha.replica import Replica
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.ha.wire.proof import LinkGuard
from pystore.net.address import parse_address
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection, Handler
from pystore.remoting.fields import decode_fields
from pystore.remoting.operator_headers import (
    SegmentClaimRequest,
    SegmentPeerRequest,
    SegmentRateRequest,
)
from pystore.remoting.reply import Reply
from pystore.segments.order import BadSource, OrderAction, ReplicaStat
from pystore.segments.order_bodies import decode_order, encode_progress, encode_stat
from pystore.segments.peer_copy import PeerCopy
from pystore.segments.peer_server import SegmentServer
from pystore.segments.store_copy import file_problem

__all__ = ["SegmentRequests"]

_Own = Replica | IllStore

# The first class that fits decides.
_CODES: tuple[tuple[type[PystoreError], ResponseCode], ...] = (
    (BusyError, ResponseCode.SYSTEM_BUSY),
    (ClosedError, ResponseCode.SYSTEM_BUSY),
    (UnavailableError, ResponseCode.SERVICE_NOT_AVAILABLE),
    (InvalidError, ResponseCode.MESSAGE_ILLEGAL),
    (RemoteViolation, ResponseCode.MESSAGE_ILLEGAL),
    (PystoreError, ResponseCode.SYSTEM_ERROR),
)


class SegmentRequests:
    """
    The answers of one broker. For one event loop, but for `begin` and `close`.

    Args:
        config: of the broker.
        say: receives one line for the operator, from any thread.
        replica: returns the replica; ``None``: the broker is not registered yet.
        guard: returns what is known of proofs between brokers.

    Attributes:
        jobs: of the log; ``None`` before `begin`, and after `close`.
    """

    def __init__(
        self,
        config: NodeConfig,
        say: Callable[[str], object],
        replica: Callable[[], Replica | None],
        guard: Callable[[], LinkGuard],
    ) -> None:
        self._config = config
        self._say = say
        self._replica = replica
        self._guard = guard
        self._ill: IllStore | None = None
        self._lock = threading.Lock()
        self.jobs: SegmentJobs | None = None
        self._server: SegmentServer | None = None
        self._serves = False
        self._said = ""

    def handlers(self) -> dict[int, Handler]:
        """
        Returns those of all requests.
        """
        return {
            RequestCode.SEGMENT_STAT: self._guarded(self._stat),
            RequestCode.SEGMENT_ORDER: self._guarded(self._order),
            RequestCode.SEGMENT_PROGRESS: self._guarded(self._progress),
            RequestCode.SEGMENT_STOP: self._guarded(self._stop),
            RequestCode.SEGMENT_RATE: self._guarded(self._rate),
        }

    def begin(self, log: ReplicaLog | IllStore) -> None:
        """
        Takes orders for a log, and serves its segments; so it does for a store that
        cannot be opened, until it is called again with the log of that store. Blocks.
        """
        self._ill = log if isinstance(log, IllStore) else None
        if self.jobs is not None and isinstance(log, ReplicaLog):
            self.jobs.opened(log)
        else:
            tls, rates = self._config.client_tls, self._config.rates
            open_peer = partial(PeerCopy, tls=tls, guard=self._guard)
            self.jobs = SegmentJobs(log, open_peer, self._say, rates=rates)
        self._serves = True
        self._listen()

    def close(self) -> None:
        """
        Ends all jobs and connections, before the log is closed. Blocks; idempotent.
        """
        with self._lock:
            jobs, self.jobs = self.jobs, None
            server, self._server = self._server, None
            self._serves = False
        if jobs is not None:
            jobs.close()
        if server is not None:
            server.close()

    def _listen(self) -> str:
        """
        Returns where segments are served; empty: the port is taken. It is tried again
        with the next question.
        """
        config, problem = self._config, ""
        with self._lock:
            if self._server is None and self._serves:
                host, port = parse_address(config.segment_address)
                try:
                    self._server = SegmentServer(
                        config.store,
                        host,
                        port,
                        tls=config.server_tls,
                        guard=self._guard,
                        say=self._say,
                        rate=config.rates.serving,
                    )
                except (OSError, PystoreError) as error:
                    # Such as for a port that is taken: the broker serves without it.
                    why = f"{config.segment_address}: {error}: set segmentPort"
                    problem = f"no segments are served: {why}"
            if problem and problem != self._said:
                self._say(problem)
            self._said = problem
            return "" if self._server is None else config.segment_address

    def _guarded(
        self, answer: Callable[[RemotingCommand, _Own], Awaitable[Reply]]
    ) -> Handler:
        async def answered(request: RemotingCommand, _: Connection) -> Reply:
            try:
                return await answer(request, self._addressed(request))
            except PystoreError as error:
                # The caller learns whether it may ask again.
                code = next(one for kind, one in _CODES if isinstance(error, kind))
                return Reply(code, " ".join(str(error).split()))

        return answered

    def _addressed(self, request: RemotingCommand) -> _Own:
        """
        Returns the replica, or its store that cannot be opened, if a request is meant
        for it.
        """
        replica, config = self._ill or self._replica(), self._config
        if replica is None:
            raise UnavailableError("the broker is not registered yet")
        header = decode_fields(SegmentPeerRequest, request.ext_fields)
        if isinstance(replica, IllStore):
            known = replica.identity
            own = known.cluster, known.broker, known.broker_id
        else:
            own = config.cluster, config.broker_name, replica.me.broker_id
        if own != (header.cluster_name, header.broker_name, header.broker_id):
            raise UnavailableError(
                f"here is broker {own[2]} of {own[1]} in {own[0]}: the one that is "
                "asked for has moved"
            )
        return replica

    def _running(self) -> SegmentJobs:
        if self.jobs is None:
            raise ClosedError("this broker is being closed")
        return self.jobs

    async def _stat(self, _: RemotingCommand, replica: _Own) -> Reply:
        stat = await asyncio.to_thread(self._looked, replica)
        return Reply(body=encode_stat(stat))

    def _looked(self, replica: _Own) -> ReplicaStat:
        if isinstance(replica, IllStore):
            return replica.stat(self._listen())
        # First: a cut meanwhile is one after this answer.
        generation = replica.log.store.log.ends.cut_generation
        log, size = replica.log.log(), replica.log.log().segment_size
        settled = min(log.confirm_offset, log.end_offset)
        folder = os.fspath(self._config.store / COMMIT_LOG)
        problems = {
            base: problem
            for base in range(log.min_offset, settled - size + 1, size)
            # A text: ten thousand paths take longer than the system does.
            if (problem := file_problem(f"{folder}/{segment_name(base)}", size))
            # Retention may have deleted it since.
            and base >= replica.log.log().min_offset
        }
        assert replica.me.incarnation is not None
        return ReplicaStat(
            replica.me.incarnation.text,
            log.min_offset,
            log.end_offset,
            settled,
            size,
            self._listen(),
            problems,
            tuple(BadSource(*one) for one in replica.came_damaged()),
            generation,
        )

    async def _order(self, request: RemotingCommand, replica: _Own) -> Reply:
        order = decode_order(request.body)
        if isinstance(replica, IllStore):
            size = replica.segment_size
            if order.action is OrderAction.FILL:
                raise InvalidError(
                    "this replica is ill, and is filled after its repair: "
                    f"{replica.reason}"
                )
        else:
            size = replica.log.log().segment_size
        if order.base % size:
            raise InvalidError(f"no segment begins at {order.base}")
        return Reply(body=encode_progress(self._running().start(order)))

    async def _progress(self, request: RemotingCommand, _: _Own) -> Reply:
        header = decode_fields(SegmentClaimRequest, request.ext_fields)
        return Reply(body=encode_progress(self._running().progress(header.claim)))

    async def _stop(self, request: RemotingCommand, _: _Own) -> Reply:
        header = decode_fields(SegmentClaimRequest, request.ext_fields)
        self._running().stop(header.claim)
        return Reply()

    async def _rate(self, request: RemotingCommand, _: _Own) -> Reply:
        header = decode_fields(SegmentRateRequest, request.ext_fields)
        self._config.rates.change(in_bytes=header.bytes_per_second)
        return Reply()
