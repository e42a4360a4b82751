"""
What pystore stored as synced stays evidence: a store that lost it is never opened for
writing, and never called whole (A16, A17).
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, bodies, fill, kill_while

from pystore.errors import CorruptError, FormatError
from pystore.fs.layout import LIVE_NAME, META_NAME
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store
from pystore.verify import verify_store

RECORDS = 800


def _segments(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def _clean_log(root: Path) -> None:
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, RECORDS)


def _clean_store(root: Path) -> None:
    with Store(root, segment_size=SEGMENT, queue_file_bytes=6000) as store:
        fill(store.log, RECORDS)


def _killed(root: Path) -> None:
    def work(log: CommitLog) -> None:
        fill(log, RECORDS)
        log.sync()
        log.keep()

    kill_while(root, work)


def _in_another_boot(root: Path) -> None:
    _killed(root)
    page = root / META_NAME / LIVE_NAME
    content = bytearray(page.read_bytes())
    content[24:40] = os.urandom(16)
    page.write_bytes(content)


STATES = [_clean_log, _clean_store, _killed, _in_another_boot]


def _assert_refused(root: Path) -> None:
    assert "damaged" == verify_store(root).verdict
    with pytest.raises(CorruptError) as refused:
        CommitLog(root)
    assert refused.value.offset is not None
    assert "damaged" == verify_store(root).verdict


@pytest.mark.parametrize("make", STATES, ids=lambda it: it.__name__.strip("_"))
def test_a_store_without_its_last_segment_is_refused(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """
    A repair of the file system moved the file away, or a restore missed it.
    """
    root = tmp_path / "store"
    make(root)
    with CommitLog(root, mode="r") as log:
        end = log.end_offset
    # The newest segment may be allocated ahead and empty.
    (path,) = (p for p in _segments(root) if int(p.name) == end // SEGMENT * SEGMENT)
    for later in _segments(root):
        if later.name >= path.name:
            later.unlink()

    _assert_refused(root)


@pytest.mark.parametrize("make", STATES, ids=lambda it: it.__name__.strip("_"))
@pytest.mark.parametrize("bit", [None, 0, 7 * 8, 4095 * 8])
def test_a_store_without_its_first_segment_is_refused(
    tmp_path: Path, make: Callable[[Path], None], bit: int | None
) -> None:
    """
    No retention of pystore and no truncation by RocketMQ explains it: a checkpoint with
    one changed bit was not rewritten.
    """
    root = tmp_path / "store"
    make(root)
    _segments(root)[0].unlink()
    if bit is not None and (root / "checkpoint").exists():
        data = bytearray((root / "checkpoint").read_bytes())
        data[bit // 8] ^= 1 << bit % 8
        (root / "checkpoint").write_bytes(data)

    _assert_refused(root)


def test_a_crash_in_a_deletion_of_old_segments_is_no_loss(
    tmp_path: Path,
) -> None:
    """
    What is left is stored before the first segment is deleted.
    """
    root = tmp_path / "store"

    def work(log: CommitLog) -> None:
        fill(log, RECORDS)
        log.keep()
        log.delete_before(2 * SEGMENT)

    kill_while(root, work)
    with CommitLog(root) as log:
        assert 2 * SEGMENT == log.min_offset
        assert log.recovery.cut_offset is None


@pytest.mark.parametrize("names", [("commitlog",), ("commitlog", "checkpoint")])
def test_a_log_from_an_older_backup_beside_newer_metadata_is_refused(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    """
    The metadata knows of more synced records. An older checkpoint is no sign of
    RocketMQ, which lowers no time in it.
    """
    root, backup = tmp_path / "store", tmp_path / "backup"
    _clean_log(root)
    shutil.copytree(root, backup)
    time.sleep(0.002)  # so that the next records are not of the same millisecond
    with CommitLog(root) as log:
        fill(log, RECORDS)
    for name in names:
        if (root / name).is_dir():
            shutil.rmtree(root / name)
            shutil.copytree(backup / name, root / name)
        else:
            shutil.copyfile(backup / name, root / name)

    _assert_refused(root)


@pytest.mark.parametrize("make", STATES)
def test_a_database_of_an_earlier_opening_is_refused(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """
    Its bounds are lower than what was acknowledged since.
    """
    root, older = tmp_path / "store", tmp_path / "older"
    make(root)
    shutil.copyfile(root / META_NAME / "lmdb/data.mdb", older)
    make(root)
    shutil.copyfile(older, root / META_NAME / "lmdb/data.mdb")

    with pytest.raises(FormatError, match="of opening 1 and live of opening 2"):
        CommitLog(root)
    assert verify_store(root).damages


def test_a_record_whose_name_changed_is_damage_and_not_new(tmp_path: Path) -> None:
    """
    Otherwise a store without its incarnation would count as never opened.
    """
    _clean_log(tmp_path)
    path = tmp_path / META_NAME / "lmdb/data.mdb"
    path.write_bytes(path.read_bytes().replace(b"incarnation", b"incarnati/n"))

    with pytest.raises(FormatError, match="the unknown name b'incarnati/n'"):
        CommitLog(tmp_path)
    assert verify_store(tmp_path).damages


def _flip(root: Path, offset: int) -> None:
    path = root / "commitlog" / f"{offset // SEGMENT * SEGMENT:020d}"
    data = bytearray(path.read_bytes())
    data[offset % SEGMENT] ^= 1
    path.write_bytes(data)


def _no_checkpoint(root: Path) -> Path:
    (root / "checkpoint").unlink()
    return root


def _changed_checkpoint(root: Path) -> Path:
    data = bytearray((root / "checkpoint").read_bytes())
    data[7] ^= 1
    (root / "checkpoint").write_bytes(data)
    return root


def _copied(root: Path) -> Path:
    copy = root.with_name("copy")
    shutil.copytree(root, copy)
    return copy


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (_clean_log, _no_checkpoint),
        (_clean_log, _changed_checkpoint),
        (_clean_log, _copied),
        (_clean_store, _no_checkpoint),
        (_clean_store, _changed_checkpoint),
        (_clean_store, _copied),
        (_killed, _copied),
    ],
)
def test_a_changed_file_and_a_bad_record_cut_nothing(
    tmp_path: Path, make: Callable[[Path], None], change: Callable[[Path], Path]
) -> None:
    """
    Void bounds do not make the records behind the bad one a torn tail.
    """
    root = tmp_path / "store"
    make(root)
    with CommitLog(root, mode="r") as log:
        offsets = [int(one) for rows in log.scan() for one in rows["offset"]]
    root = change(root)
    _flip(root, offsets[2] + 100)
    before = [path.read_bytes() for path in _segments(root)]

    _assert_refused(root)
    assert before == [path.read_bytes() for path in _segments(root)]


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_queue_that_lost_its_entries_makes_no_record_stale(
    tmp_path: Path, is_removed: bool
) -> None:
    """
    The other queues go on, and the log alone says how its offsets do. The store opens
    and builds the entries anew.
    """
    root = tmp_path / "store"
    _clean_store(root)
    shutil.rmtree(root / "meta")
    (lost,) = {
        path.parent for path in (root / "consumequeue" / "Topic" / "1").iterdir()
    }
    for path in lost.iterdir():
        if is_removed:
            path.unlink()
        else:
            path.write_bytes(bytes(path.stat().st_size))

    with Store(root) as store:
        assert store.log.recovery.cut_offset is None
        first, end = store.queue_range("Topic", 1)
        assert end - first == len(store.read_from("Topic", 1, 0, RECORDS))
    assert "whole" == verify_store(root).verdict


def test_a_bad_record_above_an_old_bound_cuts_no_whole_records(tmp_path: Path) -> None:
    """
    Nothing was stored after the first second, but no sector is zero.
    """
    root = tmp_path / "store"

    def work(log: CommitLog) -> None:
        fill(log, RECORDS)
        log.sync()

    kill_while(root, work)
    page = root / META_NAME / LIVE_NAME
    content = bytearray(page.read_bytes())
    content[24:40] = os.urandom(16)
    page.write_bytes(content)
    _flip(root, SEGMENT // 2)

    _assert_refused(root)


def test_a_copy_of_the_log_that_is_older_than_the_metadata_is_refused(
    tmp_path: Path,
) -> None:
    """
    A file-by-file copy of a running store, the log first.
    """
    root, copy = tmp_path / "store", tmp_path / "copy"

    def work(log: CommitLog) -> None:
        fill(log, 100)
        shutil.copytree(root / "commitlog", copy / "commitlog")
        fill(log, RECORDS)
        log.sync()
        log.keep()
        for name in ("meta", "abort"):
            path = root / name
            (shutil.copytree if path.is_dir() else shutil.copy)(path, copy / name)

    kill_while(root, work)

    _assert_refused(copy)


def test_what_an_opening_cuts_is_saved_beside_the_store(tmp_path: Path) -> None:
    """
    A lost sector before whole records, above the bound: they are cut, but kept.
    """
    root = tmp_path / "store"
    _in_another_boot_without_bounds(root)
    with CommitLog(root, mode="r") as log:
        offsets = [int(one) for rows in log.scan() for one in rows["offset"]]
    path = _segments(root)[0]
    data = bytearray(path.read_bytes())
    page = 40960
    data[page : page + 4096] = bytes(4096)
    path.write_bytes(data)

    with CommitLog(root) as log:
        loss = log.recovery.loss
        left = len(bodies(log))

    assert loss is not None
    assert loss.directory.parent == root.parent
    whole = [one for one in offsets if one >= page + 4095]
    assert whole == list(loss.records)
    assert (
        offsets.index(next(o for o in offsets if o > page)) - 1
        <= left
        <= len([one for one in offsets if one < page])
    )


def _in_another_boot_without_bounds(root: Path) -> None:
    def work(log: CommitLog) -> None:
        fill(log, RECORDS)

    kill_while(root, work)
    page = root / META_NAME / LIVE_NAME
    content = bytearray(page.read_bytes())
    content[24:40] = os.urandom(16)
    page.write_bytes(content)
