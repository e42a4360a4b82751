"""
The methods that read a log.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lib.store.segment_files import flip, segment, write
from lib.store.stores import SEGMENT, fill, message

from pystore.errors import CorruptError, InvalidError, NotAStoreError
from pystore.message.message import Message
from pystore.message.record import Record
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store
from pystore.verify import verify_store


def test_a_range_is_scanned_and_lent_without_a_copy(tmp_path: Path) -> None:
    """
    Rows and blocks of a range have the same bytes.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 1000)
        rows = next(iter(log.scan(offsets[10], offsets[13])))
        data = b"".join(block.view for block in log.blocks(offsets[10], offsets[13]))

        assert offsets[10:13] == rows["offset"].tolist()
        assert ["Topic"] * 3 == [log.topic(int(row)) for row in rows["topic_id"]]
        assert rows["size"].sum() == len(data)
        assert message(11).body in data
        assert 1000 == sum(len(rows) for rows in log)


def test_an_offset_inside_a_record_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    """
    A read and a scan name the record around the offset; neither says damage.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 3)
        text = f"offset {offsets[1] + 4}: it is inside the record at {offsets[1]}"
        with pytest.raises(InvalidError, match=text):
            log.read(offsets[1] + 4)
        with pytest.raises(InvalidError, match=text):
            list(log.scan(offsets[1] + 4))


def test_a_wrong_type_is_refused_by_the_name_of_its_parameter(tmp_path: Path) -> None:
    """
    Whatever call of a reader it is; a mistake of the caller is no raw TypeError.
    """
    wrong: Any = "7"
    with Store(tmp_path / "store", segment_size=SEGMENT) as store:
        fill(store.log, 3)
        store.dispatch()
        topic = message(0).topic
        calls: list[tuple[str, Callable[[], object]]] = [
            ("offset", lambda: store.log.read(wrong)),
            ("from_offset", lambda: store.log.scan(wrong)),
            ("rows", lambda: store.log.scan(rows=wrong)),
            ("from_offset", lambda: list(store.log.blocks(wrong))),
            ("to_offset", lambda: list(store.log.blocks(0, wrong))),
            ("queue_offset", lambda: store.read(topic, 0, wrong)),
            ("queue_offset", lambda: store.read_from(topic, 0, wrong, 1)),
            ("count", lambda: store.read_from(topic, 0, 0, wrong)),
            ("queue_offset", lambda: list(store.find_tag(topic, 0, "t", wrong))),
            ("time_ms", lambda: store.offset_at_time(topic, 0, wrong)),
            ("messages", lambda: store.log.append_batch(wrong)),
            ("messages", lambda: store.log.append_batch(message(0))),  # type: ignore[arg-type]
        ]
        for name, call in calls:
            with pytest.raises(InvalidError, match=name):
                call()
    with pytest.raises(InvalidError, match=r"^flush_interval_ms '7'"):
        CommitLog(tmp_path / "other", flush_interval_ms=wrong)


def test_an_altered_record_is_not_delivered(tmp_path: Path) -> None:
    """
    Each byte of a body flipped on disk is seen by each reading call, also of another
    handle; without the check of the body each call returns what is there.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        offsets = fill(store.log, 3)
        store.dispatch()
        topic, body = message(1).topic, message(1).body
    first = store.log.path / "commitlog" / f"{0:020d}"
    start = first.read_bytes().index(body)
    with Store(root, mode="r") as store:
        for at in range(start, start + len(body)):
            flip(first, at)
            for is_checked, call in _reads(store, topic, offsets[1]):
                if is_checked:
                    with pytest.raises(CorruptError, match="body") as raised:
                        call()
                    assert (offsets[1], str(root)) == (
                        raised.value.offset,
                        raised.value.path,
                    )
                else:
                    assert body != call().body
            flip(first, at)
            flip(first, at)
            with pytest.raises(CorruptError, match="body"):
                list(store.log.scan(bodies=True))
            assert 3 == sum(len(rows) for rows in store.log.scan())
            flip(first, at)
        assert 3 == sum(len(rows) for rows in store.log.scan(bodies=True))
        for _, call in _reads(store, topic, offsets[1]):
            assert body == call().body


