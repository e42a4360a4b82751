"""
Reading for the control socket: whole records up to the confirm offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pystore.broker.control_read import ReadLines, read_log, read_queue
from pystore.errors import CorruptError, InvalidError, OffsetOutOfRange
from pystore.message.message import Message
from pystore.store.retention import Retention
from pystore.store.store import Store

SEGMENT = 1 << 14
BODIES = [b"%d " % number * (number % 400) for number in range(300)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """
    A store of several segments, with two queues.
    """
    with Store(tmp_path / "s", segment_size=SEGMENT, until_confirmed=True) as store:
        for number, body in enumerate(BODIES):
            store.log.append(Message("t", body, queue_id=number % 2))
        yield store


def confirm(store: Store, offset: int) -> None:
    """
    Moves the confirm offset, as a master or a slave does.
    """
    store.log.writer.log.confirm(offset)


def values(found: ReadLines) -> list[dict[str, Any]]:
    """
    The records.
    """
    return [json.loads(line) for line in found.lines]


def offsets_of(store: Store) -> list[int]:
    """
    Where each record is.
    """
    return [int(offset) for rows in store.log.scan() for offset in rows["offset"]]


@pytest.mark.parametrize("bytes_max", [1, 500, 5_000, 1 << 20])
def test_each_confirmed_record_is_read_once(store: Store, bytes_max: int) -> None:
    """
    Over segments with a blank record at the end, for any size of an answer.
    """
    confirm(store, store.log.end_offset)
    found: list[dict[str, Any]] = []
    offset = 0
    while (part := read_log(store, offset, bytes_max, bodies=True)).lines:
        read = values(part)
        assert len(read) == 1 or sum(one["size"] for one in read) <= bytes_max
        found += read
        offset = part.next_offset

    assert store.log.end_offset == part.next_offset == part.confirm_offset
    assert offsets_of(store) == [one["offset"] for one in found]
    assert BODIES == [one["body"].encode() for one in found]


def test_nothing_above_the_confirm_offset_is_read(store: Store) -> None:
    """
    For each confirm offset: the records below it, and no other.
    """
    offsets = offsets_of(store)
    for count in range(0, len(BODIES), 7):
        confirm(store, offsets[count])
        found: list[int] = []
        offset = 0
        while (part := read_log(store, offset, 1 << 20, bodies=False)).lines:
            found += [one["offset"] for one in values(part)]
            offset = part.next_offset
        assert offsets[:count] == found
        # A blank record may lie between.
        assert part.next_offset <= offsets[count] == part.confirm_offset
        assert all("body" not in one for one in values(part))


@pytest.mark.parametrize("where", ["inside", "above the end", "above confirm"])
def test_an_offset_that_is_no_record_is_refused(store: Store, where: str) -> None:
    """
    With the range, or as a mistake of the caller.
    """
    offsets = offsets_of(store)
    confirm(store, offsets[5])
    offset, error = {
        "inside": (offsets[2] + 1, InvalidError),
        "above the end": (store.log.end_offset + 1, OffsetOutOfRange),
        "above confirm": (offsets[6], OffsetOutOfRange),
    }[where]
    with pytest.raises(error):
        read_log(store, offset, 1 << 20, bodies=True)


def test_an_empty_log_has_no_records(tmp_path: Path) -> None:
    """
    Its beginning is a valid offset.
    """
    with Store(tmp_path / "s", segment_size=SEGMENT) as store:
        assert ReadLines([], 0, 0) == read_log(store, 0, 1, bodies=True)


def test_damage_is_an_error_with_its_offset(store: Store) -> None:
    """
    The records before it are read.
    """
    offsets = offsets_of(store)
    confirm(store, store.log.end_offset)
    with (store.path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(offsets[8] + 92)  # in its body
        file.write(b"\xff")
    before = read_log(store, 0, offsets[8], bodies=True)
    assert offsets[:8] == [one["offset"] for one in values(before)]
    with pytest.raises(CorruptError) as caught:
        read_log(store, offsets[8], 1 << 20, bodies=True)
    assert offsets[8] == caught.value.offset


@pytest.mark.parametrize("bytes_max", [1, 500, 1 << 20])
def test_a_queue_is_read_in_its_order(store: Store, bytes_max: int) -> None:
    """
    From any queue offset on, to the end.
    """
    confirm(store, store.log.end_offset)
    found: list[dict[str, Any]] = []
    at = 3
    while (part := read_queue(store, ("t", 1), at, bytes_max, bodies=True)).lines:
        found += values(part)
        at = part.next_offset

    assert BODIES[1::2][3:] == [one["body"].encode() for one in found]
    assert list(range(3, 150)) == [one["queueOffset"] for one in found]


def test_a_queue_ends_at_the_confirm_offset(store: Store) -> None:
    """
    Its entries may go further: closing a store writes all of them.
    """
    offsets = offsets_of(store)
    confirm(store, offsets[51])
    store.close()
    with Store(store.path, until_confirmed=True) as again:
        assert offsets[51] == again.log.confirm_offset
        assert (0, 150) == again.queue_range("t", 0)
        for queue_id, count in ((0, 26), (1, 25)):
            found = read_queue(again, ("t", queue_id), 0, 1 << 20, bodies=False)
            read = [one["offset"] for one in values(found)]
            assert offsets[queue_id:51:2] == read
            assert count == found.next_offset


def test_a_queue_begins_with_its_first_record(store: Store) -> None:
    """
    Also after its first segments were deleted.
    """
    confirm(store, store.log.end_offset)
    store.retain(Retention(total_bytes_max=3 * SEGMENT), 0)
    first, last = store.queue_range("t", 0)
    assert 0 < first
    found = read_queue(store, ("t", 0), None, 1 << 20, bodies=False)
    assert list(range(first, last)) == [one["queueOffset"] for one in values(found)]
    with pytest.raises(OffsetOutOfRange):
        read_queue(store, ("t", 0), first - 1, 1, bodies=False)


@pytest.mark.parametrize(
    ("queue", "at"), [(("u", 0), 0), (("t", 9), 0), (("t", 0), 151), (("t", 0), -1)]
)
def test_a_queue_offset_that_does_not_exist_is_refused(
    store: Store, queue: tuple[str, int], at: int
) -> None:
    """
    Or the queue.
    """
    confirm(store, store.log.end_offset)
    with pytest.raises(OffsetOutOfRange):
        read_queue(store, queue, at, 1, bodies=True)
