"""
The property string of a message, as RocketMQ writes and parses it. Pure.

An entry is ``name 0x01 value 0x02``. There is no escaping, so neither byte may
appear inside of a name or a value: RocketMQ's writer would let it through and
the reader would see other properties. Here the writer refuses it, and NUL too,
which marks torn bytes in recovery.

Source: docs/format.md, properties (formats 1.4) and tags code (formats 1.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pystore.errors import InvalidError
from pystore.message.constants import CRC_NAME, CRC_SIZE, PROPERTIES_SIZE_MAX
from pystore.message.java import decode_java, parse_java_int

__all__ = [
    "KEYS",
    "SCHEDULE_TOPIC",
    "TAGS",
    "UNIQUE_KEY",
    "delivery_ms",
    "encode_properties",
    "join_keys",
    "parse_delay_levels",
    "parse_properties",
    "tags_code",
    "without_crc",
]

KEYS = "KEYS"
TAGS = "TAGS"
UNIQUE_KEY = "UNIQ_KEY"
DELAY = "DELAY"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"

_SECOND = 1000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_UNITS_MS = {"s": _SECOND, "m": _MINUTE, "h": _HOUR, "d": 24 * _HOUR}
_DELAYS_MS = (
    *(_SECOND * seconds for seconds in (1, 5, 10, 30)),
    *(_MINUTE * minutes for minutes in (*range(1, 11), 20, 30)),
    *(_HOUR * hours for hours in (1, 2)),
)

_FORBIDDEN = ("\x01", "\x02", "\x00")
_CRC_HEAD = CRC_NAME.encode() + b"\x01"


def parse_properties(raw: bytes) -> dict[str, str]:
    """
    Returns the properties in *raw*; text without a name or value is left out, as in
    RocketMQ.

    Args:
        raw: the property string as stored; bytes that are not UTF-8 become U+FFFD,
            as in Java.
    """
    found = {}
    for entry in decode_java(raw).split("\x02"):
        name, _, value = entry.partition("\x01")
        if name and value:
            found[name] = value
    return found


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """
    Returns the property string of *properties*, in their order.

    Raises:
        InvalidError: a name or value is empty, no text, or has a separator or NUL; or
            the name is that of the CRC property, which the core writes; or the string
            is too long.
    """
    entries = []
    for name, value in properties.items():
        # The good case first and in one expression: this runs once per property.
        try:
            entry = f"{name}\x01{value}\x02".encode()
        except UnicodeEncodeError as error:  # lone surrogates are no text
            raise InvalidError(f"property {name!r} is not text: {error}") from error
        if (
            not isinstance(name, str)
            or not isinstance(value, str)
            or not name
            or not value
            or name == CRC_NAME
            or entry.count(1) + entry.count(2) != 2  # the two separators
            or 0 in entry
        ):
            raise InvalidError(_problem_of(name, value))
        entries.append(entry)
    raw = b"".join(entries)
    if len(raw) > PROPERTIES_SIZE_MAX:
        raise InvalidError(
            f"properties of {len(raw)} bytes are too long: "
            f"at most {PROPERTIES_SIZE_MAX}"
        )
    return raw


def _problem_of(name: object, value: object) -> str:
    for what, text in (("name", name), ("value", value)):
        if not isinstance(text, str):
            kind = type(text).__name__
            return f"property {name!r}: the {what} is {kind}, it must be str"
        if not text:
            return f"property {name!r}: the {what} is empty"
        for character in _FORBIDDEN:
            if character in text:
                return (
                    f"property {name!r}: the {what} holds {character!r}, which "
                    "separates properties or marks torn bytes"
                )
    return f"property {CRC_NAME!r} is written by the log"


def join_keys(keys: str | Iterable[str]) -> str:
    """
    Returns the value of ``KEYS``: the keys, joined by one space.

    Args:
        keys: several keys, or one string taken as it is.

    Raises:
        InvalidError: a key of several is empty or holds a space.
    """
    if isinstance(keys, str):
        return keys
    several = tuple(keys)
    for key in several:
        if not key or " " in key:
            raise InvalidError(f"key {key!r} is empty or holds a space")
    return " ".join(several)


def without_crc(raw: bytes) -> bytes:
    """
    Returns *raw* without the CRC property at its end.
    """
    if raw[-CRC_SIZE:].startswith(_CRC_HEAD):
        return raw[:-CRC_SIZE]
    return raw


def tags_code(tags: str | None) -> int:
    """
    Returns the code of *tags* in consume queues: Java's string hash.

    Args:
        tags: the value of ``TAGS``; ``None`` or empty gives 0.
    """
    if not tags:
        return 0
    units = tags.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (code * 31 + (high << 8 | low)) & 0xFFFFFFFF
    return code - ((code & 0x80000000) << 1)


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """
    Returns the delays of ``messageDelayLevel``, in ms, from level 1.

    Args:
        text: numbers with the unit s, m, h or d, separated by one space: ``1s 5m``.

    Raises:
        InvalidError: RocketMQ does not start with this text.
    """
    levels = []
    for level in text.split(" "):
        number = level[:-1]
        if level[-1:] not in _UNITS_MS or not (number.isascii() and number.isdigit()):
            raise InvalidError(
                f"messageDelayLevel {text!r}: {level!r} is no number with the unit "
                "s, m, h or d"
            )
        levels.append(int(number) * _UNITS_MS[level[-1]])
    return tuple(levels)


def delivery_ms(
    topic: str,
    properties: Mapping[str, str],
    store_ms: int,
    *,
    levels_ms: tuple[int, ...] = _DELAYS_MS,
) -> int | None:
    """
    Returns the delivery time of a delayed message, which replaces its tags code.

    Args:
        topic: only messages of the schedule topic are delayed.
        properties: ``DELAY`` is the level, from 1; a level above the last one means
            the last one.
        store_ms: the store time of the record.
        levels_ms: the broker's `parse_delay_levels`.

    Returns:
        Milliseconds since 1970, or ``None`` for a message without delay.
    """
    level = properties.get(DELAY)
    if topic != SCHEDULE_TOPIC or level is None:
        return None
    number = parse_java_int(level) or 0
    if number <= 0:
        return None
    return store_ms + levels_ms[min(number, len(levels_ms)) - 1]
