"""
The replicas as their brokers answer: requests over remoting, from any thread.

Source: AR-R6; docs/autorecovery.md, *Orders to a replica*.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.errors import ClosedError, InvalidError, UnavailableError
from pystore.net.tls import ClientTls
from pystore.remoting.admission import Signs
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.fields import encode_fields
from pystore.remoting.operator_headers import (
    SegmentClaimRequest,
    SegmentPeerRequest,
    SegmentRateRequest,
)
from pystore.segments.order import OrderProgress, ReplicaStat, SegmentOrder
from pystore.segments.order_bodies import (
    decode_progress,
    decode_stat,
    encode_order,
)

if TYPE_CHECKING:
    from types import TracebackType

    from _typeshed import DataclassInstance

__all__ = ["RemotePeers"]

_TIMEOUT_MS = 5_000
_GRACE_S = 5.0

_UNKNOWN = {
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
}
"""Of these answers nothing follows about a copy: the broker is busy, starts, ends, or
has moved."""


class RemotePeers:
    """
    `pystore.autorecovery.replica_peers.ReplicaPeers` over the network. A context
    manager; any thread. A connection to each broker is kept.

    Args:
        signs: signs each request; ``None``: nothing is signed.
        tls: of the connections; ``None``: plain bytes.
        timeout_ms: of a call.
        say: receives one line for people about each failed connection.
    """

    def __init__(
        self,
        *,
        signs: Signs[Connection] | None = None,
        tls: ClientTls | None = None,
        timeout_ms: int = _TIMEOUT_MS,
        say: Callable[[str], object] = bool,
    ) -> None:
        self._timeout_ms = timeout_ms
        self._loop = asyncio.new_event_loop()
        self._client = RemotingClient(say=say, signs=signs, tls=tls)
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="pystore-replica-peers", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> RemotePeers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """
        Closes all connections; pending calls fail. Idempotent.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            closing = asyncio.run_coroutine_threadsafe(self._client.close(), self._loop)
            closing.result(_GRACE_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def stat(self, replica: ReplicaAddress) -> ReplicaStat:
        """
        Returns what a replica says about its copy.

        Raises:
            UnavailableError: it gave no definite answer.
            InvalidError: it refused.
            RemoteViolation: it answered something else.
        """
        header = SegmentPeerRequest(*_names(replica))
        return decode_stat(self._ask(replica, RequestCode.SEGMENT_STAT, header).body)

    def order(self, replica: ReplicaAddress, order: SegmentOrder) -> OrderProgress:
        """
        Starts a job, or joins the one of the same claim; returns how far it is.

        Raises:
            PystoreError: as `stat`.
        """
        header, body = SegmentPeerRequest(*_names(replica)), encode_order(order)
        answer = self._ask(replica, RequestCode.SEGMENT_ORDER, header, body)
        return decode_progress(answer.body)

    def progress(self, replica: ReplicaAddress, claim: str) -> OrderProgress:
        """
        Returns how far a job is; that it failed, if the replica knows none.

        Raises:
            PystoreError: as `stat`.
        """
        header = SegmentClaimRequest(*_names(replica), claim)
        answer = self._ask(replica, RequestCode.SEGMENT_PROGRESS, header)
        return decode_progress(answer.body)

    def stop(self, replica: ReplicaAddress, claim: str) -> None:
        """
        Ends a job. One that the replica does not know is fine.

        Raises:
            PystoreError: as `stat`.
        """
        header = SegmentClaimRequest(*_names(replica), claim)
        self._ask(replica, RequestCode.SEGMENT_STOP, header)

    def change_rate(self, replica: ReplicaAddress, bytes_per_second: int) -> None:
        """
        Changes how fast all jobs of a replica read and move bytes; 0: no limit.

        Raises:
            PystoreError: as `stat`.
        """
        header = SegmentRateRequest(*_names(replica), bytes_per_second)
        self._ask(replica, RequestCode.SEGMENT_RATE, header)

    def _ask(
        self,
        replica: ReplicaAddress,
        code: RequestCode,
        header: DataclassInstance,
        body: bytes = b"",
    ) -> RemotingCommand:
        request = RemotingCommand(code, ext_fields=encode_fields(header), body=body)
        answer = self._call(replica.address, request)
        if answer.code == ResponseCode.SUCCESS:
            return answer
        text = " ".join((answer.remark or f"code {answer.code}").split())
        line = f"{replica.text} refuses {code.name}: {text}"
        if answer.code in _UNKNOWN:
            raise UnavailableError(line)
        raise InvalidError(line)

    def _call(self, address: str, request: RemotingCommand) -> RemotingCommand:
        with self._lock:
            if self._is_closed:
                raise ClosedError("the connections to replicas are closed")
            pending = asyncio.run_coroutine_threadsafe(
                self._client.call(address, request, self._timeout_ms), self._loop
            )
        try:
            return pending.result(self._timeout_ms / 1000 + _GRACE_S)
        except (TimeoutError, CancelledError) as error:
            # Closed meanwhile; or this machine has no time for its own threads.
            pending.cancel()
            raise UnavailableError(f"{address}: no answer in time") from error
        except ClosedError as error:
            # Likewise.
            raise UnavailableError(f"{address}: no answer: {error}") from error


def _names(replica: ReplicaAddress) -> tuple[str, str, int]:
    return replica.cluster, replica.set_name, replica.broker_id
