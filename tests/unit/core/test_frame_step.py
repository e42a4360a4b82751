"""
Frames in step, through the core: what the slave's protocol would have made of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, fill

from pystore._core import lib
from pystore.core.frame_step import FAR_BEHIND_BYTES, FrameLabel, FrameStep
from pystore.errors import ClosedError, CorruptError
from pystore.ha.wire.codes import AckFlag, AckStatus
from pystore.ha.wire.decoder import take_frame
from pystore.ha.wire.frames import Frame, TransferAck
from pystore.ha.wire.v3 import ACK_BYTES, DATA_BYTES_MIN, data_head
from pystore.store.commit_log import CommitLog

LABEL = FrameLabel(7, 6, 0, 99, 1 << 20)


def frame_of(block: bytes, offset: int, **changes: int) -> memoryview:
    """
    A frame of the label.
    """
    fields = {"end_offset": offset + len(block), "confirm_offset": offset} | changes
    head = data_head(
        epoch=LABEL.session_epoch,
        sent_ms=1234,
        label=(LABEL.epoch, LABEL.epoch_start),
        block=(offset, len(block)),
        session_id=LABEL.session_id,
        flags=fields.pop("flags", 0),
        **fields,
    )
    return memoryview(head + block)


@pytest.fixture
def blocks(tmp_path: Path) -> list[tuple[int, bytes]]:
    """
    Records of another log, with their offsets.
    """
    with CommitLog(tmp_path / "source", segment_size=SEGMENT) as source:
        offsets = [*fill(source, 5), source.end_offset]
        reader = source.writer.log
        return [
            (at, bytes(reader.acquire(at, until - at)))
            for at, until in pairwise(offsets)
        ]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    """
    An empty log.
    """
    with CommitLog(tmp_path / "replica", segment_size=SEGMENT) as opened:
        yield opened


def test_the_layout_is_that_of_the_core() -> None:
    """
    One number each, at both sides of the seam.
    """
    assert (ACK_BYTES, DATA_BYTES_MIN) == (lib.PS_TRANSFER_ACK_BYTES, lib.PS_DATA_HEAD)
    assert int(AckStatus.POISONED) == lib.PS_TRANSFER_ACK_POISONED


def test_an_ack_of_the_core_is_one_of_the_protocol(
    log: CommitLog, blocks: list[tuple[int, bytes]]
) -> None:
    """
    Field by field, for each frame.
    """
    step = FrameStep(log.writer.log, LABEL)
    for offset, block in blocks:
        end = offset + len(block)
        ack = step.append(frame_of(block, offset), 4321)

        assert ack is not None
        ends = step.ends
        body = TransferAck(
            session_id=99,
            received_offset=end,
            flushed_offset=ends.synced_end,
            confirm_offset=ends.confirm_offset,
            echo_ms=1234,
            echo_end_offset=end,
            status=AckStatus.OK,
            flags=AckFlag(0),
        )
        assert (Frame(7, 4321, body), ACK_BYTES) == take_frame(memoryview(ack))
        assert (1234, offset, end, offset, len(block)) == step.frame
        assert ends.published_end == end == log.end_offset


def test_a_frame_that_is_not_in_step_is_left_to_the_caller(
    log: CommitLog, blocks: list[tuple[int, bytes]]
) -> None:
    """
    Another offset, a flag, a checksum, two frames, a part of one, a log far behind.
    """
    step = FrameStep(log.writer.log, LABEL)
    (offset, block), (following, other) = blocks[:2]
    whole = frame_of(block, offset)
    others = [
        frame_of(other, following),
        frame_of(block, offset, flags=1),
        frame_of(block, offset, crc=1),
        frame_of(block, offset, end_offset=len(block) - 1),
        frame_of(block, offset, end_offset=len(block) + FAR_BEHIND_BYTES),
        frame_of(b"", offset),
        memoryview(bytes(whole) + bytes(frame_of(other, following))),
        whole[:-1],
        whole[:3],
        whole[:0],
    ]

    assert [None] * len(others) == [step.append(one, 1) for one in others]
    assert log.end_offset == 0
    assert step.append(whole, 1) is not None


def test_a_bad_block_raises_the_error_of_the_log(
    log: CommitLog, blocks: list[tuple[int, bytes]]
) -> None:
    """
    The frame says which block it was.
    """
    step = FrameStep(log.writer.log, LABEL)
    offset, block = blocks[0]
    bad = bytearray(block)
    bad[4] ^= 1

    with pytest.raises(CorruptError):
        step.append(frame_of(bytes(bad), offset), 1)

    assert (offset, len(block)) == (step.frame.offset, step.frame.block_size)


def test_a_closed_log_takes_no_frame(
    tmp_path: Path, blocks: list[tuple[int, bytes]]
) -> None:
    """
    As any append.
    """
    log = CommitLog(tmp_path / "closed", segment_size=SEGMENT)
    step = FrameStep(log.writer.log, LABEL)
    log.close()

    with pytest.raises(ClosedError):
        step.append(frame_of(blocks[0][1], 0), 1)
