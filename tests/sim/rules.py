"""
Rules that are checked where bytes leave a process: no history would show that one is
broken until other parts of the product fail, too.
"""

from __future__ import annotations

from collections.abc import Callable

from sim.kernel import Kernel

from pystore.ha.slave.replica_log import ReplicaLog
from pystore.ha.slave.transport import MasterStream
from pystore.ha.wire.codes import FRAME_BYTES_MAX
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import TransferAck
from pystore.metastore.schema import PROMISED

__all__ = ["watch_acks"]


def watch_acks(kernel: Kernel, log: Callable[[], ReplicaLog | None]) -> None:
    """
    A slave acks an epoch that it has promised durably, and flushed bytes that are on
    its disk (B6, B9).

    Args:
        kernel: of this process.
        log: returns the log of its node.
    """
    real = MasterStream.send

    def send(stream: MasterStream, data: bytes) -> None:
        frame, _ = take_frame(memoryview(data), FRAME_BYTES_MAX)
        opened = log()
        if opened is not None and frame and isinstance(frame.body, TransferAck):
            now, body = opened.log(), frame.body
            if opened.writer.metastore.read(PROMISED) < frame.epoch:
                kernel.say("defect", f"B6: an ack of {frame} without a promise: {now}")
            if now.flushed_offset < body.flushed_offset:
                kernel.say("defect", f"B9: {frame} is not on disk: {now}")
            if now.received_offset < body.received_offset:
                kernel.say("defect", f"B9: {frame} was not received: {now}")
        real(stream, data)

    MasterStream.send = send  # type: ignore[method-assign,assignment]
