"""
Every difference between appended and read records is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from lib.command_line import overwrite, segment_file
from lib.demo_library import make_library

from pystore.demo.ack_channel import ACK_DTYPE, Acks
from pystore.demo.compare import compare
from pystore.demo.corpus import read_corpus
from pystore.demo.workload import AppendJobs, Piece
from pystore.message.columns import gather_columns
from pystore.store.commit_log import CommitLog

SEGMENT = 65536


@pytest.fixture
def jobs(tmp_path: Path) -> AppendJobs:
    """
    Some jobs.
    """
    return AppendJobs(read_corpus(make_library(tmp_path / "library")), lines_max=150)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    """
    A log for the jobs; some jobs span two segments.
    """
    with CommitLog(tmp_path / "s", segment_size=SEGMENT) as log:
        yield log


def append_all(log: CommitLog, jobs: AppendJobs) -> Acks:
    """
    Does every job.
    """
    acks = np.zeros(jobs.count, ACK_DTYPE)
    for job in range(jobs.count):
        done = log.append_columns(jobs.piece(job).columns())
        acks[job] = (job, done.offset, done.end, done.count)
    return acks


def test_nothing_is_missing_for_any_order_of_the_acks(
    log: CommitLog, jobs: AppendJobs
) -> None:
    """
    Every line is compared, also of jobs that span segments.
    """
    acks = append_all(log, jobs)
    steps: list[int] = []
    found = compare(log.reader, acks[::-1], jobs, steps.append)

    bodies = [jobs.piece(job).bodies[0] for job in range(jobs.count)]
    assert (12 * 200, 0, "") == (found.records, found.missing, found.problem)
    assert sum(int(o[-1] - o[0]) for o in bodies) == found.body_bytes
    assert [0] == steps
    assert any(ack["offset"] // SEGMENT != (ack["end"] - 1) // SEGMENT for ack in acks)


def test_one_changed_byte_is_found(
    log: CommitLog, jobs: AppendJobs, tmp_path: Path
) -> None:
    """
    In a body, and in a key.
    """
    acks = append_all(log, jobs)
    row = next(log.scan(int(acks[3]["offset"])))[5]
    for at, words in ((row["body_at"], "a body"), (row["properties_at"] + 6, "a key")):
        place = int(row["offset"] + at)
        path = segment_file(tmp_path / "s", place - place % SEGMENT)
        before = path.read_bytes()[place % SEGMENT]
        overwrite(path, place % SEGMENT, bytes([before ^ 1]))
        found = compare(log.reader, acks, jobs)
        overwrite(path, place % SEGMENT, bytes([before]))

        assert int(acks[3]["count"]) == found.missing
        assert f"offset {acks[3]['offset']}: {words}" in found.problem
    assert 0 == compare(log.reader, acks, jobs).missing


@pytest.mark.parametrize(
    ("field", "change"), [("offset", 1), ("end", -1), ("count", -1), ("job", 1)]
)
def test_an_acknowledgement_that_does_not_match_counts_as_missing(
    field: str, change: int, log: CommitLog, jobs: AppendJobs
) -> None:
    """
    Another offset, another number of records, another job.
    """
    acks = append_all(log, jobs)
    acks[2][field] += change

    assert int(acks[2]["count"]) == compare(log.reader, acks, jobs).missing


def test_records_above_the_end_are_missing(log: CommitLog, jobs: AppendJobs) -> None:
    """
    As after a wrong cut.
    """
    acks = append_all(log, jobs)
    log.cut(int(acks[10]["offset"]))

    assert int(acks[10:]["count"].sum()) == compare(log.reader, acks, jobs).missing


@pytest.mark.parametrize("what", ["topic", "queue", "key", "body"])
def test_records_of_another_topic_or_queue_are_missing(
    what: str, log: CommitLog, jobs: AppendJobs
) -> None:
    """
    The right number of records of the right sizes is not enough.
    """
    piece: Piece = jobs.piece(0)
    offsets, data = piece.keys if what == "key" else piece.bodies
    changed = (offsets, data[:-1].swapcase() + data[-1:])
    done = log.append_columns(
        gather_columns(
            "lines-xx" if what == "topic" else piece.file.topic,
            changed if what == "body" else piece.bodies,
            keys=changed if what == "key" else piece.keys,
            queue_id=piece.file.queue_id + (what == "queue"),
        )
    )
    ack = np.array([(0, done.offset, done.end, done.count)], ACK_DTYPE)

    assert done.count == compare(log.reader, ack, jobs).missing
