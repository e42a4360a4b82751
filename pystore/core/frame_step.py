"""
Frames of a link in step: each is appended and acked in one call of the core.

A link is in step while each of its frames has one block, which begins where the log of
the slave ends, and otherwise the fields of the frame before.

An `all` of the master waits for nothing else of a slave, so the way from the received
bytes to those of the ack is as short as possible.

Source: csrc/append_frame.h.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from pystore.bindings.ffi import borrow, fail, ffi, give_back, lib
from pystore.core.results import Ends, ends_of

if TYPE_CHECKING:
    from pystore.core.log_writer import LogHandle

__all__ = ["FAR_BEHIND_BYTES", "FrameLabel", "FrameStep", "SteppedFrame"]

FAR_BEHIND_BYTES: int = lib.PS_FAR_BEHIND
"""A slave this many bytes behind does not count yet: none of its acks is urgent."""

_ps_append_frame = lib.ps_log_append_frame
_OUT = struct.Struct("=qqqQQ")


class FrameLabel(NamedTuple):
    """
    What a frame must have in common with the one before.

    Attributes:
        session_epoch: of its header.
        epoch: of the block.
        epoch_start: where that epoch begins.
        session_id: of the handshake.
        frame_bytes_max: the longest frame of the session.
    """

    session_epoch: int
    epoch: int
    epoch_start: int
    session_id: int
    frame_bytes_max: int


class SteppedFrame(NamedTuple):
    """
    What else a frame has.

    Attributes:
        sent_ms: the master's clock.
        confirm_offset: of the master.
        end_offset: of its log.
        offset: where the block begins.
        block_size: bytes of the block.
    """

    sent_ms: int
    confirm_offset: int
    end_offset: int
    offset: int
    block_size: int


class FrameStep:
    """
    Appends the frames of one label. One thread.

    Args:
        log: open for writing.
        label: of the frames.

    Attributes:
        label: of the frames.
    """

    __slots__ = ("_ack", "_ends", "_ends_bytes", "_log", "_out", "_step", "label")

    def __init__(self, log: LogHandle, label: FrameLabel) -> None:
        self.label = label
        self._log = log
        self._step = step = ffi.new("ps_step *")
        step.session_epoch, step.block_epoch = label.session_epoch, label.epoch
        step.epoch_start, step.session_id = label.epoch_start, label.session_id
        step.frame_bytes_max = label.frame_bytes_max
        self._ends = ffi.new("ps_ends *")
        self._ends_bytes = ffi.buffer(self._ends)
        self._ack = ffi.buffer(step.ack)
        self._out = ffi.buffer(ffi.addressof(step, "sent_ms"), _OUT.size)

    def append(self, data: memoryview, now_ms: int) -> bytes | None:
        """
        Appends the block of a frame, and returns the ack.

        Args:
            data: what was received.
            now_ms: the send time of the ack.

        Returns:
            ``None`` if the data is not one frame of the label and no byte more, whose
            block goes on where the log ends, or if the log is `FAR_BEHIND_BYTES` behind
            with it: nothing was done.

        Raises:
            PystoreError: as ``LogHandle.append_raw``.
        """
        step = self._step
        step.now_ms = now_ms
        scratch = borrow()
        given = ffi.from_buffer("uint8_t[]", data)
        try:
            status = _ps_append_frame(
                self._log.pointer,
                given,
                len(data),
                step,
                self._ends,
                scratch.count,
                scratch.error,
            )
        finally:
            ffi.release(given)
        if status:
            fail(status, scratch.error, self._log.path)
        is_taken = scratch.count[0]
        give_back(scratch)
        return self._ack[:] if is_taken else None

    @property
    def frame(self) -> SteppedFrame:
        """
        The frame that was appended last, or failed.
        """
        return SteppedFrame._make(_OUT.unpack(self._out))

    @property
    def ends(self) -> Ends:
        """
        The ends of the log after the last append.
        """
        return ends_of(self._ends_bytes)
