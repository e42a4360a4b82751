"""
Every way into a log from Python, and what each refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lib.store.logs import SEGMENT_SIZE, make_root, open_log

from pystore.bindings.ffi import POSITION_DTYPE, LocalAck
from pystore.core.log_reader import LogReader
from pystore.core.log_writer import LogHandle
from pystore.core.options import Route
from pystore.errors import (
    CorruptError,
    InvalidError,
    OffsetOutOfRange,
)
from pystore.message.columns import gather_columns
from pystore.message.message import Message

MESSAGE = Message("Topic", b"body", keys="k", tags="t")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogHandle]:
    """
    An empty log, started.
    """
    with open_log(make_root(tmp_path)) as log:
        yield log


def _bytes(log: LogReader) -> bytes:
    return b"".join(block.view for block in log.blocks(0))


def test_appended_records_are_read_back(log: LogHandle) -> None:
    """
    An append returns the offset of the record; a read there gives the message.
    """
    message = Message(
        "Topic", b"body", keys="k", tags="t", properties={"p": "q"}, queue_id=3,
        flag=-1, sys_flag=2, reconsume_times=4, born_ms=5, prepared_offset=6,
        born_host="[1:2:3:4:5:6:7:8]:9",
    )  # fmt: skip

    appended = log.append(message.form)

    record = log.read(appended.offset)
    assert message == record.message()
    assert (0, record.end, 0, record.store_ms, 1) == appended
    assert 0 < record.store_ms


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.builds(
            Message,
            st.sampled_from(["T", "订单", "%RETRY%" + "g" * 200]),
            st.binary(max_size=500),
            queue_id=st.integers(0, 3),
            keys=st.none() | st.text("abc ", min_size=1),
            tags=st.none() | st.text("标签AB", min_size=1),
            flag=st.integers(-(2**31), 2**31 - 1),
            sys_flag=st.sampled_from([0, 1, 2, 4, 8, 12, 0x301]),
            reconsume_times=st.integers(0, 2**31 - 1),
            born_ms=st.integers(1, 2**63 - 1),
            prepared_offset=st.integers(0, 2**63 - 1),
            born_host=st.sampled_from(["1.2.3.4:5", "[1:2:3:4:5:6:7:8]:9"]),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_any_batch_is_read_back(log: LogHandle, messages: list[Message]) -> None:
    """
    Records are the messages, in order, without a gap and of one time.
    """
    positions = np.zeros(len(messages), POSITION_DTYPE)

    appended = log.append_batch(messages, positions=positions)

    at = appended.offset
    for message, position in zip(messages, positions, strict=True):
        record = log.read(at)
        assert message == record.message()
        assert appended.store_ms == record.store_ms
        assert (at, record.offset) == (int(position["offset"]), at)
        if record.sys_flag & 0xC not in (4, 12):  # PREPARED and ROLLBACK have none
            assert record.queue_offset == position["queue_offset"]
        at = record.end
    assert appended.end == at
    assert appended.count == len(messages)


def test_every_way_in_writes_the_same_bytes(tmp_path: Path) -> None:
    """
    Messages, columns and a client batch differ in speed only.
    """
    bodies = [bytes([n]) * n for n in range(50)]
    messages = [
        Message("T", body, keys=f"k{n}", tags="t", queue_id=2, born_ms=7)
        for n, body in enumerate(bodies)
    ]
    columns = gather_columns(
        "T", bodies, keys=[f"k{n}" for n in range(50)], tags=["t"] * 50,
        queue_id=2, born_ms=[7] * 50,
    )  # fmt: skip
    batch = b"".join(message.client_form for message in messages)
    ways: list[Callable[[LogHandle], Any]] = [
        lambda log: [log.append(message.form) for message in messages],
        lambda log: log.append_batch(messages),
        lambda log: log.append_columns(columns),
        lambda log: log.append_client_batch(Route("T", 2, born_ms=7), batch),
        lambda log: log.append_client_batch(
            Route("T", 2, born_ms=7),
            bytearray(batch),  # type: ignore[arg-type]
        ),
    ]

    written = []
    for number, way in enumerate(ways):
        with open_log(make_root(tmp_path / str(number)), property_crc=False) as log:
            way(log)
            records = [log.read(int(at)) for at in _offsets(log)]
            # Only the time of the append may differ.
            written.append(
                [(record.message(), record.queue_offset) for record in records]
            )

    assert 50 == len(written[0])
    assert [written[0]] * len(ways) == written


def _offsets(log: LogReader) -> Any:
    return np.concatenate(list(log.scan(0)))["offset"]


def test_columns_span_segments_and_fill_the_offset_of_each_record(
    log: LogHandle,
) -> None:
    """
    A batch of messages must fit a segment, columns need not.
    """
    bodies = np.zeros((200, 1000), np.uint8)
    positions = np.zeros(200, POSITION_DTYPE)

    appended = log.append_columns(gather_columns("T", bodies), positions=positions)

    assert 200 == appended.count
    assert log.ends().segments > 2
    assert _offsets(log).tolist() == positions["offset"].tolist()
    assert list(range(200)) == positions["queue_offset"].tolist()
    with pytest.raises(InvalidError):
        log.append_batch([Message("T", bytes(1000))] * 200)


def test_the_error_of_refused_columns_has_the_number_of_written_records(
    log: LogHandle,
) -> None:
    """
    Messages that the core refuses leave no record.
    """
    bad = gather_columns("T", [b"a", b"b"], keys=["fine", "se\x02parator"])

    with pytest.raises(InvalidError) as raised:
        log.append_columns(bad)

    assert 0 == raised.value.records_appended
    assert 0 == log.ends().published_end


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (MESSAGE.form[:-1], "message 0"),
        (MESSAGE.form + b"\0", "message 1"),
        (MESSAGE.form + MESSAGE.form[:30], "message 1"),
        ("text", "no message form but str"),
        (None, "no message form but NoneType"),
        (MESSAGE, "no message form but Message"),
        (bytearray(MESSAGE.form), "no message form but bytearray"),
    ],
)
def test_bytes_that_are_no_message_form_are_refused(
    log: LogHandle, form: Any, text: str
) -> None:
    """
    The error names the message, or the type of the argument.
    """
    with pytest.raises(InvalidError, match=text):
        log.append(form)

    assert 0 == log.ends().published_end


def test_a_body_above_the_logs_own_limit_is_refused(tmp_path: Path) -> None:
    """
    A log may allow less than a message does by default.
    """
    with open_log(make_root(tmp_path), message_size_max=10) as log:
        log.append(Message("T", bytes(10)).form)

        with pytest.raises(InvalidError, match="11"):
            log.append(Message("T", bytes(11)).form)


def test_positions_must_be_room_for_positions(log: LogHandle) -> None:
    """
    Other arrays are refused before anything is written.
    """
    frozen = np.zeros(4, POSITION_DTYPE)
    frozen.flags.writeable = False
    for positions in (np.zeros(4), np.zeros(8, POSITION_DTYPE)[::2], frozen):
        with pytest.raises(InvalidError, match="positions"):
            log.append(MESSAGE.form, positions=positions)

    few = np.zeros(1, POSITION_DTYPE)
    log.append_batch([MESSAGE] * 3, positions=few)
    assert [(0, 0)] == few.tolist()
    assert 3 == len(_offsets(log))


def test_a_synced_append_moves_the_synced_end(log: LogHandle) -> None:
    """
    So does a sync, of all or up to an end.
    """
    end = log.append(MESSAGE.form, LocalAck.SYNCED).end
    assert end == log.ends().synced_end

    end = log.append(MESSAGE.form).end
    assert end > log.ends().synced_end
    log.sync(end)
    assert end == log.ends().synced_end
    end = log.append(MESSAGE.form).end
    log.sync()
    assert end == log.ends().synced_end
    with pytest.raises(OffsetOutOfRange):
        log.sync(end + 1)


def test_raw_bytes_make_an_equal_log(log: LogHandle, tmp_path: Path) -> None:
    """
    What a slave receives in pieces of any size becomes the same log.
    """
    for number in range(100):
        log.append(Message("T", bytes(number * 17)).form)
    data = _bytes(log)

    with open_log(make_root(tmp_path / "slave")) as slave:
        received = 0
        for at in range(0, len(data), 777):
            piece = memoryview(data)[at : at + 777]
            received = slave.append_raw(received, piece)
            assert at + len(piece) == received == slave.ends().received_end
            assert slave.ends().published_end <= received

        assert data == _bytes(slave)
        assert _offsets(log).tolist() == _offsets(slave).tolist()
        with pytest.raises(OffsetOutOfRange):
            slave.append_raw(received + 1, b"x")


def test_refused_raw_bytes_are_no_part_of_the_log(log: LogHandle) -> None:
    """An exception keeps no reference to the buffer."""
    room = bytearray(100)
    view = memoryview(room)

    with pytest.raises(OffsetOutOfRange) as caught:
        log.append_raw(1 << 20, view)
    view.release()
    room.clear()
    assert caught.value.offset is not None


def test_raw_bytes_that_are_no_records_are_refused(log: LogHandle) -> None:
    """
    Garbage is never published.
    """
    with pytest.raises(CorruptError):
        log.append_raw(0, b"garbage!" * 20)

    assert 0 == log.ends().published_end


def test_a_roll_begins_the_next_segment(log: LogHandle) -> None:
    """
    A blank record fills the old one.
    """
    log.append(MESSAGE.form)
    log.roll()

    assert SEGMENT_SIZE == log.append(MESSAGE.form).offset
    assert 1 == log.scan(0).finish().blanks
