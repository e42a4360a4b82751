"""
Encodes commands as frames, and decodes frames from any pieces of a stream. Pure.

A frame is its length, a byte for the serialisation, three for the length of the
header, the header, and a body that may be empty.

Source: formats 3.1; docs/remoting.md.
"""

from __future__ import annotations

import struct

from pystore.errors import InvalidError, RemoteViolation
from pystore.remoting.binary_header import decode_binary_header, encode_binary_header
from pystore.remoting.codes import (
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    Serialisation,
)
from pystore.remoting.command import RemotingCommand
from pystore.remoting.json_header import decode_json_header, encode_json_header

__all__ = ["CommandReader", "encode_frame"]

_LENGTH = struct.Struct(">i")
_PREFIX = struct.Struct(">iI")
_HEADER_SIZE_BITS = 24
_HEADER_SIZE_MASK = (1 << _HEADER_SIZE_BITS) - 1
_COMPACT_BYTES = 64 << 10
_DECODERS = {
    int(Serialisation.JSON): decode_json_header,
    int(Serialisation.ROCKETMQ): decode_binary_header,
}


def encode_frame(
    command: RemotingCommand, frame_bytes_max: int = FRAME_BYTES_MAX
) -> bytes:
    """
    Returns the frame of a command.

    Raises:
        InvalidError: the frame is too long, or a field cannot be encoded.
    """
    if command.serialisation is Serialisation.JSON:
        header = encode_json_header(command)
    else:
        header = encode_binary_header(command)
    size = _PREFIX.size + len(header) + len(command.body)
    if size > frame_bytes_max or len(header) > _HEADER_SIZE_MASK:
        raise InvalidError(
            f"the frame of command {command.code} has {size} bytes: at most "
            f"{frame_bytes_max} are allowed"
        )
    word = command.serialisation << _HEADER_SIZE_BITS | len(header)
    return _PREFIX.pack(size - _LENGTH.size, word) + header + command.body


class CommandReader:
    """
    Decodes received bytes to commands: `feed` the bytes, then `take` until ``None``.

    It buffers only bytes that were fed, and never allocates memory for the length that
    a frame announces. After an invalid frame each further `take` raises the same error.

    Args:
        frame_bytes_max: the longest frame, with its length field.
        header_bytes_max: the longest header.
    """

    def __init__(
        self,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        header_bytes_max: int = HEADER_BYTES_MAX,
    ) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._header_bytes_max = header_bytes_max
        self._buffer = bytearray()
        self._start = 0
        self._violation = ""

    @property
    def held(self) -> int:
        """
        The number of bytes that were fed and not taken.
        """
        return len(self._buffer) - self._start

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """
        Adds received bytes.
        """
        if not self._violation:
            self._buffer += data

    def drop(self) -> None:
        """
        Drops the bytes that were not taken: no more will be read.
        """
        self._buffer, self._start = bytearray(), 0

    def take(self) -> RemotingCommand | None:
        """
        Returns the next command; ``None`` if more bytes are needed.

        Raises:
            RemoteViolation: the bytes are not a frame.
        """
        if self._violation:
            raise RemoteViolation(self._violation)
        if len(self._buffer) - self._start < _LENGTH.size:
            return None
        try:
            return self._take()
        except RemoteViolation as violation:
            # The start of the next frame is unknown. Only the text is kept: the error
            # refers to this object, which would live until the next collection.
            self._violation = str(violation)
            self.drop()
            raise

    def _take(self) -> RemotingCommand | None:
        held = len(self._buffer) - self._start
        size = _LENGTH.unpack_from(self._buffer, self._start)[0] + _LENGTH.size
        if not _PREFIX.size <= size <= self._frame_bytes_max:
            raise RemoteViolation(
                f"a frame of {size} bytes: {_PREFIX.size} to {self._frame_bytes_max} "
                f"are allowed{_guess(self._buffer, self._start)}"
            )
        if held < _PREFIX.size:
            return None
        _, word = _PREFIX.unpack_from(self._buffer, self._start)
        number = word >> _HEADER_SIZE_BITS
        decode = _DECODERS.get(number)
        if decode is None:
            # A later version, or not a frame.
            raise RemoteViolation(
                f"a header in serialisation {number}: 0 (JSON) and 1 (ROCKETMQ) are "
                "supported"
            )
        header_size = word & _HEADER_SIZE_MASK
        if header_size > size - _PREFIX.size:
            raise RemoteViolation(
                f"a header of {header_size} bytes in a frame of {size}"
            )
        if header_size > self._header_bytes_max:
            raise RemoteViolation(
                f"a header of {header_size} bytes: {self._header_bytes_max} are allowed"
            )
        if held < size:
            return None
        return decode(*self._parts(header_size, size))

    def _parts(self, header_size: int, size: int) -> tuple[bytes, bytes]:
        """
        Removes a frame from the buffer, and returns its header and its body.
        """
        body_at = self._start + _PREFIX.size + header_size
        with memoryview(self._buffer) as view:
            header = bytes(view[self._start + _PREFIX.size : body_at])
            body = bytes(view[body_at : self._start + size])
        self._start += size
        if self._start == len(self._buffer) or self._start >= _COMPACT_BYTES:
            del self._buffer[: self._start]
            self._start = 0
        return header, body


def _guess(buffer: bytearray, start: int) -> str:
    """
    Returns a guess of another protocol from the first bytes, for the log line.
    """
    first = bytes(buffer[start : start + 4])
    if first[:2] == b"\x16\x03":
        return "; it looks like TLS, which is not supported"
    if first in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "; it looks like HTTP"
    return ""
