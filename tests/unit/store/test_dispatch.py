"""
The queues reach the end of the log, also after a close by a log alone.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, bodies, fill, kill_while, message

from pystore.consumequeue.queues import ConsumeQueues, queue_file_size_of
from pystore.errors import CorruptError, InvalidError
from pystore.rocketmq.checkpoint_file import CheckpointTimes, parse_checkpoint
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store
from pystore.verify import verify_store


def _length(root: Path, queue_id: int = 0) -> int:
    with ConsumeQueues(root, queue_file_size_of(root)) as queues:
        queues.load()
        queue = queues.get("Topic", queue_id)
        assert queue is not None
        return queue.max_index


def test_a_log_that_closes_leaves_existing_queues_complete(tmp_path: Path) -> None:
    """
    A Java broker would skip the record at its dispatch point otherwise.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        fill(store.log, 30)
    with CommitLog(root) as log:
        fill(log, 30, first=30)

    assert 20 == _length(root)
    with Store(root) as store:
        assert store.log.recovery.is_clean
        assert message(59).body == store.read("Topic", 2, 19).body


def test_a_log_without_queues_makes_none(tmp_path: Path) -> None:
    """
    A log alone creates no queues.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 30)

    assert not (root / "consumequeue").exists()


def test_entries_that_may_be_lost_are_made_again(tmp_path: Path) -> None:
    """
    After a kill the queues are cut to what was synced and dispatched again.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        fill(store.log, 30)

    kill_while(root, lambda log: fill(log, 300, first=30))
    with Store(root) as store:
        assert (0, 110) == store.queue_range("Topic", 0)
        assert message(327).body == store.read("Topic", 0, 109).body


KILLED = """
import os, signal, sys
from pystore import Message, Store
store = Store(sys.argv[1], queue_file_bytes=8000)
for number in range(300):
    store.log.append(Message(f"t{number % 2}", b"body"))
store.keep()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("lost", ["t1", "t1/0", "."])
def test_queues_that_were_removed_after_a_kill_are_built_again(
    tmp_path: Path, lost: str
) -> None:
    """
    The killed process stored that their entries were on disk.
    """
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False)
    assert -signal.SIGKILL == done.returncode
    shutil.rmtree(tmp_path / "consumequeue" / lost)

    with Store(tmp_path, queue_file_bytes=8000) as store:
        assert {("t0", 0): 150, ("t1", 0): 150} == store.queues.lengths()
    assert [] == verify_store(tmp_path).damages


def test_entries_follow_a_cut_of_a_log_without_its_store(tmp_path: Path) -> None:
    """
    The entries of cut records do not stay for the records at the same offsets.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        offsets = fill(store.log, 30)
    with CommitLog(root) as log:
        log.cut(offsets[9])
        for number in range(9, 20):
            log.append(message(number, size=50))

    with Store(root) as store:
        assert store.log.recovery.is_clean
        assert (0, 7) == store.queue_range("Topic", 1)
        assert message(13, size=50).body == store.read("Topic", 1, 4).body
        assert message(19, size=50).body == store.read("Topic", 1, 6).body


def test_the_log_of_a_store_may_be_cut_itself(tmp_path: Path) -> None:
    """
    The queues are cut before the next dispatch.
    """
    with Store(tmp_path / "store", segment_size=SEGMENT) as store:
        offsets = fill(store.log, 30)
        store.keep()
        store.log.cut(offsets[9])
        for number in range(9, 12):
            store.log.append(message(number, size=50))
        store.keep()

        assert message(10, size=50).body == store.read("Topic", 1, 3).body
        assert (0, 4) == store.queue_range("Topic", 1)


def test_a_bad_record_does_not_end_the_queues_silently(tmp_path: Path) -> None:
    """
    What follows it has no entries: that is an error each time, and the store does
    not close clean, since a Java broker would never dispatch it.
    """
    root = tmp_path / "store"
    store = Store(root, segment_size=SEGMENT)
    offsets = fill(store.log, 30)
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(offsets[10])
        file.write(b"\xff" * 8)
    for refused in (store.dispatch, store.keep, store.close):
        with pytest.raises(CorruptError, match="consume queues end there") as caught:
            refused()
        assert offsets[10] == caught.value.offset

    assert (root / "abort").exists()


def test_queues_of_a_foreign_writer_are_cut_to_the_opened_log(tmp_path: Path) -> None:
    """
    Entries above the end that an opening found are not those of records that were
    appended since.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        offsets = fill(store.log, 30)
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(offsets[20])
        file.write(bytes(SEGMENT - offsets[20]))
    # RocketMQ truncated the log: it rewrites these two files (A16).
    (root / "abort").write_text("4711")
    now = time.time_ns() // 10**6
    (root / "checkpoint").write_bytes(CheckpointTimes(now, now).encode())
    with CommitLog(root) as log:
        assert log.recovery.foreign
        assert offsets[20] == log.end_offset
        for number in range(20, 24):
            log.append(message(number, size=50))

    with Store(root) as store:
        assert message(21, size=50).body == store.read("Topic", 0, 7).body
        assert (0, 8) == store.queue_range("Topic", 0)


def _as_rocketmqs(root: Path) -> None:
    """
    Removes what pystore added, as if RocketMQ had been killed before its first queue.
    """
    shutil.rmtree(root / "meta")
    shutil.rmtree(root / "consumequeue")
    (root / "consumequeue").mkdir()
    (root / "abort").write_text("12345")


def test_no_queue_files_are_built_if_their_size_is_not_known(tmp_path: Path) -> None:
    """
    RocketMQ loads no queue of another size than it is configured for: it builds them
    itself.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        fill(store.log, 5)
    _as_rocketmqs(root)

    with CommitLog(root) as log:
        assert 5 == len(bodies(log))

    assert [] == list((root / "consumequeue").iterdir())
    assert 0 == parse_checkpoint((root / "checkpoint").read_bytes()).logics_ms


def test_a_store_of_rocketmq_without_queues_asks_for_the_size_of_their_files(
    tmp_path: Path,
) -> None:
    """
    It is in the broker's configuration, and nowhere else.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        fill(store.log, 5)
    _as_rocketmqs(root)

    with pytest.raises(InvalidError, match="mappedFileSizeConsumeQueue"):
        Store(root)
    with Store(root, queue_file_bytes=400) as store:
        assert 5 == sum(queue.max_index for queue in store.queues)
    sizes = {path.stat().st_size for path in root.glob("consumequeue/*/*/*")}
    assert {400} == sizes


def _reads_of_a_close(root: Path, queues: int) -> int:
    """
    Calls that read, of a log that closes without a new record.
    """
    with Store(root, segment_size=1 << 20, queue_file_bytes=200) as store:
        for number in range(queues):
            store.log.append(message(number, topic=f"t{number}"))
    before = (root / "checkpoint").read_bytes()
    log = CommitLog(root)
    reads = _reads()
    log.close()
    reads = _reads() - reads

    assert before == (root / "checkpoint").read_bytes()
    with Store(root) as store:
        assert store.log.recovery.is_clean
        assert (0, 1) == store.queue_range("t2", 2)
    return reads


def _reads() -> int:
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(dict(line.split(": ") for line in lines)["syscr"])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs /proc")
def test_a_close_reads_no_queue_that_is_complete(tmp_path: Path) -> None:
    """
    However many there are; `checkpoint` keeps the times of their entries.
    """
    few, many = (_reads_of_a_close(tmp_path / str(n), n) for n in (3, 300))

    assert few == many
