"""
A message to append. Pure.

A ``Message`` *is* its encoded bytes, the message form of the C core, made once
when it is built; its fields are read from them. So a batch of messages is one join
and one call of the core, and nothing changes between check and append.

Source: docs/format.md, message record (formats 1.3) and batch forms (formats 1.7).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from pystore.errors import InvalidError
from pystore.message.constants import IPV4_SIZE
from pystore.message.form import ENTRY, HEAD, PROPERTIES, encode_message, encode_topic
from pystore.message.host import host_text, pack_host
from pystore.message.properties import (
    KEYS,
    TAGS,
    encode_properties,
    join_keys,
    parse_properties,
)
from pystore.stored_names import public

__all__ = ["BODY_SIZE_MAX", "Message", "form_of"]

BODY_SIZE_MAX = 4 * 1024 * 1024
"""The default limit of a body, in bytes (``maxMessageSize``)."""


@public
class Message:
    """
    One message; immutable, equal and hashed by its bytes.

    Args:
        topic: at most 127 bytes of UTF-8, 255 after ``%RETRY%``.
        body: any bytes, also none.
        queue_id: of the topic, from 0.
        keys: one string, or several keys without spaces in them.
        tags: one tag; consume queues keep its hash.
        properties: more properties; neither ``KEYS`` nor ``TAGS`` if given above.
        flag: for the user; pystore does not interpret it.
        sys_flag: the flags of docs/format.md, *Sys flag*; the log sets the host bits.
        reconsume_times: how often a consumer returned the message.
        born_ms: milliseconds since 1970; 0 is the time of the append.
        prepared_offset: of the prepared record of a transaction.
        born_host: ``address:port``; ``None`` is the host of the store.
        body_size_max: a larger body is refused.

    Raises:
        InvalidError: no log could hold it; the text names the part and the reason.
    """

    __slots__ = ("form",)

    form: bytes
    """The message form, ready for ``append``."""

    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        queue_id: int = 0,
        keys: str | Iterable[str] | None = None,
        tags: str | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        sys_flag: int = 0,
        reconsume_times: int = 0,
        born_ms: int = 0,
        prepared_offset: int = 0,
        born_host: str | None = None,
        body_size_max: int = BODY_SIZE_MAX,
    ) -> None:
        if not isinstance(body, bytes):
            body = _plain(body)
        if len(body) > body_size_max:
            raise InvalidError(
                f"body of {len(body)} bytes is too large: at most {body_size_max}"
            )
        form = encode_message(
            encode_topic(topic),
            body,
            encode_properties(_gather(properties, keys, tags)),
            queue_id=queue_id,
            flag=flag,
            sys_flag=sys_flag,
            reconsume_times=reconsume_times,
            born_ms=born_ms,
            prepared_offset=prepared_offset,
            born_host=pack_host(born_host) if born_host else b"",
        )
        object.__setattr__(self, "form", form)

    @classmethod
    def from_form(cls, form: bytes) -> Message:
        """
        Returns the message with the bytes *form*.

        Raises:
            InvalidError: its sizes do not add up.
        """
        message = cls.__new__(cls)
        object.__setattr__(message, "form", form)
        try:
            body_at, body_size = message._body_range()
            (properties_size,) = PROPERTIES.unpack_from(form, body_at + body_size)
        except struct.error as error:  # a field reaches past the end
            raise InvalidError(f"{len(form)} bytes are no message form") from error
        end = body_at + body_size + PROPERTIES.size + properties_size
        sizes = (message._head()[0], message._entry_at() + message._entry()[0])
        if sizes != (len(form), len(form)) or end != len(form):
            raise InvalidError(f"{len(form)} bytes are no message form")
        return message

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a message is immutable: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a message is immutable: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.form == other.form

    def __hash__(self) -> int:
        return hash(self.form)

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        return Message.from_form, (self.form,)

    def __repr__(self) -> str:
        size = self._entry()[4]
        return (
            f"Message({self.topic!r}, <{size} bytes>, queue_id={self.queue_id}, "
            f"properties={self.properties!r})"
        )

    def _head(self) -> tuple[int, int, int, int, int, int, bytes, int, int]:
        head: tuple[int, int, int, int, int, int, bytes, int, int]
        head = HEAD.unpack_from(self.form)
        return head

    def _entry_at(self) -> int:
        return HEAD.size + self._head()[8]

    def _entry(self) -> tuple[int, int, int, int, int]:
        entry: tuple[int, int, int, int, int]
        entry = ENTRY.unpack_from(self.form, self._entry_at())
        return entry

    def _body_range(self) -> tuple[int, int]:
        return self._entry_at() + ENTRY.size, self._entry()[4]

    @property
    def client_form(self) -> bytes:
        """
        The message as one entry of RocketMQ's client batch form.
        """
        return self.form[self._entry_at() :]

    @property
    def topic(self) -> str:
        """
        The topic.
        """
        return self.form[HEAD.size : self._entry_at()].decode()

    @property
    def body(self) -> bytes:
        """
        The body, a copy.
        """
        at, size = self._body_range()
        return self.form[at : at + size]

    @property
    def properties_raw(self) -> bytes:
        """
        The property string, without a CRC property.
        """
        at, size = self._body_range()
        return self.form[at + size + PROPERTIES.size :]

    @property
    def properties(self) -> dict[str, str]:
        """
        All properties, ``KEYS`` and ``TAGS`` among them.
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
    def queue_id(self) -> int:
        """
        The queue of the topic.
        """
        return self._head()[1]

    @property
    def flag(self) -> int:
        """
        The user's flag.
        """
        return self._entry()[3]

    @property
    def sys_flag(self) -> int:
        """
        The flags of docs/format.md, *Sys flag*.
        """
        return self._head()[2]

    @property
    def reconsume_times(self) -> int:
        """
        How often a consumer returned the message.
        """
        return self._head()[3]

    @property
    def born_ms(self) -> int:
        """
        When the client made it, in ms since 1970; 0 is the time of the append.
        """
        return self._head()[4]

    @property
    def prepared_offset(self) -> int:
        """
        The offset of the prepared record of its transaction.
        """
        return self._head()[5]

    @property
    def born_host(self) -> str | None:
        """
        The client as ``address:port``, or ``None`` for the host of the store.
        """
        *_, host, size, _ = self._head()
        return host_text(host[:size]) if size >= IPV4_SIZE else None


