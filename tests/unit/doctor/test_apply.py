"""
Healing does the plan under the lock of the store and keeps what it replaced.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lib.command_line import make_store, overwrite, segment_file
from lib.store.pairs import SEGMENT, Pair, seal

from pystore import CommitLog
from pystore.doctor.apply import heal
from pystore.errors import InvalidError, LockedError, PystoreError
from pystore.verify import verify_store


def check_whole(root: Path, entries: int = 300) -> None:
    """
    Checks that a store is whole, and that its queues have so many entries.
    """
    report = verify_store(root)
    assert "whole" == report.verdict
    assert entries == report.queues.entries


def test_a_whole_store_is_not_changed(pair: Pair) -> None:
    """
    No file of it is written.
    """
    before = {path: path.stat().st_mtime_ns for path in pair.store.rglob("*")}

    assert ((), None) == (heal(pair.store).plan.steps, None)
    after = {path: path.stat().st_mtime_ns for path in pair.store.rglob("*")}
    assert before == after


def test_queues_and_bytes_are_healed_together(pair: Pair) -> None:
    """
    The old bytes of both are kept.
    """
    overwrite(segment_file(pair.store, SEGMENT), 800, b"????")
    queue = next((pair.store / "consumequeue/t0/0").iterdir())
    overwrite(queue, 100, b"????")
    changed = queue.read_bytes()
    kept = heal(pair.store, [pair.copy]).kept

    check_whole(pair.store)
    assert kept is not None
    assert pair.store.parent / "store.healed-1" == kept
    assert changed == (kept / "consumequeue/t0/0" / queue.name).read_bytes()
    assert list((kept / "commitlog").iterdir())


KILLED = """
import os, signal, sys
from pystore import Message, Store
store = Store(sys.argv[1], queue_file_bytes=8000)
for number in range(300):
    store.log.append(Message(f"t{number % 2}", b"body"))
store.keep()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_queues_of_a_killed_writer_are_built_from_the_beginning(
    tmp_path: Path,
) -> None:
    """
    Its stored bound of the queues says that nothing is missing there.
    """
    root = tmp_path / "store"
    done = subprocess.run([sys.executable, "-c", KILLED, root], check=False)
    assert -signal.SIGKILL == done.returncode
    shutil.rmtree(root / "consumequeue/t1")
    heal(root)

    check_whole(root)


def test_a_store_without_queues_gets_none(tmp_path: Path) -> None:
    """
    Nothing shows the size of their files, and RocketMQ loads no other one.
    """
    root = make_store(tmp_path / "store", 3000)
    overwrite(segment_file(root), 800, b"????")
    heal(root, accept_loss=True)

    assert "whole" == verify_store(root).verdict
    assert not (root / "consumequeue").exists()


def test_a_bad_seal_is_moved_away_and_made_again(pair: Pair) -> None:
    """
    Its segment is whole.
    """
    seal(pair.store)
    path = sorted((pair.store / "meta/seals").iterdir())[0]
    overwrite(path, 30, b"????")
    kept = heal(pair.store).kept

    assert kept is not None
    assert (kept / "meta/seals" / path.name).exists()
    seal(pair.store)
    assert path.exists()
    check_whole(pair.store)


def test_the_log_is_cut_with_consent_only(pair: Pair) -> None:
    """
    The cut bytes are saved beside the store, which belongs to a set.
    """
    with CommitLog(pair.store) as log:
        log.begin_epoch(1)
    overwrite(segment_file(pair.store, SEGMENT), 800, b"????")
    end = verify_store(pair.store).end_offset
    assert None is heal(pair.store).kept
    assert "damaged" == verify_store(pair.store).verdict

    heal(pair.store, accept_loss=True)
    report = verify_store(pair.store)
    assert "whole" == report.verdict
    assert report.end_offset < end
    assert list(pair.store.parent.glob("store.lost-*"))


def test_a_step_for_an_operator_refuses_all_steps(pair: Pair) -> None:
    """
    Nothing is half done.
    """
    (pair.store / "meta/lmdb/data.mdb").unlink()
    overwrite(segment_file(pair.store, SEGMENT), 800, b"????")
    with pytest.raises(InvalidError, match=r"data\.mdb"):
        heal(pair.store, [pair.copy])

    assert not list(pair.store.parent.glob("store.healed-*"))


