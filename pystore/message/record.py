"""
A record read from the log: its bytes, and where its fields are. Pure.

The C core parses; a ``Record`` is the parsed row and the bytes of the record. Texts
and properties are decoded at each access.

Source: docs/format.md, message record (formats 1.3, 1.5, 1.8).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from pystore.message.compression import decompress
from pystore.message.constants import (
    AT_BORN_HOST,
    BORN_IPV6,
    COMPRESSED,
    STORE_IPV6,
    born_host_size,
    store_host_size,
)
from pystore.message.form import encode_message
from pystore.message.host import host_text
from pystore.message.java import decode_java
from pystore.message.message import Message
from pystore.message.properties import (
    KEYS,
    TAGS,
    UNIQUE_KEY,
    delivery_ms,
    parse_properties,
    tags_code,
    without_crc,
)
from pystore.stored_names import public

__all__ = ["Record"]


class _Fields(NamedTuple):
    offset: int
    queue_offset: int
    store_ms: int
    born_ms: int
    indexed_tags_code: int
    prepared_offset: int
    size: int
    queue_id: int
    flag: int
    sys_flag: int
    reconsume_times: int
    body_crc: int
    body_at: int
    body_size: int
    topic_at: int
    topic_id: int
    properties_at: int
    topic_size: int
    properties_size: int
    version: int
    proof: int
    data: bytes


@public
class Record(_Fields):
    """
    One record; immutable.

    The named fields are those of a scan row (``RECORD_DTYPE``), in its order;
    ``*_at`` are positions in ``data``, the whole record. ``indexed_tags_code``
    is the row's ``tags_code``, 0 if the scan did not fill it.
    """

    __slots__ = ()

    @classmethod
    def of(cls, fields: Sequence[int], data: bytes) -> Record:
        """
        Returns the record of a parsed row.

        Args:
            fields: the row without its reserved bytes.
            data: the bytes of the record.
        """
        return tuple.__new__(cls, (*fields, data))

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, size={self.size}, topic={self.topic!r}, "
            f"queue_id={self.queue_id}, queue_offset={self.queue_offset})"
        )

    @property
    def end(self) -> int:
        """
        The end of the record in the log.
        """
        return self.offset + self.size

    @property
    def magic(self) -> int:
        """
        The magic number, unsigned; each version has its own.
        """
        return int.from_bytes(self.data[4:8])

    @property
    def body(self) -> bytes:
        """
        The body as stored, a copy.
        """
        return self.data[self.body_at : self.body_at + self.body_size]

    @property
    def plain_body(self) -> bytes:
        """
        The body decompressed, if it is compressed.

        Raises:
            CorruptError, FormatError: as `pystore.message.compression.decompress`.
        """
        return decompress(self.body, self.sys_flag)

    @property
    def topic(self) -> str:
        """
        The topic; bytes that are not UTF-8 become U+FFFD, as in RocketMQ.
        """
        return decode_java(self._topic_raw)

    @property
    def _topic_raw(self) -> bytes:
        return self.data[self.topic_at : self.topic_at + self.topic_size]

    @property
    def properties_raw(self) -> bytes:
        """
        The property string as stored, with the CRC property if there is one.
        """
        at = self.properties_at
        return self.data[at : at + self.properties_size]

    @property
    def properties(self) -> dict[str, str]:
        """
        All properties as RocketMQ parses them.
        """
        return parse_properties(self.properties_raw)

    @property
    def keys(self) -> str | None:
        """
        The keys with spaces between them, or ``None``.
        """
        return self.properties.get(KEYS)

    @property
    def tags(self) -> str | None:
        """
        The tags, or ``None``.
        """
        return self.properties.get(TAGS)

    @property
    def tags_code(self) -> int:
        """
        The code in the consume queue: the hash of the tags, or the time of delivery.
        """
        properties = self.properties
        due = delivery_ms(self.topic, properties, self.store_ms)
        return tags_code(properties.get(TAGS)) if due is None else due

    @property
    def _born_host_raw(self) -> bytes:
        size = born_host_size(self.sys_flag)
        return self.data[AT_BORN_HOST : AT_BORN_HOST + size]

    @property
    def born_host(self) -> str:
        """
        The client, as ``address:port``.
        """
        return host_text(self._born_host_raw)

    @property
    def _store_host_raw(self) -> bytes:
        at = AT_BORN_HOST + len(self._born_host_raw) + 8
        size = store_host_size(self.sys_flag)
        return self.data[at : at + size]

    @property
    def store_host(self) -> str:
        """
        The broker, as ``address:port``.
        """
        return host_text(self._store_host_raw)

    @property
    def msg_id(self) -> str:
        """
        RocketMQ's offset id: store host and offset in upper hex.
        """
        return (self._store_host_raw + self.offset.to_bytes(8)).hex().upper()

    def message(self) -> Message:
        """
        Returns the message that, appended again, gives an equal record.

        The new log sets queue offset, store time and store host.

        Raises:
            InvalidError: the record has a value that pystore never writes.
        """
        form = encode_message(
            self._topic_raw,
            self.body,
            without_crc(self.properties_raw),
            queue_id=self.queue_id,
            flag=self.flag,
            sys_flag=self.sys_flag & ~(BORN_IPV6 | STORE_IPV6),
            reconsume_times=self.reconsume_times,
            born_ms=self.born_ms,
            prepared_offset=self.prepared_offset,
            born_host=self._born_host_raw,
        )
        return Message.from_form(form)

    def as_dict(self, *, plain: bool = False, digests: bool = True) -> dict[str, Any]:
        """
        Returns the record with RocketMQ's names, ready for JSON.

        Args:
            plain: add the length of a compressed body, decompressed.
            digests: with the SHA-256 of record and body, and the property string in
                hex.

        Raises:
            CorruptError, FormatError: as ``plain_body``, with *plain*.
        """
        properties = self.properties
        body = self.body
        line = {
            "offset": self.offset,
            "size": self.size,
            "magic": self.magic,
            "bodyCRC": self.body_crc,
            "queueId": self.queue_id,
            "flag": self.flag,
            "queueOffset": self.queue_offset,
            "physicalOffset": int.from_bytes(self.data[28:36]),
            "sysFlag": self.sys_flag,
            "bornTimestamp": self.born_ms,
            "bornHost": self.born_host,
            "storeTimestamp": self.store_ms,
            "storeHost": self.store_host,
            "reconsumeTimes": self.reconsume_times,
            "preparedTransactionOffset": self.prepared_offset,
            "topic": self.topic,
            "properties": properties,
            "bodyLength": self.body_size,
            "msgId": self.msg_id,
            "offsetMsgId": self.msg_id,
            "tagsCode": self.tags_code,
            "uniqKey": properties.get(UNIQUE_KEY),
            # Java's dispatcher has "" for a record without properties.
            "keys": properties.get(KEYS) if self.properties_size else "",
        }
        if digests:
            line["propertiesRawHex"] = self.properties_raw.hex()
            line["bodySha256"] = sha256(body).hexdigest()
            line["recordSha256"] = sha256(self.data).hexdigest()
        if plain and self.sys_flag & COMPRESSED:
            whole = decompress(body, self.sys_flag)
            line["uncompressedLength"] = len(whole)
            if digests:
                line["uncompressedSha256"] = sha256(whole).hexdigest()
        return line
