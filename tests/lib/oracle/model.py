"""
A commit log in a bytearray: every log must equal it, byte for byte.

Nothing here is shared with pystore. Records are encoded from docs/format.md with
`struct` and `zlib` alone, and placed as RocketMQ places them: never across the end
of a segment, with space for a blank record after each.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

V1, V2, BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
BLANK_SIZE = 8
PREPARED, BORN_IPV6, STORE_IPV6 = 0x4, 0x10, 0x20
Queue = tuple[str, int]


@dataclass(frozen=True)
class Spec:
    """
    One message in plain values.
    """

    topic: str
    body: bytes
    queue_id: int = 0
    properties: tuple[tuple[str, str], ...] = ()
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    born_ms: int = 0
    prepared_offset: int = 0
    born_host: str | None = None

    @property
    def queue(self) -> Queue:
        """
        Its topic and queue id.
        """
        return self.topic, self.queue_id

    @property
    def is_queued(self) -> bool:
        """
        Whether it takes a queue offset.
        """
        return not self.sys_flag & PREPARED

    @property
    def properties_raw(self) -> bytes:
        """
        The property string without the CRC.
        """
        return "".join(f"{n}\x01{v}\x02" for n, v in self.properties).encode()


def pack_host(text: str) -> bytes:
    """
    ``address:port`` as a record holds it.
    """
    address, _, port = text.rpartition(":")
    return ip_address(address.strip("[]")).packed + struct.pack(">i", int(port))


def crc(data: bytes) -> int:
    """
    The CRC-32 with bit 31 cleared.
    """
    return zlib.crc32(data) & 0x7FFFFFFF


@dataclass(frozen=True)
class Form:
    """
    How a log writes its records.
    """

    segment_size: int
    property_crc: bool = True
    store_host: str = "127.0.0.1:10911"

    def encode(
        self, spec: Spec, offset: int, queue_offset: int, store_ms: int
    ) -> bytes:
        """
        The record of a message at an offset.
        """
        topic = spec.topic.encode()
        store = pack_host(self.store_host)
        born = pack_host(spec.born_host) if spec.born_host else store
        flags = spec.sys_flag | (BORN_IPV6 if len(born) > 8 else 0)
        flags |= STORE_IPV6 if len(store) > 8 else 0
        properties = spec.properties_raw
        properties_size = len(properties) + (20 if self.property_crc else 0)
        is_v2 = len(topic) > 127
        head = struct.pack(
            ">IIiqQI",
            crc(spec.body),
            spec.queue_id,
            spec.flag,
            queue_offset if spec.is_queued else 0,
            offset,
            flags,
        )
        head += struct.pack(">q", spec.born_ms or store_ms) + born
        head += struct.pack(">q", store_ms) + store
        head += struct.pack(
            ">iqI", spec.reconsume_times, spec.prepared_offset, len(spec.body)
        )
        tail = struct.pack(">H" if is_v2 else ">B", len(topic)) + topic
        tail += struct.pack(">H", properties_size) + properties
        size = 8 + len(head) + len(spec.body) + len(tail)
        size += 20 if self.property_crc else 0
        record = struct.pack(">II", size, V2 if is_v2 else V1)
        record += head + spec.body + tail
        if self.property_crc:
            digits = f"{crc(record):010d}"[::-1]
            record += b"__CRC32#\x01" + digits.encode() + b"\x02"
        return record

    def size(self, spec: Spec) -> int:
        """
        The size of a message's record.
        """
        return len(self.encode(spec, 0, 0, 1))


@dataclass(frozen=True)
class Placed:
    """
    A message and where it went.
    """

    spec: Spec
    offset: int
    end: int
    queue_offset: int
    store_ms: int


@dataclass
class Model:
    """
    The log.

    Attributes:
        form: how records are written.
        data: every byte from offset 0, also of what was deleted from the front.
        placed: the records, in order.
        ends: every offset at which the log could end, ascending.
        min_offset: the first that is still there.
        bases: of the segments that are there.
    """

    form: Form
    data: bytearray = field(default_factory=bytearray)
    placed: list[Placed] = field(default_factory=list)
    ends: list[int] = field(default_factory=lambda: [0])
    min_offset: int = 0
    bases: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        """
        Where the log ends.
        """
        return len(self.data)

    @property
    def room(self) -> int:
        """
        Bytes up to the end of the active segment.
        """
        return self.bases[-1] + self.form.segment_size - self.end if self.bases else 0

    @property
    def segments(self) -> dict[int, bytes]:
        """
        The files that are there, whole, by their bases.
        """
        size = self.form.segment_size
        return {
            base: bytes(self.data[base : base + size]).ljust(size, b"\0")
            for base in self.bases
        }

    def next_offset(self, queue: Queue) -> int:
        """
        The queue offset of a queue's next message.
        """
        taken = (
            p.queue_offset
            for p in reversed(self.placed)
            if p.spec.is_queued and p.spec.queue == queue
        )
        return next(taken, -1) + 1

    def roll(self) -> None:
        """
        Fill the segment with a blank record, and begin the next one.
        """
        if self.room:
            blank = struct.pack(">II", self.room, BLANK)
            self._grow(blank.ljust(self.room, b"\0"))
        self.bases.append(self.end)

    def _grow(self, data: bytes) -> None:
        self.data += data
        self.ends.append(self.end)

    def append(self, specs: Sequence[Spec], store_ms: int) -> list[Placed]:
        """
        Messages that go into one segment together.
        """
        sizes = [self.form.size(spec) for spec in specs]
        if self.room < sum(sizes) + BLANK_SIZE:
            self.roll()
        return [self._place(spec, store_ms) for spec in specs]

    def append_columns(self, specs: Sequence[Spec], store_ms: int) -> list[Placed]:
        """
        Messages, each into the first segment with space.
        """
        return [placed for s in specs for placed in self.append([s], store_ms)]

    def _place(self, spec: Spec, store_ms: int) -> Placed:
        at, queue_offset = self.end, self.next_offset(spec.queue)
        self._grow(self.form.encode(spec, at, queue_offset, store_ms))
        placed = Placed(spec, at, self.end, queue_offset, store_ms)
        self.placed.append(placed)
        return placed

    def cut(self, offset: int) -> None:
        """
        The log ends here.
        """
        del self.data[offset:]
        del self.ends[bisect_left(self.ends, offset + 1) :]
        self.placed = [p for p in self.placed if p.end <= offset]
        self.bases = [base for base in self.bases if base <= offset]

    def delete_before(self, offset: int) -> int:
        """
        Whole segments below an offset go, but never the last; answers how many.
        """
        gone = [base for base in self.bases[1:] if base <= min(offset, self.end)]
        self.min_offset = gone[-1] if gone else self.min_offset
        self.bases = self.bases[len(gone) :]
        return len(gone)

    @property
    def kept(self) -> list[Placed]:
        """
        The records that can be read.
        """
        return [p for p in self.placed if p.offset >= self.min_offset]

    @property
    def cuts(self) -> list[int]:
        """
        Where the log can be cut.
        """
        return [end for end in self.ends if end >= self.min_offset]
