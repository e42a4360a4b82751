"""
The client of a control socket.

Source: docs/operations.md, *The control socket*.
"""

from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pystore.broker.control_protocol import (
    ANSWER_BYTES_MAX,
    HEAD_BYTES,
    ControlCode,
    ControlError,
    content_size,
    encode_frame,
    parse_content,
)
from pystore.errors import RemoteViolation, StorageError

__all__ = ["ControlClient"]

_ANSWER_S = 30.0


class ControlClient:
    """
    A connection to one host. A context manager; one thread.

    Args:
        path: of the socket.
        node: the node of all requests; empty: the only one.
        timeout_s: how long an answer may take, beside the wait for an ack.

    Raises:
        StorageError: no process listens there, or this user may not open the socket.
    """

    def __init__(
        self, path: str | Path, node: str = "", *, timeout_s: float = _ANSWER_S
    ) -> None:
        self._path = os.fspath(path)
        self._node = {"node": node} if node else {}
        self._timeout_s = timeout_s
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(self._path)
        except OSError as error:
            # Missing, dead, another user's, or too long a path.
            self._socket.close()
            raise StorageError(
                f"{self._path}: no broker answers there: {error.strerror or error}",
                errno=error.errno,
                path=self._path,
            ) from error

    def __enter__(self) -> ControlClient:
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
        Closes the connection. Idempotent.
        """
        self._socket.close()

    def status(self) -> list[dict[str, Any]]:
        """
        Returns the status of the node, or of all nodes if none was named.

        Raises:
            PystoreError: as `call`.
        """
        nodes: list[dict[str, Any]] = self.call({"request": "status"})["nodes"]
        return nodes

    def append(
        self,
        topic: str,
        bodies: Sequence[bytes],
        *,
        queue_id: int = 0,
        keys: str | Sequence[str] = "",
        tags: str = "",
        ack: str = "all",
        timeout_ms: int = 3_000,
    ) -> dict[str, Any]:
        """
        Appends one record for each body, all or none, and waits for the ack.

        Args:
            topic: of all records.
            bodies: one for each record.
            queue_id: of all records.
            keys: of all records, or a list with one text for each.
            tags: of all records.
            ack: its name.
            timeout_ms: how long the ack may take.

        Returns:
            The answer, with the offsets of each record.

        Raises:
            PystoreError: as `call`; with `ControlCode.NOT_REACHED` the records are
                stored, and ``answer`` of the error has their offsets.
        """
        shared: dict[str, Any] = {"topic": topic, "queueId": queue_id}
        shared |= {"tags": tags} if tags else {}
        each = [keys] * len(bodies) if isinstance(keys, str) else keys
        request = {
            "request": "append",
            "ack": ack,
            "timeoutMs": timeout_ms,
            "messages": [
                {**shared, **_body(body), **({"keys": key} if key else {})}
                for body, key in zip(bodies, each, strict=True)
            ],
        }
        return self.call(request, timeout_ms / 1000)

    def read(self, offset: int | None = None, **more: object) -> dict[str, Any]:
        """
        Reads some records that begin at or after an offset, up to the confirm offset.

        Args:
            offset: of the log; ``None``: its beginning.
            **more: of the request: ``maxBytes``, ``bodies``; or ``topic``, ``queueId``
                and ``queueOffset`` instead of the offset.

        Returns:
            The answer: ``records``, ``confirmOffset``, and ``nextOffset`` or
            ``nextQueueOffset``, which is the same as before at the end.

        Raises:
            PystoreError: as `call`.
        """
        where = {} if offset is None else {"offset": offset}
        return self.call({"request": "read", **where, **more})

    def records(
        self, offset: int | None = None, **more: object
    ) -> Iterator[dict[str, Any]]:
        """
        Yields all records from an offset on, up to the confirm offset.

        Args:
            offset: as in `read`.
            **more: as in `read`.

        Raises:
            PystoreError: as `call`.
        """
        while True:
            found = self.read(offset, **more)
            yield from found["records"]
            if "topic" in more:
                before, after = more.get("queueOffset"), found["nextQueueOffset"]
                more["queueOffset"] = after
            else:
                before, after = offset, found["nextOffset"]
                offset = after
            if after == before or not found["records"]:
                return

    def mend(
        self,
        sources: Sequence[str],
        segment: int | None = None,
        bytes_per_second: int = 0,
    ) -> int:
        """
        Starts the repair of a node, or finds the same one that runs; returns its number
        for `mend_status`.

        Args:
            sources: other copies, the preferred one first: absolute paths of stores on
                the machine of the node, and addresses of peers.
            segment: only the one with this base offset; ``None``: all.
            bytes_per_second: of the blocks that are moved; 0: no limit.

        Raises:
            PystoreError: as `call`.
        """
        request: dict[str, Any] = {
            "request": "mend",
            "from": list(sources),
            "bytesPerSecond": bytes_per_second,
        }
        if segment is not None:
            request["segment"] = segment
        job: int = self.call(request)["job"]
        return job

    def mend_status(self, job: int) -> dict[str, Any]:
        """
        Returns how far a repair is: ``steps``, ``unmended``, ``isEnded``,
        ``problem``.

        Raises:
            PystoreError: as `call`.
        """
        return self.call({"request": "mendStatus", "job": job})

    def rates(self, **limits: int) -> dict[str, Any]:
        """
        Changes limits of the host, and returns all of them with the rates as they are.

        Args:
            **limits: ``repairBytesPerSecond``, ``serveBytesPerSecond``,
                ``repairLatencyMs``; 0: none. What is not named stays.

        Raises:
            PystoreError: as `call`.
        """
        return self.call({"request": "rates", **limits})

    def call(self, request: dict[str, Any], more_s: float = 0) -> dict[str, Any]:
        """
        Sends one request, and returns its answer.

        Args:
            request: without the node.
            more_s: how much longer than usual the answer may take.

        Raises:
            ControlError: the host refuses; ``code`` says why.
            StorageError: the connection ended, or there is no answer in time. The
                request may have been carried out.
            RemoteViolation: the answer is not of this protocol.
        """
        content = json.dumps({**self._node, **request}).encode()
        self._socket.settimeout(self._timeout_s + more_s)
        try:
            self._socket.sendall(encode_frame(content))
        except (BrokenPipeError, ConnectionResetError):
            # Closed by the host, which may have said why before.
            pass
        except OSError as error:
            # Full, because the host does not read.
            raise self._lost(error) from error
        answer = parse_content(self._received())
        refused = answer.get("error")
        if refused is None:
            return answer
        raise ControlError(_code(refused), str(refused.get("text", "")), answer)

    def _received(self) -> bytes:
        size = content_size(self._exactly(HEAD_BYTES), ANSWER_BYTES_MAX)
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            try:
                part = self._socket.recv(min(size, 1 << 20))
            except OSError as error:
                # No answer in time, or the host has gone.
                raise self._lost(error) from error
            if not part:
                raise self._lost(None)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _lost(self, error: OSError | None) -> StorageError:
        why = "it closed the connection" if error is None else str(error)
        return StorageError(
            f"{self._path}: no answer of the broker: {why}; the request may have been "
            "carried out",
            errno=None if error is None else error.errno,
            path=self._path,
        )


def _body(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        # JSON can hold text only.
        return {"bodyBase64": base64.b64encode(body).decode("ascii")}


def _code(refused: object) -> ControlCode:
    found = refused.get("code") if isinstance(refused, dict) else None
    try:
        return ControlCode(found)
    except ValueError as error:
        # Of a newer host.
        raise RemoteViolation(f"a refusal with the code {found!r}") from error
