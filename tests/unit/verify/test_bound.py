"""
The offset below which no byte of a log may be bad.
"""

from __future__ import annotations

import mmap
import os
import shutil
from pathlib import Path

import pytest
from lib.store.cold_files import files_of, make_cold, pages_in_memory

from pystore.consumequeue.queues import ConsumeQueues, queue_file_size_of
from pystore.core.lock import running_writer
from pystore.fs.layout import segment_name, segment_path
from pystore.message.message import Message
from pystore.recovery.dry_run import find_stored_end
from pystore.recovery.segments import Segments
from pystore.recovery.torn_tail import Bound, Evidence
from pystore.store.commit_log import CommitLog
from pystore.store.open_reader import binding_page
from pystore.store.store import Store
from pystore.verify.bound import find_bound, find_evidence
from pystore.verify.report import Damage
from pystore.verify.store import verify_store

MEBIBYTE = 1 << 20


def _find(root: Path) -> tuple[Bound | Evidence, list[Damage]]:
    damages: list[Damage] = []
    with CommitLog(root, mode="r") as log:
        queues = ConsumeQueues(root, queue_file_size_of(root))
        segments = Segments(log.reader)
        page = binding_page(root) if running_writer(root) is not None else None
        end = page.read().published_end if page is not None else None
        found = find_bound(root, segments, queues, end, damages)
    return found, damages


def test_the_published_end_of_a_running_writer_is_the_bound(tmp_path: Path) -> None:
    """
    Published records may have been acknowledged.
    """
    with CommitLog(tmp_path / "s") as log:
        end = log.append(Message("T", b"body")).end

        assert (Bound(end, "published end"), []) == _find(tmp_path / "s")


def test_a_closed_store_has_its_own_bound(tmp_path: Path) -> None:
    """
    The bound is its synced end.
    """
    with CommitLog(tmp_path / "s") as log:
        end = log.append(Message("T", b"body")).end

    bound, damages = _find(tmp_path / "s")

    assert isinstance(bound, Bound)
    assert end == bound.offset
    assert [] == damages


def test_an_unreadable_small_file_leaves_the_bounds_of_the_metadata(
    tmp_path: Path,
) -> None:
    """
    The records are checked as without the file, which is reported.
    """
    with CommitLog(tmp_path / "s") as log:
        end = log.append(Message("T", b"body")).end
    (tmp_path / "s" / "epochFileCheckpoint").write_text("2\n0\n1-x\n")

    bound, damages = _find(tmp_path / "s")

    assert isinstance(bound, Bound)
    assert end == bound.offset
    assert ["epochFileCheckpoint"] == [Path(one.path).name for one in damages]


def test_metadata_that_cannot_be_read_leaves_the_evidence_of_rocketmq(
    tmp_path: Path,
) -> None:
    """
    The records are checked nevertheless; the database is reported.
    """
    with CommitLog(tmp_path / "s") as log:
        log.append(Message("T", b"body"))
    os.truncate(tmp_path / "s" / "meta" / "lmdb" / "data.mdb", 5000)

    bound, damages = _find(tmp_path / "s")

    assert isinstance(bound, Evidence)
    assert ["data.mdb"] == [Path(one.path).name for one in damages]


def test_the_evidence_can_be_read_without_a_bound(tmp_path: Path) -> None:
    """
    This is for a store whose bounds are void, such as a log with a hole.
    """
    with CommitLog(tmp_path / "s") as log:
        log.append(Message("T", b"body"))
    damages: list[Damage] = []
    with CommitLog(tmp_path / "s", mode="r") as log:
        queues = ConsumeQueues(tmp_path / "s", queue_file_size_of(tmp_path / "s"))

        found = find_evidence(tmp_path / "s", Segments(log.reader), queues, damages)

    assert not found.is_abort
    assert [] == damages


def test_the_evidence_of_a_copy_is_found_without_reading_all_records(
    disk_path: Path,
) -> None:
    """
    The verification reads them later, on all processors: once is enough.
    """
    with CommitLog(disk_path / "s", segment_size=MEBIBYTE) as log:
        for _ in range(8 * 256):
            log.append(Message("T", bytes(4000)))
    shutil.copytree(disk_path / "s", disk_path / "copy")
    with CommitLog(disk_path / "copy", mode="r") as log:
        files = files_of(disk_path / "copy")
        make_cold(files)
        queues = ConsumeQueues(
            disk_path / "copy", queue_file_size_of(disk_path / "copy")
        )
        damages: list[Damage] = []

        found = find_bound(
            disk_path / "copy",
            Segments(log.reader),
            queues,
            None,
            damages,
        )

    assert isinstance(found, Evidence)
    assert [] == damages
    assert pages_in_memory(files) < MEBIBYTE // mmap.PAGESIZE


def test_a_queue_that_cannot_be_read_hides_no_missing_segment(tmp_path: Path) -> None:
    """
    Two damages are two findings: what the metadata promises does not rest on queues.
    """
    root = tmp_path / "s"
    with Store(root, segment_size=MEBIBYTE, queue_file_bytes=400) as store:
        for _ in range(600):
            store.log.append(Message("T", bytes(4000)))
    segment_path(root, 0).unlink()
    queue = max((root / "consumequeue" / "T" / "0").iterdir())
    os.truncate(queue, 53)

    found = {Path(one.path).name: one.part for one in verify_store(root).damages}

    assert {segment_name(0): "log", queue.name: "queue"} == found


@pytest.mark.parametrize("gone", ["newest", "oldest"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("checkpoint", bytes(2574)),
        ("epochFileCheckpoint", b"2\n0\n1-x\n"),
        ("brokerIdentity", b"no identity"),
    ],
)
def test_a_small_file_that_cannot_be_read_hides_no_missing_segment(
    tmp_path: Path, name: str, content: bytes, gone: str
) -> None:
    """
    The metadata knows the ends of the log without that file, whichever segment is gone;
    a reader after a restart knows the newest end, too.
    """
    root = tmp_path / "s"
    with CommitLog(root, segment_size=1 << 16) as log:
        for _ in range(600):
            log.append(Message("T", bytes(400)))
        end = log.end_offset
    choose = max if gone == "newest" else min
    segment = choose((root / "commitlog").iterdir())
    segment.unlink()
    (root / name).write_bytes(content)

    found = {Path(one.path).name: one.part for one in verify_store(root).damages}

    # The folder lacks the file of the end.
    named = "commitlog" if gone == "newest" else segment.name
    assert {name: "file", named: "log"} == found
    assert end == find_stored_end(root)


def test_a_segment_of_another_size_takes_back_no_stored_end(tmp_path: Path) -> None:
    """
    The newest segment is gone and the one before it is short: the queue entries of both
    are right, and what was stored of the end tells it.
    """
    root = tmp_path / "s"
    with Store(root, segment_size=1 << 16) as store:
        for _ in range(200):
            store.log.append(Message("T", bytes(400)))
        end = store.log.end_offset
    first, last = sorted((root / "commitlog").iterdir())
    last.unlink()
    os.truncate(first, 28_699)

    found = verify_store(root).damages

    assert {"file", "log"} == {one.part for one in found}
    assert end == max(one.end or 0 for one in found)
    assert "65536 when pystore left it" in found[0].reason