def _reads(
    store: Store, topic: str, offset: int
) -> list[tuple[bool, Callable[[], Record]]]:
    """
    Each call that returns the second record, with and without a check of its body.
    """
    log = store.log
    return [
        (True, lambda: log.read(offset)),
        (True, lambda: log.reader.read(offset)),
        (True, lambda: store.read(topic, 1, 0)),
        (True, lambda: store.read_from(topic, 1, 0, 3)[0]),
        (False, lambda: log.read(offset, body_crc=False)),
        (False, lambda: log.reader.read(offset, body_crc=False)),
        (False, lambda: store.read(topic, 1, 0, body_crc=False)),
        (False, lambda: store.read_from(topic, 1, 0, 3, body_crc=False)[0]),
    ]


def test_a_property_that_claims_another_checksum_is_content(tmp_path: Path) -> None:
    """
    A copied ``__CRC32#`` is a property like others: the record is read.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT, property_crc=False) as log:
        copied = Message("t", b"body", properties={"aaCRC32#": "0123456789", "b": "c"})
        offset = log.append(copied).offset
        first = segment(root, 0)
        write(first, first.read_bytes().index(b"aaCRC32#"), b"__")
        record = log.read(offset)
        assert ("0123456789", b"body") == (record.properties["__CRC32#"], record.body)


def test_an_entry_that_names_the_middle_of_a_record_is_damage(tmp_path: Path) -> None:
    """
    The caller gave a queue offset, so the queue is what is wrong.
    """
    with Store(tmp_path / "store", segment_size=SEGMENT) as store:
        offsets = fill(store.log, 3)
        store.dispatch()
        topic = message(0).topic
        (queue,) = (tmp_path / "store" / "consumequeue" / topic / "1").iterdir()
        with queue.open("r+b") as file:
            file.write((offsets[1] + 4).to_bytes(8, "big"))
        with pytest.raises(CorruptError):
            store.read(topic, 1, 0)
        with pytest.raises(CorruptError):
            store.read_from(topic, 1, 0, 3)


def test_a_scan_never_ends_silently_at_damage(tmp_path: Path) -> None:
    """
    All rows below the bad record are yielded, then the error; or the cursor has it.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 20)
        with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(offsets[7] + 4)
            file.write(b"\xff")
        failing = log.scan()
        seen = next(failing)["offset"].tolist()
        with pytest.raises(CorruptError, match=str(offsets[7])) as caught:
            next(failing)
        scan = log.scan(stops_at_damage=True)

        assert offsets[:7] == seen
        assert offsets[7] == caught.value.offset
        assert 7 == sum(len(rows) for rows in scan)
        assert offsets[7] == scan.cursor.offset


def test_a_scan_never_ends_silently_at_zeros_below_the_end(tmp_path: Path) -> None:
    """
    A page that the disk lost holds zeros: all calls that read a range say so.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 20)
        write(segment(root, 0), offsets[7], bytes(64))
        seen: list[int] = []
        text = f"nothing was written at offset {offsets[7]}, but the log continues"
        for scan in (log.scan(), iter(log), log.scan(to_offset=offsets[15])):
            with pytest.raises(CorruptError, match=text) as caught:
                seen = [int(one) for rows in scan for one in rows["offset"]]
            assert offsets[7] == caught.value.offset
    assert [] == seen


def test_a_scan_never_ends_silently_at_a_last_record_that_is_too_long(
    tmp_path: Path,
) -> None:
    """
    Its damaged size leads above the end of the log. A limit within a record, by the
    caller's choice, is no damage.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 20)
        size = log.end_offset - offsets[-1]
    write(segment(root, 0), offsets[-1], (size + 256).to_bytes(4, "big"))
    with CommitLog(root, mode="r") as log:
        for end in (None, log.end_offset):
            with pytest.raises(
                CorruptError, match="the size of the last one"
            ) as caught:
                list(log.scan(to_offset=end))
            assert offsets[-1] == caught.value.offset
        within = log.scan(to_offset=offsets[8] + 4)
        assert 8 == sum(len(rows) for rows in within)


