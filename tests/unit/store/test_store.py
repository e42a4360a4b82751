"""
`Store`: the log read by topic, queue, tag and time.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lib.oracle.golden_data import STORES, GoldenStore
from lib.store.stores import SEGMENT, message

from pystore.errors import InvalidError, OffsetOutOfRange
from pystore.message.message import Message
from pystore.metastore.schema import QUEUES
from pystore.store.retention import Retention
from pystore.store.store import Store

HOUR_MS = 3_600_000


def _fill(store: Store, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        store.log.append(message(number))


def test_a_record_is_found_by_topic_queue_and_queue_offset(tmp_path: Path) -> None:
    """
    Appended records can be read at once, also by another process.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        _fill(store, 30)

        assert message(7).body == store.read("Topic", 1, 2).body
        found = store.read_from("Topic", 0, 2, 100)
        assert [message(i).body for i in range(6, 30, 3)] == [r.body for r in found]
        store.keep()
        with Store(root, mode="r") as reader:
            assert message(7).body == reader.read("Topic", 1, 2).body


def test_a_large_record_is_found_by_its_queue_offset_too(tmp_path: Path) -> None:
    """
    A record larger than the scratch is read by a second call.
    """
    body = bytes(range(256)) * 200
    with Store(tmp_path / "store", segment_size=SEGMENT * 64) as store:
        store.log.append(Message("T", body))

        assert body == store.read("T", 0, 0).body
        assert body == store.read("T", 0, 0).body


def test_an_object_that_is_no_message_is_refused_by_its_type(tmp_path: Path) -> None:
    """
    New users often pass bytes.
    """
    with Store(tmp_path / "store", segment_size=SEGMENT) as store:
        with pytest.raises(InvalidError, match="bytes is no Message"):
            store.log.append(b"body")  # type: ignore[arg-type]
        with pytest.raises(InvalidError, match="bytes is no Message"):
            store.log.append_batch([b"body"])  # type: ignore[list-item]
        with pytest.raises(InvalidError, match="ack 'all'"):
            store.log.append(message(1), "all")  # type: ignore[arg-type]

        assert 0 == store.log.end_offset


def test_records_are_found_by_tag_not_by_its_hash(tmp_path: Path) -> None:
    """
    ``Aa`` and ``BB`` have one hash code; the tag itself decides.
    """
    with Store(tmp_path / "store", segment_size=SEGMENT) as store:
        for number, tag in enumerate(["Aa", "BB", "Aa", "C"]):
            store.log.append(Message("T", bytes([number]), tags=tag))

        assert [b"\0", b"\2"] == [r.body for r in store.find_tag("T", 0, "Aa")]
        assert [b"\1"] == [r.body for r in store.find_tag("T", 0, "BB")]


def test_a_queue_is_found_by_time(tmp_path: Path) -> None:
    """
    The first record stored at or after a time, and the end for a later one.
    """
    with Store(tmp_path / "store", segment_size=SEGMENT) as store:
        _fill(store, 30)
        at = store.read("Topic", 0, 4).store_ms

        found = store.offset_at_time("Topic", 0, at)
        assert at == store.read("Topic", 0, found).store_ms
        assert found <= 4
        assert 10 == store.offset_at_time("Topic", 0, at + HOUR_MS)


def test_a_queue_that_is_not_there_is_named(tmp_path: Path) -> None:
    """
    Topic and queue are in the message.
    """
    with (
        Store(tmp_path / "store", segment_size=SEGMENT) as store,
        pytest.raises(OffsetOutOfRange, match="Nobody, queue 7"),
    ):
        store.read("Nobody", 7, 0)


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.name)
def test_queues_of_golden_stores_are_rebuilt_as_java_has_them(
    store: GoldenStore, tmp_path: Path
) -> None:
    """
    Opened and dispatched by us, every queue equals Java's after its start.
    """
    root = store.extract(tmp_path)
    with Store(root) as opened:
        lowest = opened.log.min_offset
        found = {
            f"{queue.topic}/{queue.queue_id}": [
                list(entry.item())
                for entry in queue.entries(queue.first_index(lowest), 1 << 20)
            ]
            for queue in opened.queues
        }

    expected = store.expected["consumeQueues"]
    assert {key: queue["entries"] for key, queue in expected.items()} == found


def test_queues_are_rebuilt_when_they_vanish(tmp_path: Path) -> None:
    """
    Another program removed the queues: they are made again from the log.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        _fill(store, 300)
    shutil.rmtree(root / "consumequeue")

    with Store(root) as store:
        assert message(299).body == store.read("Topic", 299 % 3, 99).body
        assert "entries were left" in store.log.recovery.foreign[0]


def test_a_cut_removes_queue_entries(tmp_path: Path) -> None:
    """
    After a cut the queues end with the log and continue there.
    """
    with Store(tmp_path / "store", segment_size=SEGMENT) as store:
        _fill(store, 30)
        store.dispatch()
        store.cut(store.read("Topic", 0, 5).offset)

        assert (0, 5) == store.queue_range("Topic", 0)
        _fill(store, 1)
        assert (0, 6) == store.queue_range("Topic", 0)


def test_the_stored_bounds_of_the_queues_are_synced(tmp_path: Path) -> None:
    """
    The durable queue bound never passes the log's.
    """
    with Store(tmp_path / "store", segment_size=SEGMENT) as store:
        _fill(store, 30)
        store.keep()
        bounds = store.log.writer.metastore.read(QUEUES)

        assert store.log.end_offset == bounds.synced_end
        assert store.log.synced_offset >= bounds.synced_end


def test_old_segments_are_deleted_by_age_and_by_size(tmp_path: Path) -> None:
    """
    Log, queues and epochs are deleted together at the front; the rest stays readable.
    """
    with Store(tmp_path / "store", segment_size=SEGMENT) as store:
        store.log.begin_epoch(1)
        _fill(store, 2000)
        store.dispatch()
        now = store.read("Topic", 0, 0).store_ms
        assert 0 == store.retain(Retention(reserved_hours=1), now)
        removed = store.retain(
            Retention(reserved_hours=None, total_bytes_max=2 * SEGMENT), now
        )

        assert removed > 0
        first, end = store.queue_range("Topic", 0)
        assert 0 < first < end
        assert store.log.min_offset <= store.read("Topic", 0, first).offset
        assert store.retain(Retention(reserved_hours=0), now + HOUR_MS) > 0
