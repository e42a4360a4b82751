"""
A topic that RocketMQ deleted and made again begins at queue offset 0, and its log keeps
the records of the old one: neither tool takes these for lost entries.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lib.spark.verify_job import run_here
from lib.store.segment_files import segment, write

from pystore.consumequeue.queue import ENTRY_SIZE
from pystore.doctor.apply import heal
from pystore.message.message import Message
from pystore.spark.verify.run import verify_stores
from pystore.spark.verify.summary import is_bad
from pystore.store.store import Store
from pystore.verify.store import verify_store

OLD = 10
FILE_BYTES = 400
AT_QUEUE_OFFSET = 20


def _made_again(root: Path, count: int, body: bytes) -> None:
    """
    A store without metadata, as RocketMQ leaves it: a topic with ten records, and the
    same topic, made again, with others. The queue has the entries of these alone.
    """
    with Store(
        root, segment_size=65536, property_crc=False, queue_file_bytes=FILE_BYTES
    ) as store:
        starts = [
            store.log.append(Message("T", body)).offset for _ in range(OLD + count)
        ]
    for at, start in enumerate(starts[OLD:]):
        base = start - start % 65536
        number = at.to_bytes(8, "big")
        write(segment(root, base), start - base + AT_QUEUE_OFFSET, number)
    files = sorted((root / "consumequeue" / "T" / "0").iterdir())
    entries = b"".join(one.read_bytes() for one in files)
    entries = entries[OLD * ENTRY_SIZE : (OLD + count) * ENTRY_SIZE]
    for at, path in enumerate(files):
        piece = entries[at * FILE_BYTES : (at + 1) * FILE_BYTES]
        if piece:
            path.write_bytes(piece.ljust(FILE_BYTES, b"\0"))
        else:
            path.unlink()
    shutil.rmtree(root / "meta")


@pytest.mark.parametrize("body", [b"x", bytes(9000)], ids=["one segment", "several"])
@pytest.mark.parametrize("count", [1, 5, 10, 12])
def test_the_old_records_of_a_topic_that_was_made_again_are_not_missing(
    tmp_path: Path, count: int, body: bytes
) -> None:
    """
    Before and after pystore opened the store and appended, also with fewer records than
    before; the next queue offset is that of the new topic.
    """
    root = tmp_path / "store"
    _made_again(root, count, body)
    assert "whole" == verify_store(root).verdict

    for more in range(2):
        with Store(root) as store:
            assert (0, count + more) == store.queue_range("T", 0)
            offset = store.log.append(Message("T", b"new")).offset
            assert count + more == store.log.read(offset).queue_offset
        report = verify_store(root)
        assert ([], 0) == (report.damages, report.queues.missing)
        assert not is_bad(verify_stores(run_here, [str(root)], replicas="none"))


def test_entries_of_the_new_topic_that_are_missing_are_damage(tmp_path: Path) -> None:
    """
    The old records explain no loss of a new one's entry.
    """
    root = tmp_path / "store"
    _made_again(root, 5, b"x")
    with Store(root):
        pass
    (path,) = (root / "consumequeue" / "T" / "0").iterdir()
    write(path, 3 * ENTRY_SIZE, bytes(2 * ENTRY_SIZE))

    (damage,) = verify_store(root).damages
    assert "2 entries from queue offset 3 on are missing" in damage.reason
    assert is_bad(verify_stores(run_here, [str(root)], replicas="none"))


def test_a_record_behind_a_queue_that_was_built_again_has_a_slot_of_its_own(
    tmp_path: Path,
) -> None:
    """
    As RocketMQ does, the build takes the first record of each queue offset, so the
    queue is as long as the old topic's.
    """
    root = tmp_path / "store"
    _made_again(root, 5, b"x")
    with Store(root):
        pass
    (path,) = (root / "consumequeue" / "T" / "0").iterdir()
    write(path, ENTRY_SIZE, b"\x7f" * 8)

    assert ["rebuild"] == [step.heal for step in heal(root).plan.steps]
    with Store(root) as store:
        end = store.queue_range("T", 0)[1]
        offset = store.log.append(Message("T", b"new")).offset
        assert end == store.log.read(offset).queue_offset
        store.dispatch()
        assert b"new" == store.read("T", 0, end).body
    assert "whole" == verify_store(root).verdict
