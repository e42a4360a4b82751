"""
A reply that is encoded before its request arrives. Pure.

Source: formats 3.1, 3.2; docs/remoting.md.
"""

from __future__ import annotations

import struct

from pystore.remoting.command import RemotingCommand
from pystore.remoting.framing import encode_frame
from pystore.remoting.reply import Reply

__all__ = ["PreparedReply"]

_PREFIX = struct.Struct(">iI")
# A quote inside a text is escaped, so no text contains these bytes.
_OPAQUE = b'"opaque":0,"'


class PreparedReply(Reply):
    """
    The same answer to many requests, as to thousands of heartbeats a second: only the
    opaque number is written for each.

    Args:
        reply: the answer.

    Raises:
        InvalidError: it does not fit a frame of the default length.
    """

    __slots__ = ("_head", "_size", "_tail", "_word")

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.code, reply.remark, reply.ext_fields, reply.body)
        frame = encode_frame(self.to(RemotingCommand(0)))
        at = frame.rindex(_OPAQUE, 0, len(frame) - len(reply.body)) + len(_OPAQUE) - 3
        size, word = _PREFIX.unpack_from(frame)
        values = {
            # One digit is removed.
            "_size": size - 1,
            "_word": word - 1,
            "_head": frame[_PREFIX.size : at],
            "_tail": frame[at + 1 :],
        }
        for name, value in values.items():
            # The fields of a reply are frozen, and so are these.
            object.__setattr__(self, name, value)

    _size: int
    _word: int
    _head: bytes
    _tail: bytes

    def frame(self, opaque: int) -> bytes:
        """
        Returns the frame of the answer to the request with this number of 32 bits.
        """
        number = b"%d" % opaque
        count = len(number)
        prefix = _PREFIX.pack(self._size + count, self._word + count)
        return prefix + self._head + number + self._tail