def form_of(messages: Message | Iterable[Message]) -> bytes:
    """
    Returns the message form of one message, or of many back to back.

    Raises:
        InvalidError: one of them is no message.
    """
    if isinstance(messages, Message):
        return messages.form
    try:
        return b"".join([message.form for message in messages])
    except (AttributeError, TypeError) as error:  # bytes, most likely
        raise InvalidError(f"a batch is made of Messages: {error}") from error


def _plain(body: object) -> bytes:
    if isinstance(body, str | int):
        kind = type(body).__name__
        raise InvalidError(f"body is {kind}, it must be bytes: encode it first")
    try:
        return bytes(memoryview(body))  # type: ignore[arg-type]
    except TypeError as error:  # no buffer
        raise InvalidError(f"body must be bytes: {error}") from error


def _gather(
    properties: Mapping[str, str] | None,
    keys: str | Iterable[str] | None,
    tags: str | None,
) -> dict[str, str]:
    gathered = dict(properties) if properties else {}
    if keys is not None:
        if KEYS in gathered:
            raise InvalidError(f"keys are given twice, also as property {KEYS!r}")
        gathered[KEYS] = join_keys(keys)
    if tags is not None:
        if TAGS in gathered:
            raise InvalidError(f"tags are given twice, also as property {TAGS!r}")
        gathered[TAGS] = tags
    return gathered
