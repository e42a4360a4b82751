"""
Lines of text as columns, for the command `append` and the demo. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Strings", "read_lines", "repeat", "split_lines"]

CHUNK_BYTES = 1 << 20

Strings: TypeAlias = tuple[NDArray[np.int64], bytes]
"""
A column of strings for an append: offsets, one more than there are strings, and
the strings without gaps.
"""


def split_lines(content: bytes) -> Strings:
    """
    Returns the lines of *content* without their newlines.

    A blank line is an empty string. Bytes after the last newline are a line, if there
    are any.
    """
    if content and not content.endswith(b"\n"):
        content += b"\n"
    ends = np.flatnonzero(np.frombuffer(content, np.uint8) == ord("\n"))
    offsets = np.zeros(len(ends) + 1, np.int64)
    offsets[1:] = ends - np.arange(len(ends))
    return offsets, content.replace(b"\n", b"")


def repeat(value: bytes, count: int) -> Strings:
    """
    Returns a column of *count* equal strings.
    """
    return np.arange(count + 1, dtype=np.int64) * len(value), value * count


def read_lines(
    read: Callable[[int], bytes | None], chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Strings]:
    """
    Yields the lines of a stream, several at a time.

    Args:
        read: returns up to the given number of bytes; empty at the end. ``None`` ends
            the stream at once, without an incomplete last line.
        chunk_bytes: the argument of *read*.
    """
    parts: list[bytes] = []
    while True:
        data = read(chunk_bytes)
        if data is None:
            return
        if not data:
            break
        cut = data.rfind(b"\n") + 1
        if not cut:  # a long line: joined once, when it ends
            parts.append(data)
            continue
        yield split_lines(b"".join((*parts, data[:cut])))
        parts = [data[cut:]]
    if rest := b"".join(parts):
        yield split_lines(rest)
