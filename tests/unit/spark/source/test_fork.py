"""
Where reading goes on after a cut: by the cuts of the log, by epochs, by kept records.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, fill

from pystore.epochs.table import EpochTable
from pystore.fs.cut_history import CutHistory
from pystore.spark.source.fork import (
    KeptRecord,
    find_fork,
    holds_record,
    kept_records,
    thinned,
)
from pystore.store.commit_log import CommitLog

NO_EPOCHS = EpochTable(), EpochTable()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    """
    A log of 1000 records in several segments.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 1000)
        yield log


def record_at(log: CommitLog, offset: int) -> KeptRecord:
    """
    A record as a position keeps it.
    """
    size = log.read(offset).size
    crc = zlib.crc32(log.reader.acquire(offset, size))
    return KeptRecord(offset, offset + size, crc)


def test_the_least_cut_since_the_position_is_the_fork(log: CommitLog) -> None:
    """
    Without a cut it is the position; unknown generations are not used.
    """
    cuts = CutHistory(3, 3).after(4, 700).after(5, 900)

    def fork(generation: int | None) -> int:
        return find_fork(
            log.reader,
            2000,
            (),
            generation=generation,
            cuts=cuts,
            epochs=NO_EPOCHS,
        )

    assert [700, 900, 2000] == [fork(seen) for seen in (3, 4, 5)]
    assert [0, 0, 0] == [fork(seen) for seen in (2, 6, None)]


def test_epochs_show_the_fork_on_another_replica(log: CommitLog) -> None:
    """
    A new master wrote epoch 3 from offset 1500 on. An old master's records above are
    gone. If the epochs do not show the cut, they are not used.
    """
    seen = EpochTable.of([(1, 0), (2, 1000)])

    def fork(*pairs: tuple[int, int]) -> int:
        return find_fork(
            log.reader,
            2000,
            (),
            generation=None,
            cuts=None,
            epochs=(seen, EpochTable.of(pairs)),
        )

    assert 1500 == fork((1, 0), (2, 1000), (3, 1500))
    assert 1000 == fork((1, 0), (3, 1000))
    assert 0 == fork((1, 0), (2, 1000))


def test_a_kept_record_checks_the_other_witnesses(log: CommitLog) -> None:
    """
    The fork is not below one that is there, and not above one that is missing.
    """
    offsets = [int(offset) for rows in log.scan() for offset in rows["offset"]]
    there = record_at(log, offsets[50])
    changed = record_at(log, offsets[90])._replace(crc=1)

    def fork(cut: int) -> int:
        return find_fork(
            log.reader,
            offsets[200],
            (changed, there),
            generation=0,
            cuts=CutHistory().after(1, cut),
            epochs=NO_EPOCHS,
        )

    assert offsets[70] == fork(offsets[70])
    assert there.end == fork(offsets[20])
    assert there.end == fork(offsets[150])


def test_a_record_is_held_byte_for_byte(log: CommitLog) -> None:
    """
    Not above the end of the log, and not with another checksum.
    """
    first = record_at(log, 0)
    end = log.end_offset

    assert holds_record(log.reader, first)
    assert not holds_record(log.reader, first._replace(crc=first.crc ^ 1))
    assert not holds_record(log.reader, KeptRecord(end, end + 100, 0))


def test_kept_records_are_few_and_the_first_of_the_log_is_among_them(
    log: CommitLog,
) -> None:
    """
    The distance doubles from one to the next, for any number of positions.
    """
    kept: tuple[KeptRecord, ...] = ()
    offsets = [int(offset) for rows in log.scan() for offset in rows["offset"]]
    for offset in offsets[1:]:
        kept = kept_records(log.reader, offset, kept)
        last = record_at(log, offset)
        kept = (last, *kept)

    assert kept[-1].offset < SEGMENT
    assert len(kept) <= 17
    assert all(holds_record(log.reader, one) for one in kept)
    many = [KeptRecord(at, at + 1, 0) for at in range(0, 1 << 20, 16)]
    found = thinned(many, 1 << 20)
    distances = [(1 << 20) - one.end for one in found]
    assert len(found) <= 16
    assert all(2 * near <= far for near, far in itertools.pairwise(distances))
