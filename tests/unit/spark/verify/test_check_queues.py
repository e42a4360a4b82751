"""
The entries of consume queues that no record of the log matched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pystore.consumequeue.queue import ENTRY_SIZE
from pystore.consumequeue.queues import ConsumeQueues
from pystore.spark.verify.check_queues import QueueFacts, check_entries
from pystore.spark.verify.queue_runs import QueueRun, QueueSummary
from pystore.verify.entries import LostEntries
from pystore.verify.report import Damage

QUEUE = ("T", 0)
RECORD = 100
"""Bytes of each record here; the record of queue offset n begins at 100 n."""

FILLER = (0, 2**31 - 1, 0)
SLOTS = 200


def run(first: int, last: int, offset: int | None = None) -> QueueRun:
    """
    A run of records, in a log without other queues.
    """
    start = first * RECORD if offset is None else offset
    return QueueRun(first, last, start, start + (last - first) * RECORD)


def entries(first: int, above: int) -> list[tuple[int, int, int]]:
    """
    The entries of these queue offsets.
    """
    return [(index * RECORD, RECORD, 0) for index in range(first, above)]


def write_queue(
    root: Path,
    slots: Sequence[tuple[int, int, int]],
    queue: tuple[str, int] = QUEUE,
    first: int = 0,
) -> Path:
    """
    A queue of one file, which begins at a queue offset.
    """
    folder = root / "consumequeue" / queue[0] / str(queue[1])
    folder.mkdir(parents=True)
    data = b"".join(
        offset.to_bytes(8) + size.to_bytes(4) + code.to_bytes(8)
        for offset, size, code in slots
    )
    path = folder / f"{first * ENTRY_SIZE:020d}"
    path.write_bytes(data.ljust(SLOTS * ENTRY_SIZE, b"\0"))
    return folder


@pytest.fixture
def queues(tmp_path: Path) -> Iterator[ConsumeQueues]:
    """
    The queues of a store; load them once their files exist.
    """
    with ConsumeQueues(tmp_path, SLOTS * ENTRY_SIZE) as queues:
        yield queues


def checked(
    queues: ConsumeQueues,
    runs: Sequence[QueueRun],
    wrong: Sequence[int] = (),
    *,
    start: int = 0,
    end: int = 10**6,
    unseen: Sequence[tuple[int, int]] = (),
) -> list[Damage]:
    """
    The damage of the entries, if all records but the wrong ones match the one queue.
    """
    queues.load()
    slots = {
        slot for one in runs for slot in range(one.first_index, one.last_index + 1)
    }
    right = [(slot, slot + 1) for slot in sorted(slots.difference(wrong))]
    return check_entries(
        Path("/no/such/store"),
        queues,
        QueueFacts([[QueueSummary(*QUEUE, list(runs), right=right)]]),
        queues.lengths(),
        segment_size=1 << 20,
        log=(start, end),
        unseen=unseen,
        is_at_rest=False,
    )


def named(findings: Sequence[Damage]) -> list[int]:
    """
    The queue offsets that the damages name.
    """
    return [int(one.reason.split("queue offset ")[1].split()[0]) for one in findings]


def test_entries_that_name_their_records_are_no_finding(
    queues: ConsumeQueues, tmp_path: Path
) -> None:
    """
    Each record of a run has one.
    """
    write_queue(tmp_path, entries(0, 50))

    assert [] == checked(queues, [run(0, 20), run(21, 49)])


def test_an_entry_without_a_record_is_bad(
    queues: ConsumeQueues, tmp_path: Path
) -> None:
    """
    It may be before, between or after the existing records.
    """
    folder = write_queue(tmp_path, entries(0, 10))
    found = checked(queues, [run(1, 4), run(6, 8)])

    assert [0, 5, 9] == named(found)
    assert (str(folder), 500) == (found[1].path, found[1].offset)
    assert found[1].reason.startswith("queue offset 5 names 100 bytes at ")
    assert "pystore doctor --apply" in found[1].reason


def test_an_entry_of_another_record_is_bad(
    queues: ConsumeQueues, tmp_path: Path
) -> None:
    """
    The segment's task compared it.
    """
    slots = entries(0, 10)
    slots[3] = (350, RECORD, 0)
    write_queue(tmp_path, slots)
    found = checked(queues, [run(0, 9)], wrong=[3])

    assert [(3, 350)] == [(named([one])[0], one.offset) for one in found]


def test_a_queue_whose_topic_is_nowhere_in_the_log_is_bad(
    queues: ConsumeQueues, tmp_path: Path
) -> None:
    """
    None of its entries can name a record.
    """
    write_queue(tmp_path, entries(0, 3), ("Other", 7))

    assert [0, 1, 2] == named(checked(queues, []))


def test_a_light_queue_is_not_checked(queues: ConsumeQueues, tmp_path: Path) -> None:
    """
    Its entries name records of other topics.
    """
    write_queue(tmp_path, entries(0, 3), ("%LMQ%x", 0))

    assert [] == checked(queues, [])


def test_fillers_are_no_finding(queues: ConsumeQueues, tmp_path: Path) -> None:
    """
    They fill the slots before a queue's first entry, and those of lost records.
    """
    write_queue(tmp_path, [FILLER] * 5 + entries(5, 10))

    assert [] == checked(queues, [run(5, 9)])


def test_entries_of_deleted_records_are_no_finding(
    queues: ConsumeQueues, tmp_path: Path
) -> None:
    """
    Queue files are deleted later than segments.
    """
    write_queue(tmp_path, entries(0, 10))

    assert [] == checked(queues, [run(6, 9)], start=600)
    assert [5] == named(checked(queues, [run(6, 9)], start=500))


def test_entries_above_the_end_are_not_checked(
    queues: ConsumeQueues, tmp_path: Path
) -> None:
    """
    The store was written while the job ran, or opening it will cut them.
    """
    write_queue(tmp_path, entries(0, 10))

    assert [] == checked(queues, [run(0, 5)], end=699)
    assert [6] == named(checked(queues, [run(0, 5)], end=700))


def test_entries_into_damage_are_not_checked(
    queues: ConsumeQueues, tmp_path: Path
) -> None:
    """
    Their records cannot be read; the damage is a finding.
    """
    write_queue(tmp_path, entries(0, 10))

    assert [] == checked(queues, [run(0, 4), run(8, 9)], unseen=[(500, 800)])
    assert [7] == named(checked(queues, [run(0, 4), run(8, 9)], unseen=[(500, 700)]))


def test_a_queue_may_begin_above_0(queues: ConsumeQueues, tmp_path: Path) -> None:
    """
    Its first files were deleted.
    """
    write_queue(tmp_path, entries(SLOTS, SLOTS + 5), first=SLOTS)

    assert [] == checked(queues, [run(0, SLOTS + 4)])
    assert [SLOTS + 4] == named(checked(queues, [run(0, SLOTS + 3)]))


def test_the_findings_about_entries_of_one_queue_are_limited(
    queues: ConsumeQueues, tmp_path: Path
) -> None:
    """
    A last line says that there are more; other queues have their own findings.
    """
    write_queue(tmp_path, entries(0, 100))
    write_queue(tmp_path, entries(0, 2), ("U", 0))
    found = checked(queues, [])

    assert list(range(20)) == named(found[:20])
    assert "80 more entries of this queue are bad" in found[20].reason
    assert [0, 1] == named(found[21:])


def test_a_repeated_queue_offset_is_no_finding_about_entries(
    queues: ConsumeQueues, tmp_path: Path
) -> None:
    """
    The entry names the first record; a note says that the offset comes twice.
    """
    write_queue(tmp_path, entries(0, 10))

    assert [] == checked(queues, [run(0, 9), run(3, 5, 5000)])


def test_facts_of_segments_are_joined() -> None:
    """
    A queue with too many runs is passed over.
    """
    one = QueueSummary("T", 0, [run(0, 1)], missing=1, right=[(0, 1)])
    two = QueueSummary("T", 0, [run(2, 3)], is_cut=True, missing=2, right=[(2, 4)])
    two.lost = LostEntries(2, 1, [100])

    facts = QueueFacts([[one], [two]])

    assert [(0, 1), (2, 4)] == facts.right[QUEUE]
    assert (3, {QUEUE}) == (facts.missing, facts.passed_over)
    assert LostEntries(2, 1, [100]) == facts.lost[QUEUE]
