"""
The form of a request that a peer repeats with other numbers, as its heartbeats. Pure.

To decode one costs several times as much as to receive it, and nearly all of its bytes
are those of the request before. So a form has these bytes and the places of the numbers
that may differ, and of the signature: bytes that fit the form need no decoding. What
the signature covers is put together of the same bytes.

Source: formats 3.1, 3.2; docs/remoting.md.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from pystore.remoting.binding import SEQUENCE
from pystore.remoting.command import RemotingCommand
from pystore.remoting.signature import (
    ACCESS_KEY,
    SIGNATURE,
    UNIQUE_KEY_QUERY,
    signing_order,
)

__all__ = ["FORM_BYTES_MAX", "RepeatedRequest", "RequestForm"]

FORM_BYTES_MAX = 2048
"""The longest request with a form: thousands of connections have one each."""

_PREFIX = struct.Struct(">iI")
_LENGTH_BYTES = 4
_OPAQUE_MIN, _OPAQUE_MAX = -(1 << 31), (1 << 31) - 1
# As JSON has it; any of so many digits fits 64 bits.
_NUMBER = rb"(-?(?:0|[1-9][0-9]{0,17}))"
# HMAC-SHA1 in Base64.
_SIGNED = rb"([A-Za-z0-9+/]{27}=)"
_is_number = re.compile(_NUMBER).fullmatch
_is_signature = re.compile(_SIGNED).fullmatch
_NO_SIGNATURE = -1
_SHAPES_MAX = 256


@lru_cache(_SHAPES_MAX)
def _shape(counts: tuple[int, ...], signature_at: int) -> re.Pattern[bytes]:
    """
    Returns the expression of frames with so many bytes before, between and behind their
    numbers, of which one may be the signature. It compares no bytes, so thousands of
    forms share it.
    """
    text = b"(.{%d})" % counts[0]
    for place, count in enumerate(counts[1:]):
        differs = _SIGNED if place == signature_at else _NUMBER
        text += differs + b"(.{%d})" % count
    return re.compile(text, re.DOTALL)


def _is_whole(frame: bytes) -> bool:
    """
    Returns whether bytes are one frame without a body, with a header in JSON.
    """
    size = len(frame)
    return size >= _PREFIX.size and _PREFIX.unpack_from(frame) == (
        size - _LENGTH_BYTES,
        size - _PREFIX.size,
    )


class RepeatedRequest(NamedTuple):
    """
    What differs in a request that fits a form, and what its signature is about.

    Attributes:
        numbers: the opaque number, then those of the names.
        sequence: its number on the connection; ``None``: it is not bound to it.
        code: of the request.
        user: the access key; empty: it is not signed.
        signature: as received.
        content: what it has to cover.
    """

    numbers: list[int]
    sequence: int | None
    code: int
    user: str
    signature: bytes
    content: bytes


class RequestForm:
    """
    The form of one request. Only whole frames fit, without a body, with a header in
    JSON, and with each number as JSON has it, of 18 digits at most.
    """

    __slots__ = (
        "_code",
        "_content",
        "_is_bound",
        "_match",
        "_order",
        "_pieces",
        "_signature_at",
        "_user",
    )

    def __init__(
        self,
        pieces: tuple[bytes, ...],
        order: list[int],
        request: RemotingCommand,
        names: Sequence[str],
    ) -> None:
        fields = request.ext_fields
        self._code = request.code
        self._pieces = pieces
        # The place of each result among the numbers of the frame.
        self._order = order
        self._is_bound = SEQUENCE in fields
        self._signature_at, self._user = _NO_SIGNATURE, ""
        self._content: list[bytes | int] = []
        if SIGNATURE in fields:
            self._signature_at = self._order.pop()
            self._user = fields.get(ACCESS_KEY, "")
            # The opaque number is the first, and no field.
            self._content = _content(
                request, dict(zip(names[:-1], self._order[1:], strict=True))
            )
        self._match = _shape(tuple(map(len, pieces)), self._signature_at).fullmatch

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
        fields = request.ext_fields
        if UNIQUE_KEY_QUERY in fields:
            # Whether it is signed depends on the version.
            return None
        differ = [*names, *(one for one in (SEQUENCE, SIGNATURE) if one in fields)]
        texts = [(b'"opaque"', b":", b"%d" % request.opaque, b",")]
        for name in differ:
            text = fields.get(name, "").encode("utf-8", "replace")
            texts.append((b'"%s"' % name.encode(), b':"', text, b'"'))
        found: list[tuple[int, int, int]] = []
        for index, (quoted, before, text, after) in enumerate(texts):
            at = frame.find(quoted + before) + len(quoted + before)
            end = at + len(text)
            is_signature = index > 0 and differ[index - 1] == SIGNATURE
            fits = _is_signature(text) if is_signature else _is_number(text)
            stands = frame[at : end + 1] == text + after
            if not (stands and fits) or frame.count(quoted) != 1:
                return None
            found.append((at, end, index))
        pieces, begin = [], _PREFIX.size
        for at, end, _ in sorted(found):
            pieces.append(frame[begin:at])
            begin = end
        places = {index: place for place, (_, _, index) in enumerate(sorted(found))}
        order = [places[index] for index in range(len(found))]
        return RequestForm((*pieces, frame[begin:]), order, request, differ)

    def read(self, frame: bytes) -> RepeatedRequest | None:
        """
        Returns what differs in a frame; ``None``: the frame does not fit the form.

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
        texts = parts[1::2]
        numbers = [int(texts[place]) for place in self._order]
        if not _OPAQUE_MIN <= numbers[0] <= _OPAQUE_MAX:
            return None
        sequence = numbers.pop() if self._is_bound else None
        if self._signature_at == _NO_SIGNATURE:
            return RepeatedRequest(numbers, sequence, self._code, "", b"", b"")
        content = b"".join(
            [texts[one] if isinstance(one, int) else one for one in self._content]
        )
        signature = texts[self._signature_at]
        return RepeatedRequest(
            numbers, sequence, self._code, self._user, signature, content
        )


def _content(request: RemotingCommand, places: dict[str, int]) -> list[bytes | int]:
    """
    Returns what the signature covers: bytes, and the places of what differs.
    """
    found: list[bytes | int] = []
    for name in signing_order(request.ext_fields):
        if name in places:
            found.append(places[name])
        elif name != SIGNATURE:
            value = request.ext_fields[name].encode("utf-8", "replace")
            if found and isinstance(found[-1], bytes):
                found[-1] += value
            else:
                found.append(value)
    return found
