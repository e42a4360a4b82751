"""
Loss at the edges of a store, logs that are healthy in an odd way, and what no checksum
covers. Each store has the exit code of ``pystore verify``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lib.spark.compaction import CHOICE, LocalJobs, make_store
from lib.spark.verify_job import SEGMENT, by_word, check, make_replicas, run_here
from lib.store.segment_files import restart_machine, segment

from pystore.message.message import Message
from pystore.spark.compact.run import compact
from pystore.spark.verify.run import verify_stores
from pystore.spark.verify.summary import summary_of
from pystore.spark.verify.verdicts import SegmentVerdict
from pystore.store.commit_log import CommitLog
from pystore.verify import verify_store


def agreed(root: Path) -> list[SegmentVerdict]:
    """
    The bad verdicts; ``pystore verify`` finds damage if there are any, and only then.
    """
    bad = [one for one in check(root) if one.is_bad]
    assert bool(verify_store(root).damages) == bool(bad)
    return bad


def test_a_first_segment_that_no_retention_deleted_is_lost(tmp_path: Path) -> None:
    """
    The store's own metadata knows where the log began.
    """
    (root,) = make_replicas(tmp_path, 1)
    segment(root, 0).unlink()

    (bad,) = agreed(root)

    assert ("ABSENT", 0) == (bad.verdict, bad.segment)
    assert f"the log begins at {SEGMENT}" in " ".join(bad.evidence)


@pytest.mark.parametrize("way", ["zeros", "gone"])
def test_a_queue_that_lost_its_entries_is_damaged(tmp_path: Path, way: str) -> None:
    """
    They were on disk when the store was closed.
    """
    (root,) = make_replicas(tmp_path, 1, with_queues=True)
    folder = root / "consumequeue" / "T1" / "0"
    if way == "gone":
        shutil.rmtree(folder)
    else:
        path = next(folder.iterdir())
        path.write_bytes(bytes(path.stat().st_size))

    (bad,) = agreed(root)

    assert ("CORRUPT", None) == (bad.verdict, bad.segment)
    assert "entries from queue offset 0 on are missing" in bad.evidence[0]


def test_a_store_without_its_queues_lost_them(tmp_path: Path) -> None:
    """
    All of them.
    """
    (root,) = make_replicas(tmp_path, 1, with_queues=True)
    shutil.rmtree(root / "consumequeue")

    (bad,) = agreed(root)

    assert "all 1000 entries are missing" in bad.evidence[0]


def test_a_torn_tail_is_said_and_no_damage(tmp_path: Path) -> None:
    """
    As a crash leaves it.
    """
    (root,) = make_replicas(tmp_path, 1)
    with CommitLog(root, mode="r") as log:
        end = log.end_offset
        start = list(log.scan())[-1]["offset"][-1]
    shutil.rmtree(root / "meta")
    (root / "abort").write_text("")
    path = segment(root, end // SEGMENT * SEGMENT)
    data = bytearray(path.read_bytes())
    data[int(start) % SEGMENT + 40 : end % SEGMENT] = bytes(end - int(start) - 40)
    path.write_bytes(data)

    assert [] == agreed(root)
    texts = [text for one in check(root) for text in one.evidence]
    assert [f"torn at {int(start)}"] == [
        text[: len(f"torn at {start}")] for text in texts
    ]


def test_the_logs_of_a_compaction_are_healthy(tmp_path: Path) -> None:
    """
    Gaps of queue offsets are meant; the summary counts them.
    """
    store = make_store(tmp_path)
    compact(LocalJobs(), store, tmp_path / "out", CHOICE)
    logs = sorted((tmp_path / "out" / "compaction" / "logs").glob("*/*"))

    found = verify_stores(run_here, map(str, logs))

    assert not [one for one in found.verdicts if one.is_bad]
    assert all(
        "queue offset" in text for one in found.verdicts for text in one.evidence
    )
    assert summary_of(found)["notes"] > 0
    assert not [one for log in logs for one in verify_store(log).damages]


def test_bytes_that_no_checksum_covers_are_counted(tmp_path: Path) -> None:
    """
    As ``pystore verify`` counts them: by store and in all.
    """
    root = tmp_path / "a"
    with CommitLog(root, segment_size=SEGMENT, property_crc=False) as log:
        for _ in range(300):
            log.append(Message("T", b"x" * 500))

    summary = summary_of(verify_stores(run_here, [str(root)]))

    wanted = verify_store(root).uncovered_bytes
    assert 0 < wanted == summary["uncoveredBytes"]
    assert wanted == summary["stores"][0]["uncoveredBytes"]


def test_a_missing_newest_segment_is_lost_after_a_restart(tmp_path: Path) -> None:
    """
    The stored synced end promised its bytes.
    """
    (root,) = make_replicas(tmp_path, 1)
    restart_machine(root)
    segment(root, 4 * SEGMENT).unlink()
    (root / "abort").write_text("")

    bad = agreed(root)

    assert [("a", 4 * SEGMENT)] == by_word(bad)["ABSENT"]
