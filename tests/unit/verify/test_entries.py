"""
The judgement of entries that no record matched.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pystore.consumequeue.files import QueueFiles
from pystore.consumequeue.queue import ENTRY_DTYPE, ConsumeQueue
from pystore.core.log_reader import LogReader
from pystore.fs.fd_cache import FdCache
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog
from pystore.verify.entries import (
    EntryJudge,
    LostEntries,
    RecordPlace,
    SlotMarks,
    read_place,
)
from pystore.verify.report import Damage


@pytest.fixture
def queue(tmp_path: Path) -> ConsumeQueue:
    """
    A queue without a file.
    """
    files = QueueFiles(tmp_path / "T" / "0", 400, is_writable=False, pool=FdCache())
    return ConsumeQueue("T", 0, files)


def judged(
    queue: ConsumeQueue,
    place_of: Callable[[int], RecordPlace | None],
    *,
    is_below: bool = True,
    is_at_rest: bool = False,
    offset: int = 1000,
) -> list[Damage]:
    """
    The damage of one entry, which is at queue offset 5.
    """
    judge = EntryJudge(Path("/store"), 4096, place_of)
    entries = np.array([(offset, 100, 0)], ENTRY_DTYPE)
    no, below = np.zeros(1, np.bool_), np.array([is_below])
    judge.check_slots(
        queue,
        [SlotMarks(5, entries, no, no, below)],
        log=(0, 4096),
        unscanned=[(2000, 3000)],
        is_at_rest=is_at_rest,
    )
    return judge.damages


def test_a_record_of_another_queue_is_wrong_if_nothing_proves_it(
    queue: ConsumeQueue,
) -> None:
    """
    The entry and the order of its queue are two witnesses.
    """
    (found,) = judged(queue, lambda _: RecordPlace("U", 0, 5, 100, is_proved=False))

    assert ("log", 1000, 1100) == (found.part, found.offset, found.end)
    assert found.path.endswith("/commitlog/" + "0" * 20)


@pytest.mark.parametrize(
    "place",
    [
        None,
        RecordPlace("U", 0, 5, 100, is_proved=True),
        RecordPlace("T", 0, 5, 99, is_proved=False),
    ],
    ids=["no record", "proved by its CRC", "another size"],
)
def test_else_the_entry_is_wrong(
    queue: ConsumeQueue, place: RecordPlace | None
) -> None:
    """
    A queue is built anew without loss.
    """
    (found,) = judged(queue, lambda _: place)

    assert ("queue", 1000) == (found.part, found.offset)
    assert "queue offset 5 names 100 bytes" in found.reason


def test_an_entry_with_another_tags_code_is_right(queue: ConsumeQueue) -> None:
    """
    The code depends on the configuration of the broker.
    """
    assert [] == judged(queue, lambda _: RecordPlace("T", 0, 5, 100, is_proved=False))


def test_an_entry_above_the_end_is_wrong_below_others_or_at_rest(
    queue: ConsumeQueue,
) -> None:
    """
    Else it may be newer than the check.
    """
    assert judged(queue, lambda _: None, offset=4000)
    assert judged(queue, lambda _: None, offset=4000, is_below=False, is_at_rest=True)
    assert [] == judged(queue, lambda _: None, offset=4000, is_below=False)


def test_an_entry_into_damage_is_not_judged(queue: ConsumeQueue) -> None:
    """
    Its record could not be read.
    """
    assert [] == judged(queue, lambda _: None, offset=2500)


def test_lost_entries_of_convicted_records_are_no_damage() -> None:
    """
    Such a record names a wrong queue, which has no entry of it.
    """
    judge = EntryJudge(Path("/store"), 4096, lambda _: None)
    lost = LostEntries()
    lost.add(np.array([7, 6]), np.array([700, 600]))
    lost.join(LostEntries(1, 3, [300]))
    lost.join(LostEntries())
    judge.convicted |= {700, 600, 300}
    judge.check_lost("T", 0, lost)
    assert [] == judge.damages

    judge.convicted.remove(300)
    judge.check_lost("T", 0, lost)

    (found,) = judge.damages
    assert found.reason.startswith("3 entries from queue offset 3 on are missing")
    assert "/store/consumequeue/T/0" == found.path


def test_the_place_of_a_record_is_read_from_the_log(tmp_path: Path) -> None:
    """
    Only where a whole record begins.
    """
    with CommitLog(tmp_path / "a", segment_size=65536) as log:
        at = log.append(Message("T", b"x" * 100, queue_id=2))
    with LogReader(tmp_path / "a") as reader:
        found = read_place(reader, at.offset)
        assert found is not None
        assert ("T", 2, 0, True) == (*found[:3], found.is_proved)
        assert read_place(reader, at.offset + 1) is None
        assert read_place(reader, 10**9) is None


def test_a_store_without_queues_lost_them_if_it_has_records() -> None:
    """
    An empty one lost none.
    """
    judge = EntryJudge(Path("/store"), 4096, lambda _: None)
    judge.check_none(0)
    assert [] == judge.damages
    judge.check_none(3)
    assert "all 3 entries are missing" in judge.damages[0].reason


def test_an_entry_that_came_after_the_queue_was_loaded_is_no_damage(
    tmp_path: Path,
) -> None:
    """
    A writer appends meanwhile. An entry that names nothing is damage.
    """
    folder = tmp_path / "T" / "0"
    folder.mkdir(parents=True)
    entry = (64).to_bytes(8) + (100).to_bytes(4) + bytes(8)
    path = folder / ("0" * 20)
    path.write_bytes(entry.ljust(400, b"\0"))
    files = QueueFiles(folder, 400, is_writable=False, pool=FdCache())
    queue = ConsumeQueue("T", 0, files)
    queue.load()
    judge = EntryJudge(tmp_path, 4096, lambda _: None)

    path.write_bytes((entry + entry).ljust(400, b"\0"))
    judge.check_end(queue, 400, 64)
    assert [] == judge.damages

    path.write_bytes((entry + b"\xff" + entry[1:]).ljust(400, b"\0"))
    judge.check_end(queue, 400, 64)
    assert ["queue"] == [one.part for one in judge.damages]