def lose_the_second(root: Path) -> list[int]:
    """
    Writes a store and removes its second segment; returns the offsets of all records.
    """
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 1500)
    segment(root, SEGMENT).unlink()
    return offsets


def test_an_ill_log_says_what_is_missing_and_serves_the_rest(tmp_path: Path) -> None:
    """
    The attribute, a read, a scan and blocks agree; writing is refused with one line.
    """
    root = tmp_path / "store"
    offsets = lose_the_second(root)
    inside = [one for one in offsets if SEGMENT <= one < 2 * SEGMENT]
    rest = [one for one in offsets if one not in inside]
    with CommitLog(root, mode="r") as log:
        (ill,) = log.ill
        assert (str(segment(root, SEGMENT)), SEGMENT, 2 * SEGMENT) == ill[:3]
        assert rest == [log.read(one).offset for one in rest]
        for offset in (inside[0], inside[5], 2 * SEGMENT - 1):
            with pytest.raises(CorruptError, match=f"{ill.path}: {ill.reason}") as read:
                log.read(offset)
            assert offset == read.value.offset
        with pytest.raises(CorruptError, match=ill.path) as scan:
            list(log.scan())
        assert SEGMENT == scan.value.offset
        assert rest == [
            int(one) for rows in log.scan_past_damage() for one in rows["offset"]
        ]
        assert 2 * SEGMENT < sum(len(one.view) for one in log.blocks(2 * SEGMENT))
        with pytest.raises(CorruptError, match="is missing"):
            list(log.blocks(SEGMENT))
    with pytest.raises(NotAStoreError, match=r"0065536 is missing before 0+131072"):
        CommitLog(root)


def test_a_restored_segment_is_seen_by_the_next_opening(tmp_path: Path) -> None:
    """
    The log is then whole, also for writing.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 1500)
    content = segment(root, SEGMENT).read_bytes()
    segment(root, SEGMENT).unlink()
    with CommitLog(root, mode="r") as log:
        assert 1 == len(log.ill)
    segment(root, SEGMENT).write_bytes(content)
    with CommitLog(root, mode="r") as log:
        assert () == log.ill
    with CommitLog(root) as log:
        assert () == log.ill
        assert offsets == [int(one) for rows in log for one in rows["offset"]]


@pytest.mark.parametrize("number", range(4))
def test_a_reader_beside_a_writer_knows_what_is_missing(
    tmp_path: Path, number: int
) -> None:
    """
    At any position, also the first and the newest; what is appended later is read.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as writer:
        offsets = fill(writer, 1500)
        bases = sorted(int(path.name) for path in (root / "commitlog").iterdir())
        base = ([bases[0], bases[1], bases[-2], bases[-1]])[number]
        kept = tmp_path / "kept"
        os.rename(segment(root, base), kept)
        with CommitLog(root, mode="r") as log:
            (ill,) = log.ill
            assert (base, str(segment(root, base))) == (ill.offset, ill.path)
            assert 0 == log.min_offset
            (damage,) = verify_store(root).damages
            assert base == damage.offset
            with pytest.raises(CorruptError, match="is missing") as caught:
                list(log.scan())
            assert base == caught.value.offset
            if number < 3:
                offsets += fill(writer, 1500)
            found = [
                int(one) for rows in log.scan_past_damage() for one in rows["offset"]
            ]
            assert [
                one for one in offsets if one // SEGMENT != base // SEGMENT
            ] == found
        os.rename(kept, segment(root, base))


def test_retention_beside_a_reader_makes_no_log_ill(tmp_path: Path) -> None:
    """
    What is deleted is no part of the log, however often it is opened meanwhile.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as writer:
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                fill(writer, 600)
                writer.delete_before(writer.end_offset - 2 * SEGMENT)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(300):
                with CommitLog(root, mode="r") as log:
                    assert () == log.ill
        finally:
            stop.set()
            thread.join()
