"""
The form of a request that a peer repeats with other numbers, as its heartbeats. Pure.

To decode one costs several times as much as to receive it, and nearly all of its bytes
are those of the request before. So a form has these bytes and the places of the numbers
that may differ: bytes that fit the form need no decoding.

Source: formats 3.1, 3.2; docs/remoting.md.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import lru_cache

from pystore.remoting.command import RemotingCommand

__all__ = ["FORM_BYTES_MAX", "RequestForm"]

FORM_BYTES_MAX = 2048
"""The longest request with a form: thousands of connections have one each."""

_PREFIX = struct.Struct(">iI")
_LENGTH_BYTES = 4
_OPAQUE_MIN, _OPAQUE_MAX = -(1 << 31), (1 << 31) - 1
# As JSON has it; any of so many digits fits 64 bits.
_NUMBER = rb"(-?(?:0|[1-9][0-9]{0,17}))"
_is_number = re.compile(_NUMBER).fullmatch
_SHAPES_MAX = 256


@lru_cache(_SHAPES_MAX)
def _shape(counts: tuple[int, ...]) -> re.Pattern[bytes]:
    """
    Returns the expression of frames with so many bytes before, between and behind their
    numbers. It compares no bytes, so thousands of forms share it.
    """
    return re.compile(_NUMBER.join(b"(.{%d})" % one for one in counts), re.DOTALL)


def _is_whole(frame: bytes) -> bool:
    """
    Returns whether bytes are one frame without a body, with a header in JSON.
    """
    size = len(frame)
    return size >= _PREFIX.size and _PREFIX.unpack_from(frame) == (
        size - _LENGTH_BYTES,
        size - _PREFIX.size,
    )


class RequestForm:
    """
    The form of one request. Only whole frames fit, without a body, with a header in
    JSON, and with each number as JSON has it, of 18 digits at most.
    """

    __slots__ = ("_match", "_order", "_pieces")

    def __init__(self, pieces: tuple[bytes, ...], order: list[int]) -> None:
        self._pieces = pieces
        # The place of each result among the numbers of the frame.
        self._order = order
        self._match = _shape(tuple(map(len, pieces))).fullmatch

    @staticmethod
    def of(
        frame: bytes, request: RemotingCommand, names: Sequence[str]
    ) -> RequestForm | None:
        """
        Returns the form of a request; ``None``: it has none.

        Args:
            frame: the received bytes, perhaps of several requests.
            request: the first one in these bytes.
            names: of the fields whose numbers may differ.
        """
        # Without escapes, a quote is the begin or the end of a text, so a name between
        # quotes stands nowhere else.
        if len(frame) > FORM_BYTES_MAX or not _is_whole(frame) or b"\\" in frame:
            return None
        texts = [(b'"opaque"', b":", b"%d" % request.opaque, b",")]
        for name in names:
            digits = request.ext_fields.get(name, "").encode()
            texts.append((b'"%s"' % name.encode(), b':"', digits, b'"'))
        found: list[tuple[int, int, int]] = []
        for index, (quoted, before, digits, after) in enumerate(texts):
            at = frame.find(quoted + before) + len(quoted + before)
            end = at + len(digits)
            stands = frame[at : end + 1] == digits + after
            if not (stands and _is_number(digits)) or frame.count(quoted) != 1:
                return None
            found.append((at, end, index))
        pieces, begin = [], _PREFIX.size
        for at, end, _ in sorted(found):
            pieces.append(frame[begin:at])
            begin = end
        order = [sorted(found).index(one) for one in found]
        return RequestForm((*pieces, frame[begin:]), order)

    def numbers(self, frame: bytes) -> list[int] | None:
        """
        Returns the numbers of a frame: the opaque number, then those of the names;
        ``None``: the frame does not fit the form.

        Args:
            frame: the received bytes, perhaps of another frame, or of several.
        """
        if not _is_whole(frame):
            return None
        match = self._match(frame, _PREFIX.size)
        if match is None:
            return None
        parts = match.groups()
        if parts[::2] != self._pieces:
            return None
        digits = parts[1::2]
        found = [int(digits[place]) for place in self._order]
        return found if _OPAQUE_MIN <= found[0] <= _OPAQUE_MAX else None
