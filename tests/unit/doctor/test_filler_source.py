"""
Filler records fit the log that they are written into.
"""

from __future__ import annotations

from pathlib import Path

from lib.command_line import overwrite, segment_file
from lib.store.pairs import SEGMENT, Pair, fill
from lib.store.stores import kill_while

from pystore import CommitLog
from pystore.doctor.apply import heal
from pystore.doctor.filler import FILLER_TOPIC
from pystore.doctor.filler_source import FillerSource, may_fill
from pystore.verify import verify_store

BOOT_ID_AT = 24
PUBLISHED_END_AT = 48
"""In ``meta/live``."""


def test_only_the_damaged_records_are_lost(pair: Pair) -> None:
    """
    Each is replaced in place, the others stay, and the queues have no entry of it.
    """
    damaged = []
    for base in range(0, 3 * SEGMENT, SEGMENT):
        overwrite(segment_file(pair.store, base), 1000, b"????")
    damaged = [damage.offset for damage in verify_store(pair.store).damages]
    heal(pair.store, accept_loss=True)
    report = verify_store(pair.store)

    assert "whole" == report.verdict
    assert 300 == report.records
    assert 300 - len(damaged) == report.queues.entries
    with CommitLog(pair.store, mode="r") as log, CommitLog(pair.copy, mode="r") as copy:
        for rows in copy.scan():
            for offset in rows["offset"].tolist():
                found = log.read(offset)
                assert (offset in damaged) == (FILLER_TOPIC == found.topic)
                assert offset in damaged or found == copy.read(offset)


def test_a_filler_at_the_end_of_the_log_ends_where_the_log_did(pair: Pair) -> None:
    """
    In another boot the live page does not say where; the size of the last record lost a
    bit, so the damage goes on to the end of the segment.
    """
    with CommitLog(pair.store, mode="r") as log:
        end = log.end_offset
        last = [int(row["offset"]) for rows in log.scan() for row in rows][-1]
    overwrite(pair.store / "meta/live", BOOT_ID_AT, bytes(range(16)))
    base = last - last % SEGMENT
    overwrite(segment_file(pair.store, base), last - base, b"\x70")
    (damage,) = verify_store(pair.store).damages
    assert base + SEGMENT == damage.end
    heal(pair.store, accept_loss=True)

    assert "whole" == verify_store(pair.store).verdict
    with CommitLog(pair.store) as log:
        assert end == log.end_offset
        assert FILLER_TOPIC == log.read(last).topic


def test_no_filler_stands_for_segments_that_are_missing(pair: Pair) -> None:
    """
    A published end far above the log asks for more than the last segment: with consent
    the log ends where its records do, and none is lost.
    """
    with CommitLog(pair.store, mode="r") as log:
        end = log.end_offset
    kill_while(pair.store, lambda log: log.sync(), segment_size=SEGMENT)
    overwrite(
        pair.store / "meta/live", PUBLISHED_END_AT, (1 << 40).to_bytes(8, "little")
    )
    before = segment_file(pair.store, end - end % SEGMENT).read_bytes()
    assert verify_store(pair.store).damages
    plan = heal(pair.store).plan
    assert ["cut"] == [step.heal for step in plan.steps]
    assert before == segment_file(pair.store, end - end % SEGMENT).read_bytes()
    heal(pair.store, accept_loss=True)
    report = verify_store(pair.store)

    assert ("whole", 300, end) == (report.verdict, report.records, report.end_offset)


def test_a_filler_has_the_time_and_the_checksum_of_the_record_before(
    pair: Pair,
) -> None:
    """
    A search by time still finds its way.
    """
    with CommitLog(pair.store, mode="r") as log:
        rows = [row for rows in log.scan() for row in rows]
    before, lost = rows[100], rows[101]
    start = int(lost["offset"])
    with FillerSource(pair.store) as source:
        data = source.bytes(start, start + int(lost["size"]))

    assert int(lost["size"]) == len(data)
    assert int(before["store_ms"]).to_bytes(8) == data[56:64]
    assert b"__CRC32#" == data[-20:-12]


def test_a_store_of_a_set_is_not_filled(pair: Pair, tmp_path: Path) -> None:
    """
    Its replicas must stay equal.
    """
    assert may_fill(pair.store)
    with CommitLog(pair.copy) as log:
        log.begin_epoch(1)
    assert not may_fill(pair.copy)

    (pair.store / "brokerIdentity").write_text("{}")
    assert not may_fill(pair.store)
    fill(tmp_path / "other")
    assert may_fill(tmp_path / "other")


def test_a_bad_live_page_makes_no_single_store_of_a_replica(pair: Pair) -> None:
    """
    The epochs are in the database, too.
    """
    with CommitLog(pair.store) as log:
        log.begin_epoch(1)
    (pair.store / "meta/live").unlink()
    assert not may_fill(pair.store)
    overwrite(segment_file(pair.store, SEGMENT), 800, b"????")

    assert "cut" in [step.heal for step in heal(pair.store).plan.steps]


def test_a_store_whose_epochs_cannot_be_read_is_not_filled(pair: Pair) -> None:
    """
    It may be of a set.
    """
    (pair.store / "meta/lmdb/data.mdb").unlink()
    assert not may_fill(pair.store)


def test_a_missing_file_cannot_be_filled(pair: Pair) -> None:
    """
    There is nothing to write fillers into.
    """
    last = 2 * SEGMENT
    for path in (pair.store / "commitlog").iterdir():
        if int(path.name) >= last:
            path.unlink()
    with FillerSource(pair.store) as source:
        assert b"" == source.bytes(last, last + 500)
        assert b"" == source.bytes(last - 500, last + 500)
