"""
Stores as a stream sees them: live, killed, cut, cleaned up, written by others.
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
    A position names the last record before it.
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


def test_a_store_of_a_set_is_followed_to_its_confirm_offset(tmp_path: Path) -> None:
    """
    What the set may still lose is read only if that is asked for.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 10)
        log.writer.log.confirm(offsets[5])
        with FollowedStore(log.path, published=False).snapshot() as snapshot:
            assert offsets[5] == snapshot.top
            assert offsets[5] == snapshot.last(0, snapshot.top).offset
        with FollowedStore(log.path, published=True).snapshot() as snapshot:
            assert log.end_offset == snapshot.top


def test_a_killed_writers_store_is_followed_to_what_it_published(
    tmp_path: Path,
) -> None:
    """
    Also while the next writer has begun to open it, when the page is not yet its.
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


def test_a_store_without_a_live_page_is_scanned_from_where_it_was_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A store of RocketMQ: the end is searched once, then only what is new is walked,
    over the end of a segment, too; what was cut is searched anew.
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


def test_a_cut_below_the_position_is_one_line(tmp_path: Path) -> None:
    """
    Also when other records have grown over it, and when the writer has closed; a cut
    above it is nothing.
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
    A replica that cuts and fetches what it had.
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


def test_segments_deleted_before_they_were_read_are_one_line(tmp_path: Path) -> None:
    """
    Or the stream goes on with the first record that is left.
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


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    """
    In words.
    """
    with (
        pytest.raises(NotAStoreError, match="no such directory"),
        FollowedStore(tmp_path / "nothing", published=False).snapshot(),
    ):
        pass
