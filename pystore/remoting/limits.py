"""
The limits of a client or server of the remoting protocol. Pure.

Source: formats 3.1, client protocol 0; docs/remoting.md.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from pystore.errors import InvalidError
from pystore.remoting.codes import FRAME_BYTES_MAX, HEADER_BYTES_MAX

__all__ = ["RemotingLimits"]


@dataclass(frozen=True, slots=True)
class RemotingLimits:
    """
    The bounds of memory and waiting. All are at least 1.

    Attributes:
        frame_bytes_max: the longest frame that is sent.
        received_bytes_max: the longest frame that is read.
        header_bytes_max: the longest header that is read.
        write_bytes_max: the unsent bytes to a slow peer before reading from it stops.
        requests_max: of one peer at once; more wait.
        row_max: commands of one peer before the others have their turn.
        unread_bytes_max: received bytes of incomplete requests, of all peers; at least
            two of the longest frames. Beyond it the connection is closed whose request
            is incomplete for the longest time.
        waiting_max: requests of one peer that wait for its earlier ones, so that its
            heartbeats pass them; more are not read.
        waiting_bytes_max: of them; more are not read.
        running_max: pending requests of all peers; more are answered with SYSTEM_BUSY.
            A request whose handler is a plain function is never pending.
        calls_max: our unanswered calls per connection.
        connections_max: of a server; more are closed at once.
        connect_timeout_ms: for a connection to a peer.
        request_timeout_ms: for a handler; then the answer is SYSTEM_ERROR.
        send_timeout_ms: how long a peer may accept no byte.
        idle_timeout_ms: how long a connection may have no command.
        close_timeout_ms: how long a closing server or client waits for unsent bytes
            and for handlers.

    Raises:
        InvalidError: a number is below 1.
    """

    frame_bytes_max: int = FRAME_BYTES_MAX
    received_bytes_max: int = FRAME_BYTES_MAX
    header_bytes_max: int = HEADER_BYTES_MAX
    write_bytes_max: int = 64 << 10
    requests_max: int = 64
    row_max: int = 8
    unread_bytes_max: int = 8 << 20
    waiting_max: int = 1024
    waiting_bytes_max: int = 1 << 20
    running_max: int = 4096
    calls_max: int = 1024
    connections_max: int = 20_000
    connect_timeout_ms: int = 3000
    request_timeout_ms: int = 5000
    send_timeout_ms: int = 10_000
    idle_timeout_ms: int = 120_000
    close_timeout_ms: int = 3000

    def __post_init__(self) -> None:
        for one in fields(self):
            if getattr(self, one.name) < 1:
                raise InvalidError(f"{one.name} is {getattr(self, one.name)}")
