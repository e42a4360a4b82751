"""
Text and numbers as Java reads them, because RocketMQ does. Pure.

Source: ``String(byte[], UTF_8)`` and ``Integer.parseInt`` of Java 17.
"""

from __future__ import annotations

import codecs
import re

__all__ = ["decode_java", "parse_java_int"]

_SURROGATE_FIRST = 0xED
_REPLACE_SURROGATES = "pystore-java"
# Java asks each UTF-16 unit for its decimal value, so digits above U+FFFF are none.
_INTEGER = re.compile("[+-]?[^\\D\U00010000-\U0010ffff]+")


def decode_java(raw: bytes) -> str:
    """
    Returns UTF-8 as text; each malformed part is one U+FFFD, as in Java.

    It differs from Python's ``replace`` in surrogates (U+D800 to U+DFFF): their three
    bytes are one part.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        # Good text is nearly all there is, and the strict decoder is the fastest.
        return raw.decode("utf-8", _REPLACE_SURROGATES)


def parse_java_int(text: str) -> int | None:
    """
    Returns the value of ``Integer.parseInt``; ``None`` where it throws.
    """
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -(2**31) <= value < 2**31 else None


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    raw, at = error.object, error.start
    if raw[at] != _SURROGATE_FIRST or raw[at + 1 : at + 2] < b"\xa0":
        return "\ufffd", error.end
    end = at + 1
    while end < min(at + 3, len(raw)) and raw[end] & 0xC0 == 0x80:
        end += 1
    return "\ufffd", end


codecs.register_error(_REPLACE_SURROGATES, _replace)
