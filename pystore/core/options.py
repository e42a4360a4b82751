"""
Options of a log and of a client batch, as structs of the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

from pystore.bindings.ffi import HAS_GIL, ffi, lib
from pystore.errors import InvalidError
from pystore.message.form import encode_topic
from pystore.message.host import pack_host
from pystore.message.message import BODY_SIZE_MAX
from pystore.stored_names import public

if TYPE_CHECKING:
    import os

    from pystore._core import CData
    from pystore.events import EventSink

__all__ = ["DEFAULTS", "AckName", "LogArguments", "LogOptions", "Mode", "Route"]

AckName = Literal["leader", "leader-synced"]
"""What an append of one log waits for."""

Mode = Literal["r", "w"]
"""To read, or to append and read."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """
    The options of an open log.

    Attributes:
        writable: whether to open for appends; then call ``start`` first.
        segment_size: in bytes; 0: the size of the existing files, else 1 GiB.
        property_crc: whether records get RocketMQ's property CRC.
        message_size_max: the largest body, in bytes.
        flush_interval_ms: the interval of the flusher; 0: no flusher.
        writeback_bytes: bytes between two early write-backs; 0: none.
        store_host: the ``address:port`` of the broker in records.
        serves_ill: whether to open for reading although segments are missing, short or
            unreadable; see ``LogReader.ill``.
    """

    writable: bool = False
    segment_size: int = 0
    property_crc: bool = True
    message_size_max: int = BODY_SIZE_MAX
    flush_interval_ms: int = 500
    writeback_bytes: int = 8 * 1024 * 1024
    store_host: str = "127.0.0.1:10911"
    serves_ill: bool = False

    def pack(self) -> CData:
        """
        Returns the ``ps_options``.

        Raises:
            InvalidError: a number that its field cannot hold, or no host.
        """
        host = pack_host(self.store_host)
        options = ffi.new("ps_options *")
        _fill(options, self, _OPTION_NUMBERS)
        reading = lib.PS_MODE_READ_ILL if self.serves_ill else lib.PS_MODE_READ
        options.mode = lib.PS_MODE_WRITE if self.writable else reading
        options.property_crc = int(self.property_crc)
        options.wake_one_by_one = int(HAS_GIL)
        options.store_host_size = len(host)
        ffi.memmove(options.store_host, host, len(host))
        return options


DEFAULTS = LogOptions()


class LogArguments(TypedDict, total=False):
    """
    The arguments of `pystore.store.commit_log.CommitLog` beside path and mode.
    """

    create: bool
    segment_size: int
    property_crc: bool
    message_size_max: int
    flush_interval_ms: int
    writeback_bytes: int
    store_host: str
    accept_loss: bool
    save_to: str | os.PathLike[str] | None
    on_event: EventSink | None
    delay_levels: str
    queue_file_bytes: int | None


@public
@dataclass(frozen=True, slots=True)
class Route:
    """
    The fields that all entries of a client batch share, as in ``Message``.
    """

    topic: str
    queue_id: int = 0
    born_ms: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    born_host: str | None = None

    def pack(self) -> tuple[CData, CData]:
        """
        Returns the ``ps_route``, and the topic, which must live as long.

        Raises:
            InvalidError: a number that its field cannot hold, no topic, no host.
        """
        topic = ffi.from_buffer("uint8_t[]", encode_topic(self.topic))
        route = ffi.new("ps_route *")
        _fill(route, self, _ROUTE_NUMBERS)
        route.topic = topic
        route.topic_size = len(topic)
        if self.born_host is not None:
            host = pack_host(self.born_host)
            route.born_host_size = len(host)
            ffi.memmove(route.born_host, host, len(host))
        return route, topic


_OPTION_NUMBERS = (
    "segment_size",
    "message_size_max",
    "flush_interval_ms",
    "writeback_bytes",
)
_ROUTE_NUMBERS = ("queue_id", "born_ms", "sys_flag", "reconsume_times")


def _fill(struct: CData, values: object, names: tuple[str, ...]) -> None:
    for name in names:
        value = getattr(values, name)
        try:
            setattr(struct, name, value)
        except (OverflowError, TypeError) as error:  # what cffi raises
            kind = type(value).__name__
            raise InvalidError(f"{name} {value!r} ({kind}): {error}") from error
