"""
The requests of the control socket, carried out.

Each call may wait for disks and replicas. So the server calls it in a thread of its
own, and nothing here touches the event loop.

Source: docs/operations.md, *The control socket*; RMQ-R206, RMQ-R211, B8.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from pystore.bindings.ffi import POSITION_DTYPE
from pystore.broker.control_protocol import (
    TIMEOUT_MS_MAX,
    ControlCode,
    ControlError,
    encode_answer,
    parse_content,
    refusal,
)
from pystore.broker.control_read import read_log, read_queue
from pystore.broker.mend_jobs import MendJobs
from pystore.broker.node_status import HostedNode
from pystore.errors import (
    BusyError,
    ClosedError,
    CorruptError,
    CutError,
    FencedError,
    FullError,
    InvalidError,
    OffsetOutOfRange,
    PoisonedError,
    PystoreError,
    RemoteViolation,
    StorageError,
    UnavailableError,
)
from pystore.ha.insync.ack import Ack, AckResult
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.message.message import Message
from pystore.rates.host_rates import HostRates
from pystore.remoting.json_body import read_list, read_object, read_value

__all__ = ["ControlRequests"]

_ACKS = {one.value: one for one in Ack}
_TIMEOUT_MS = 3_000
_READ_BYTES = 256 << 10
_READ_BYTES_MAX = 4 << 20
_BODY_BYTES_MAX = 1 << 30  # the log has the limit of its own
_RATES = {
    "repairBytesPerSecond": "in_bytes",
    "serveBytesPerSecond": "out_bytes",
    "repairLatencyMs": "latency_ms",
}

# The first class that fits decides.
_CODES: tuple[tuple[type[PystoreError], ControlCode], ...] = (
    (RemoteViolation, ControlCode.BAD_REQUEST),
    (ClosedError, ControlCode.CLOSED),
    (BusyError, ControlCode.CLOSED),
    (InvalidError, ControlCode.BAD_REQUEST),
    (UnavailableError, ControlCode.UNAVAILABLE),
    (OffsetOutOfRange, ControlCode.OUT_OF_RANGE),
    (FullError, ControlCode.FULL),
    (PoisonedError, ControlCode.POISONED),
    (CorruptError, ControlCode.CORRUPT),
    (CutError, ControlCode.CUT),
    (StorageError, ControlCode.STORAGE),
)


class ControlRequests:
    """
    Answers the requests to one host. Any thread.

    Args:
        nodes: of the host, by name; they may change meanwhile, in another thread.
        say: receives one line for the operator.
        rates: of the host; ``None``: no limits yet.
    """

    def __init__(
        self,
        nodes: Mapping[str, HostedNode],
        say: Callable[[str], object],
        rates: HostRates | None = None,
    ) -> None:
        self._nodes = nodes
        self._say = say
        self._rates = rates or HostRates()
        self._mending = MendJobs(say, self._rates)

    def answer(self, content: bytes) -> bytes:
        """
        Carries out one request, and returns the content of the answer.

        Args:
            content: of the frame.
        """
        try:
            request = parse_content(content)
            return self._carried_out(request)
        except ControlError as error:
            # Refused by a rule of this protocol.
            return refusal(error)
        except PystoreError as error:
            # Refused by the log or the replica.
            return refusal(_refused(error))
        except Exception as error:
            # A defect: the client gets an answer, and the broker goes on.
            text = f"{type(error).__name__}: {error}"
            self._say(f"a request to the control socket failed: {text}")
            return refusal(ControlError(ControlCode.INTERNAL, text))

    def _carried_out(self, request: dict[str, Any]) -> bytes:
        match request.get("request"):
            case "status":
                return self._status(request)
            case "append":
                return self._append(self._node(request), request)
            case "read":
                return self._read(self._node(request), request)
            case "mend":
                return self._mend(self._node(request), request)
            case "mendStatus":
                job = read_value(request, "job", int)
                return encode_answer(self._mending.status(job))
            case "rates":
                return self._change_rates(request)
            case other:
                raise ControlError(
                    ControlCode.BAD_REQUEST,
                    f"{other!r} is no request: expected status, append, read, mend, "
                    "mendStatus or rates",
                )

    def _node(self, request: dict[str, Any]) -> HostedNode:
        """
        Returns the node of a request; without a name, the only one.
        """
        name = _value(request, "node", "")
        # Nodes come and go meanwhile.
        nodes = dict(self._nodes)
        if not name and len(nodes) == 1:
            return next(iter(nodes.values()))
        found = nodes.get(name)
        if found is None:
            names = ", ".join(nodes) or "none, this host has no node"
            what = f"there is no node {name!r}" if name else "name a node"
            raise ControlError(ControlCode.UNKNOWN_NODE, f"{what}: expected {names}")
        return found

    def _status(self, request: dict[str, Any]) -> bytes:
        every = dict(self._nodes).values()
        nodes = [self._node(request)] if "node" in request else every
        return encode_answer({"nodes": [one.status() for one in nodes]})

    # -- append ----------------------------------------------------------------

    def _append(self, hosted: HostedNode, request: dict[str, Any]) -> bytes:
        replica = _replica(hosted)
        ack = _ACKS.get(_value(request, "ack", Ack.ALL.value))
        if ack is None:
            raise ControlError(
                ControlCode.BAD_REQUEST, f"ack: expected one of {', '.join(_ACKS)}"
            )
        timeout_ms = _number(request, "timeoutMs", _TIMEOUT_MS, TIMEOUT_MS_MAX)
        given = read_list(request.get("messages"), "messages")
        if not given:
            raise ControlError(ControlCode.BAD_REQUEST, "messages: there is none")
        messages = [_message(one) for one in given]
        positions = np.empty(len(messages), POSITION_DTYPE)
        try:
            future = replica.submit(messages, ack, positions)
        except FencedError as error:
            # Nothing was appended, unless the lease ended during the write.
            raise _fenced(hosted, replica, error) from error
        settled = future.wait(timeout_ms)
        appended = future.appended
        values = {
            "node": hosted.name,
            "brokerId": replica.me.broker_id,
            "masterEpoch": future.epoch,
            **_reached(settled),
            "records": appended.count,
            "offset": appended.offset,
            "endOffset": appended.end,
            "storeTimestamp": appended.store_ms,
            "offsets": positions["offset"].tolist(),
            "queueOffsets": positions["queue_offset"].tolist(),
        }
        if settled.is_reached:
            return encode_answer(values)
        raise ControlError(
            ControlCode.NOT_REACHED,
            f"appended, but the ack {settled.promise} was not reached: "
            f"{settled.outcome.value}; the records may be lost or stay",
            values,
        )

    # -- mend ------------------------------------------------------------------

    def _mend(self, hosted: HostedNode, request: dict[str, Any]) -> bytes:
        log, jobs = hosted.node.log or hosted.node.ill, hosted.node.segment_jobs
        if log is None or hosted.failure:
            _not_registered(hosted)
        given = read_list(request.get("from"), "from")
        if not given or not all(isinstance(one, str) and one for one in given):
            raise ControlError(
                ControlCode.BAD_REQUEST, "from: expected stores or addresses of peers"
            )
        segment = read_value(request, "segment", int) if "segment" in request else None
        tls = hosted.settings.config.client_tls
        rate = _value(request, "bytesPerSecond", 0)
        if rate < 0:
            raise ControlError(ControlCode.BAD_REQUEST, f"bytesPerSecond: {rate}")
        try:
            job = self._mending.start(
                hosted.name, log, jobs, given, segment, bytes_per_second=rate, tls=tls
            )
        except BusyError as error:
            # The cluster repairs this store.
            raise ControlError(ControlCode.BUSY, f"{hosted.name}: {error}") from error
        return encode_answer({"node": hosted.name, "job": job})

    # -- rates -----------------------------------------------------------------

    def _change_rates(self, request: dict[str, Any]) -> bytes:
        """
        Changes what the request names; without any name it only tells.
        """
        self._rates.change(
            **{
                field_name: read_value(request, name, int)
                for name, field_name in _RATES.items()
                if name in request
            }
        )
        return encode_answer(self._rates.status())

    # -- read ------------------------------------------------------------------

    def _read(self, hosted: HostedNode, request: dict[str, Any]) -> bytes:
        log = hosted.node.log
        if log is None or hosted.failure:
            _not_registered(hosted)
        size = _number(request, "maxBytes", _READ_BYTES, _READ_BYTES_MAX)
        bodies = _value(request, "bodies", default=True)
        if "topic" in request:
            queue = read_value(request, "topic", str), _value(request, "queueId", 0)
            at = None
            if "queueOffset" in request:
                at = read_value(request, "queueOffset", int)
            found = read_queue(log.store, queue, at, size, bodies=bodies)
            name = "nextQueueOffset"
        else:
            start = _value(request, "offset", log.log().min_offset)
            found = read_log(log.store, start, size, bodies=bodies)
            name = "nextOffset"
        head = encode_answer(
            {
                "node": hosted.name,
                "confirmOffset": found.confirm_offset,
                name: found.next_offset,
            }
        )
        # The lines are JSON already.
        return head[:-1] + b', "records": [' + b", ".join(found.lines) + b"]}"


def _reached(settled: AckResult) -> dict[str, Any]:
    return {
        "ack": settled.ack.value,
        "promised": settled.promise,
        "outcome": settled.outcome.name.lower().replace("_", "-"),
        "receivedBy": sorted(settled.received_by),
        "flushedBy": sorted(settled.flushed_by),
    }


def _replica(hosted: HostedNode) -> Replica:
    replica = hosted.node.replica
    if replica is None or hosted.failure:
        _not_registered(hosted)
    return replica


def _not_registered(hosted: HostedNode) -> NoReturn:
    ill = hosted.node.ill
    why = hosted.failure or (
        "no controller has given it a broker id yet" if ill is None else ill.reason
    )
    raise ControlError(ControlCode.NOT_REGISTERED, f"{hosted.name}: {why}")


def _fenced(hosted: HostedNode, replica: Replica, error: FencedError) -> ControlError:
    now = replica.standing()
    if now.role is Role.MASTER:
        return ControlError(ControlCode.FENCED, str(error))
    master = None if now.master is None else now.master.broker_id
    address = hosted.master_address
    text = str(error) if address is None else f"{error}, at {address}"
    return ControlError(
        ControlCode.NOT_MASTER,
        text,
        {"masterId": master, "masterAddress": address, "masterEpoch": now.epoch},
    )


def _refused(error: PystoreError) -> ControlError:
    for kind, code in _CODES:
        if isinstance(error, kind):
            return ControlError(code, str(error))
    return ControlError(ControlCode.INTERNAL, f"{type(error).__name__}: {error}")


def _value(row: dict[str, Any], name: str, default: Any) -> Any:  # noqa: ANN401
    """
    Returns a value of the type of its default, which stands for a missing one.
    """
    return read_value(row, name, type(default)) if name in row else default


def _number(row: dict[str, Any], name: str, default: int, most: int) -> int:
    found: int = _value(row, name, default)
    if not 0 < found <= most:
        raise ControlError(ControlCode.BAD_REQUEST, f"{name}: expected 1 to {most}")
    return found


def _message(given: object) -> Message:
    row = read_object(given, "message")
    properties = read_object(row.get("properties", {}), "properties")
    if not all(isinstance(one, str) for one in properties.values()):
        raise ControlError(ControlCode.BAD_REQUEST, "properties: expected texts")
    return Message(
        read_value(row, "topic", str),
        _body(row),
        queue_id=_value(row, "queueId", 0),
        keys=_value(row, "keys", "") or None,
        tags=_value(row, "tags", "") or None,
        properties=properties,
        body_size_max=_BODY_BYTES_MAX,
    )


def _body(row: dict[str, Any]) -> bytes:
    if "bodyBase64" not in row:
        return _text_bytes(_value(row, "body", ""))
    try:
        return base64.b64decode(read_value(row, "bodyBase64", str), validate=True)
    except (binascii.Error, ValueError) as error:
        # Not ASCII, or of another alphabet.
        raise ControlError(
            ControlCode.BAD_REQUEST, f"bodyBase64: not Base64: {error}"
        ) from error


def _text_bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        # Half of a pair of surrogates, which JSON can spell.
        raise ControlError(ControlCode.BAD_REQUEST, "body: not Unicode") from error
