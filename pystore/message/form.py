"""
The message form: a message as bytes, as the C core takes it. Pure.

It is a head, the topic, and one entry of RocketMQ's client batch form, so that an
entry from a client needs no change. Several messages follow one another.

Source: csrc/pystore.h, message form; docs/format.md, batch forms (formats 1.7)
and limits (1.3).
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import SupportsIndex

from pystore.errors import InvalidError

__all__ = [
    "ENTRY",
    "HEAD",
    "PROPERTIES",
    "RETRY_PREFIX",
    "RETRY_TOPIC_SIZE_MAX",
    "TOPIC_SIZE_MAX",
    "encode_message",
    "encode_topic",
]

TOPIC_SIZE_MAX = 127
RETRY_PREFIX = "%RETRY%"
RETRY_TOPIC_SIZE_MAX = 255

HEAD = struct.Struct(">IiIiqq20sHH")
"""
Size, queue id, sys flag, reconsume times, born time, prepared offset, born
host, its size, topic size. Then the topic.
"""

ENTRY = struct.Struct(">IiiiI")
"""Size, magic, body CRC, flag, body size. Then the body."""

PROPERTIES = struct.Struct(">H")
"""Size of the properties. Then the properties."""

_ENTRY_SIZE = ENTRY.size + PROPERTIES.size
_FORM_SIZE = HEAD.size + _ENTRY_SIZE


@lru_cache(maxsize=1024)
def encode_topic(topic: str) -> bytes:
    """
    Returns the bytes of a topic that a message may have.

    A topic is the name of a folder of consume queues, so ``.``, ``..`` and slashes are
    not allowed; nor is NUL, which marks torn bytes in recovery.

    Raises:
        InvalidError: it is empty, no text, no name of a folder, or too long: 127
            bytes, 255 for one that begins with ``%RETRY%``.
    """
    if not isinstance(topic, str):
        raise InvalidError(f"topic is {type(topic).__name__}, it must be str")
    try:
        raw = topic.encode()
    except UnicodeEncodeError as error:  # lone surrogates are no text
        raise InvalidError(f"topic {topic!r} is not text: {error}") from error
    if not raw or topic in (".", "..") or "/" in topic or "\0" in topic:
        raise InvalidError(f"topic {topic!r} cannot name a folder of queues")
    is_retry = topic.startswith(RETRY_PREFIX)
    most = RETRY_TOPIC_SIZE_MAX if is_retry else TOPIC_SIZE_MAX
    if len(raw) > most:
        raise InvalidError(
            f"topic of {len(raw)} bytes is too long: at most {most} ({topic[:40]!r}...)"
        )
    return raw


def encode_message(
    topic: bytes,
    body: bytes,
    properties: bytes,
    *,
    queue_id: int = 0,
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    born_ms: int = 0,
    prepared_offset: int = 0,
    born_host: bytes = b"",
) -> bytes:
    """
    Returns the message form of parts that are already encoded and checked.

    Raises:
        InvalidError: a number that its field cannot hold.
    """
    size = len(body) + len(properties)
    try:
        if queue_id < 0:
            raise struct.error
        return b"".join(
            (
                HEAD.pack(
                    _FORM_SIZE + len(topic) + size,
                    queue_id,
                    sys_flag,
                    reconsume_times,
                    born_ms,
                    prepared_offset,
                    born_host,
                    len(born_host),
                    len(topic),
                ),
                topic,
                ENTRY.pack(_ENTRY_SIZE + size, 0, 0, flag, len(body)),
                body,
                PROPERTIES.pack(len(properties)),
                properties,
            )
        )
    except (struct.error, TypeError) as error:  # find the number that does not fit
        numbers = {
            "queue_id": (queue_id, 0, 2**31),
            "flag": (flag, -(2**31), 2**31),
            "sys_flag": (sys_flag, 0, 2**32),
            "reconsume_times": (reconsume_times, -(2**31), 2**31),
            "born_ms": (born_ms, -(2**63), 2**63),
            "prepared_offset": (prepared_offset, -(2**63), 2**63),
        }
        for name, (value, least, above) in numbers.items():
            if not isinstance(value, SupportsIndex) or not least <= value < above:
                raise InvalidError(
                    f"{name} {value!r} is not in {least}..{above - 1}"
                ) from error
        raise InvalidError(f"message has a part that is too long: {error}") from error