def test_damage_at_the_end_of_the_log_comes_from_a_replica(pair: Pair) -> None:
    """
    Nothing can be read behind it, so its range ends with the segment, above the end of
    the replica's log: zeros follow there.
    """
    end = verify_store(pair.copy).end_offset
    path = segment_file(pair.store, end // SEGMENT * SEGMENT)
    overwrite(path, end % SEGMENT - 300, b"?" * 1000)
    heal(pair.store, [pair.copy])

    check_whole(pair.store)
    assert (pair.copy / "commitlog" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("way", ["missing", "short", "changed"])
def test_a_bad_live_page_is_made_again(pair: Pair, way: str) -> None:
    """
    The store was closed, so that it says nothing that the metadata does not.
    """
    path = pair.store / "meta/live"
    if way == "missing":
        path.unlink()
    else:
        path.write_bytes(b"?" * (100 if way == "short" else 4096))
    heal(pair.store)

    check_whole(pair.store)


def test_a_bad_live_page_hides_no_lost_beginning(pair: Pair) -> None:
    """
    Without the page nothing says where the log began; the doctor had begun to heal, and
    the opening refused.
    """
    (pair.store / "meta/live").write_bytes(b"short")
    segment_file(pair.store, 0).unlink()
    assert heal(pair.store).plan.lost_bytes
    heal(pair.store, accept_loss=True)
    report = verify_store(pair.store)

    assert ("whole", SEGMENT) == (report.verdict, report.min_offset)


def test_two_bad_records_side_by_side_come_from_a_replica(pair: Pair) -> None:
    """
    Each is taken once.
    """
    with CommitLog(pair.copy, mode="r") as log:
        starts = [int(row["offset"]) for rows in log.scan() for row in rows][150:152]
    for start in starts:
        base = start // SEGMENT * SEGMENT
        overwrite(segment_file(pair.store, base), start - base + 95, b"????")
    assert starts == [one.offset for one in verify_store(pair.store).damages]
    heal(pair.store, [pair.copy])

    check_whole(pair.store)


def test_a_short_queue_and_a_bad_record_are_healed_together(pair: Pair) -> None:
    """
    Fillers need to know which queues have an entry of the range.
    """
    overwrite(segment_file(pair.store, SEGMENT), 800, b"????")
    next((pair.store / "consumequeue/t1/0").iterdir()).write_bytes(b"short")
    heal(pair.store, accept_loss=True)

    check_whole(pair.store, 299)


@pytest.mark.parametrize("queue", ["short", "name", "none"])
@pytest.mark.parametrize(
    "log", ["last segment", "first segment", "last record", "middle"]
)
@pytest.mark.parametrize("has_copy", [False, True])
def test_a_queue_that_cannot_be_read_stops_no_healing_of_the_log(
    pair: Pair, queue: str, log: str, *, has_copy: bool
) -> None:
    """
    Its entries are no evidence; what is stored says where the log ended. Each way of
    harm to the queue beside each way of harm to the log.
    """
    files = sorted((pair.store / "consumequeue/t1/0").iterdir())
    if queue == "short":
        os.truncate(files[0], files[0].stat().st_size - 80)
    elif queue == "name":
        files[0].rename(files[0].with_name("00000000000000000007"))
    segments = sorted((pair.store / "commitlog").iterdir())
    if log == "last segment":
        segments[-1].unlink()
    elif log == "first segment":
        segments[0].unlink()
    elif log == "end":
        with CommitLog(pair.copy, mode="r") as whole:
            last = [int(row["offset"]) for rows in whole.scan() for row in rows][-1]
        overwrite(segments[-1], last % SEGMENT + 95, b"????")
    else:
        overwrite(segments[1], 800, b"????")
    before = verify_store(pair.store)
    heal(pair.store, [pair.copy] if has_copy else [], accept_loss=not has_copy)
    report = verify_store(pair.store)

    assert ("damaged", "whole") == (before.verdict, report.verdict)
    assert 0 == report.queues.missing
    assert not has_copy or 300 == report.records == report.queues.entries


def test_a_healing_that_fails_leaves_no_empty_directory(pair: Pair) -> None:
    """
    The next one does not count it.
    """
    overwrite(segment_file(pair.store, SEGMENT), 800, b"????")
    (pair.store / "meta/tmp").rmdir()
    (pair.store / "meta/tmp").touch()
    path = segment_file(pair.store, SEGMENT)
    os.link(path, path.parents[2] / "linked")  # so that a draft is needed
    with pytest.raises(PystoreError):
        heal(pair.store, [pair.copy])

    assert not list(pair.store.parent.glob("store.healed-*"))


def test_a_store_with_a_writer_is_refused(pair: Pair) -> None:
    """
    The lock is taken before anything is read.
    """
    with CommitLog(pair.store), pytest.raises(LockedError):
        heal(pair.store, [pair.copy])


def test_each_healing_keeps_its_own_directory(pair: Pair, tmp_path: Path) -> None:
    """
    It is numbered.
    """
    for number in (1, 2):
        shutil.rmtree(pair.store / "consumequeue/t1")
        overwrite(next((pair.store / "consumequeue/t0/0").iterdir()), 100, b"????")
        kept = heal(pair.store, save_to=tmp_path / "old").kept
        assert tmp_path / "old" / f"store.healed-{number}" == kept
        check_whole(pair.store)


@pytest.mark.parametrize("size", [None, 0, 700], ids=["missing", "empty", "short"])
def test_a_segment_that_is_not_there_is_taken_from_a_replica(
    pair: Pair, size: int | None
) -> None:
    """
    Then the store opens, with the same bytes; without the replica nothing is changed.
    """
    path = segment_file(pair.store, SEGMENT)
    content = path.read_bytes()
    path.unlink() if size is None else os.truncate(path, size)
    with pytest.raises(InvalidError, match="restore it from a replica") as refused:
        heal(pair.store, accept_loss=True)
    assert str(path) == refused.value.path
    assert not list(pair.store.parent.glob("*.healed-*"))
    heal(pair.store, [pair.copy])

    assert content == path.read_bytes()
    assert "whole" == verify_store(pair.store).verdict
