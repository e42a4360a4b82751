"""
Stores of a stream: live, killed, cut, with deleted segments, of RocketMQ.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.store.logs import SEGMENT_SIZE, make_root, open_log
from lib.store.stores import SEGMENT, fill, kill_while

from pystore.errors import CutError, NotAStoreError, OffsetOutOfRange
from pystore.message.message import Message
from pystore.recovery.segments import Segments
from pystore.spark.source import tail
from pystore.spark.source.offsets import StreamOffset
from pystore.spark.source.tail import FollowedStore
from pystore.store.commit_log import CommitLog
from pystore.store.open_reader import find_end


def test_a_live_store_is_followed_to_its_published_end(tmp_path: Path) -> None:
    """
    The stream offset names the last record before it.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        followed = FollowedStore(log.path, published=False)
        with followed.snapshot() as snapshot:
            assert (0, 0) == (snapshot.top, snapshot.end)
            assert StreamOffset(0) == snapshot.last(0, snapshot.top)

        offsets = fill(log, 1000)

        with followed.snapshot() as snapshot:
            found = snapshot.last(0, snapshot.top)
            assert log.end_offset == snapshot.top == found.offset
            assert offsets[-1] == found.record
            assert snapshot.holds(found)
            assert snapshot.generation is not None


def test_a_replicated_store_is_followed_to_its_confirm_offset(tmp_path: Path) -> None:
    """
    Records above it are read only on request.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 10)
        log.writer.log.confirm(offsets[5])
        with FollowedStore(log.path, published=False).snapshot() as snapshot:
            assert offsets[5] == snapshot.top
            assert offsets[5] == snapshot.last(0, snapshot.top).offset
        with FollowedStore(log.path, published=True).snapshot() as snapshot:
            assert log.end_offset == snapshot.top


def test_a_killed_writers_store_is_followed_to_its_published_end(
    tmp_path: Path,
) -> None:
    """
    Even while the next writer opens it, and the page is still that of the killed one.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 100))
    with FollowedStore(root, published=False).snapshot() as snapshot:
        end = snapshot.end
    abort = root / "abort"
    text = abort.read_text()
    incarnation = next(word for word in text.split() if "-" in word)
    number, _, rest = incarnation.partition("-")
    abort.write_text(text.replace(incarnation, f"{int(number) + 1}-{rest}"))
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        record = file.read(200)
        file.seek(end)
        file.write(record)

    with FollowedStore(root, published=False).snapshot() as snapshot:
        assert end == snapshot.end


def test_a_store_without_a_live_page_is_scanned_from_the_last_known_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It is a store of RocketMQ. The first scan finds the end, later scans read only new
    records, across ends of segments, too. After a cut the end is searched again.
    """
    root = make_root(tmp_path)
    searched: list[int] = []

    def search(segments: Segments) -> tuple[int, str]:
        searched.append(1)
        return find_end(segments)

    monkeypatch.setattr(tail, "find_end", search)
    followed = FollowedStore(root, published=False)
    with open_log(root) as log:
        body = Message("T", bytes(5000)).form
        log.append(body)
        with followed.snapshot() as snapshot:
            assert log.ends().published_end == snapshot.end
            assert snapshot.generation is None
        for _ in range(20):
            log.append(body)
            with followed.snapshot() as snapshot:
                assert log.ends().published_end == snapshot.end
        assert log.ends().published_end > SEGMENT_SIZE
        assert 1 == len(searched)

        fifth = 5 * log.read(0).size
    (root / "commitlog" / f"{SEGMENT_SIZE:020d}").unlink()
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(fifth)
        file.write(bytes(SEGMENT_SIZE - fifth))

    with followed.snapshot() as snapshot:
        assert fifth == snapshot.end
    assert 2 == len(searched)


def test_a_cut_below_the_stream_offset_is_a_one_line_error(tmp_path: Path) -> None:
    """
    Even if other records were written since, or the writer closed; a cut above is no
    error.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 100)
        followed = FollowedStore(log.path, published=False)
        with followed.snapshot() as snapshot:
            position = snapshot.last(0, offsets[50])
        log.cut(offsets[70])
        with followed.snapshot() as snapshot:
            assert offsets[50] == snapshot.resume(position, fails=True)

        log.cut(offsets[30])
        for first in (30, 1000):
            with followed.snapshot() as snapshot:
                with pytest.raises(CutError, match=r"store: the log was cut below"):
                    snapshot.resume(position, fails=True)
                assert offsets[30] == snapshot.resume(position, fails=False)
            fill(log, 60, 500 + first)
    with (
        followed.snapshot() as snapshot,
        pytest.raises(CutError, match="failOnDataLoss"),
    ):
        snapshot.resume(position, fails=True)


def test_the_same_records_written_again_are_no_loss(tmp_path: Path) -> None:
    """
    A replica cut its log and fetched the same records again.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 20)
        followed = FollowedStore(log.path, published=False)
        with followed.snapshot() as snapshot:
            position = snapshot.last(0, snapshot.top)
        end = log.end_offset
        kept = bytes(log.reader.acquire(offsets[10], end - offsets[10]))
        log.cut(offsets[10])
        log.writer.log.append_raw(offsets[10], kept)

        with followed.snapshot() as snapshot:
            assert end == snapshot.resume(position, fails=True)


def test_segments_deleted_before_they_were_read_are_a_one_line_error(
    tmp_path: Path,
) -> None:
    """
    Or the stream continues with the first existing record.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 2000)
        followed = FollowedStore(log.path, published=False)
        with followed.snapshot() as snapshot:
            position = snapshot.last(0, 1000)
        log.delete_before(2 * SEGMENT)

        with followed.snapshot() as snapshot:
            with pytest.raises(OffsetOutOfRange, match="were deleted before the str"):
                snapshot.resume(position, fails=True)
            assert 2 * SEGMENT == snapshot.resume(position, fails=False)


def test_a_path_that_is_no_store_is_refused(tmp_path: Path) -> None:
    """
    The error names the path.
    """
    with (
        pytest.raises(NotAStoreError, match="no such directory"),
        FollowedStore(tmp_path / "nothing", published=False).snapshot(),
    ):
        pass


def test_a_record_half_visible_is_not_there_yet(tmp_path: Path) -> None:
    """
    Another host sees head, tail and properties of the last record before a page of its
    body. A damaged record with others behind it does not stop the stream.
    """
    root = make_root(tmp_path)
    with open_log(root) as log:
        for _ in range(3):
            log.append(Message("T", b"x" * 12000).form)
        size = log.read(0).size
    path = root / "commitlog" / f"{0:020d}"
    whole = path.read_bytes()

    def hide(record: int) -> None:
        at = record * size + 4096
        path.write_bytes(whole[:at] + bytes(4096) + whole[at + 4096 :])

    followed = FollowedStore(root, published=False)
    for _ in range(2):
        hide(2)
        with followed.snapshot() as snapshot:
            position = snapshot.last(0, snapshot.top)
            assert 2 * size == snapshot.end == position.offset
        path.write_bytes(whole)
        with followed.snapshot() as snapshot:
            assert 2 * size == snapshot.resume(position, fails=True)
            assert 3 * size == snapshot.end
        followed = FollowedStore(root, published=False)
        hide(1)
        with followed.snapshot() as snapshot:
            assert 3 * size == snapshot.end
