"""
Every acknowledged record is looked up in every store.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.command_line import overwrite, segment_file
from lib.demo_library import make_library

from pystore.demo.corpus import read_corpus
from pystore.demo.store_checks import check_stores
from pystore.demo.stream_writer import StreamedAck
from pystore.demo.workload import AppendJobs
from pystore.store.commit_log import CommitLog

SEGMENT = 65536


@pytest.fixture
def jobs(tmp_path: Path) -> AppendJobs:
    """
    Some jobs.
    """
    return AppendJobs(read_corpus(make_library(tmp_path / "library", files=3)))


def append_all(store: Path, jobs: AppendJobs) -> list[StreamedAck]:
    """
    Does all jobs in a store.
    """
    acks = []
    with CommitLog(store, segment_size=SEGMENT) as log:
        for job in range(jobs.count):
            done = log.append_columns(jobs.piece(job).columns())
            acks.append(StreamedAck(job, done.offset, done.end, done.count, 1))
    return acks


def test_a_record_that_one_store_lacks_is_missing_there(
    tmp_path: Path, jobs: AppendJobs
) -> None:
    """
    And not in the others.
    """
    stores = [(number, tmp_path / f"s{number}") for number in (1, 2, 3)]
    acks, *_ = [append_all(store, jobs) for _, store in stores]
    with CommitLog(stores[1][1]) as log:
        log.cut(acks[-1].offset)
    path, at = segment_file(stores[2][1], 0), acks[0].end - 1
    overwrite(path, at, bytes([path.read_bytes()[at] ^ 1]))
    labels: set[str] = set()
    whole, cut, bad = check_stores(
        stores, acks, jobs, lambda label, _done, _total: labels.add(label)
    )

    lines = sum(ack.count for ack in acks)
    assert whole.is_good
    assert (1, lines, 0, lines, "whole") == (
        whole.broker,
        whole.compared,
        whole.missing,
        whole.records,
        whole.verdict,
    )
    assert (acks[-1].count, "whole") == (cut.missing, cut.verdict)
    assert f"offset {acks[-1].offset}: " in cut.problem
    assert not cut.is_good
    assert "damaged" == bad.verdict
    assert not bad.is_good
    assert bad.problem
    assert {f"broker {number}: look up" for number in (1, 2, 3)} <= labels
