"""
Opening for reading, beside a writer and without one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from lib.oracle.golden_data import STORES, GoldenStore
from lib.store.cold_files import files_of, make_cold, pages_in_memory
from lib.store.paused_opening import paused_opening
from lib.store.segment_files import restart_machine, segment, write
from lib.store.stores import SEGMENT, bodies, fill, kill_while

from pystore import arrow_reader
from pystore.errors import CorruptError, CutError
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.name)
def test_a_golden_store_is_read_to_its_last_record(
    store: GoldenStore, tmp_path: Path
) -> None:
    """
    A reader of a plain RocketMQ store sees every record and writes nothing.
    """
    root = store.extract(tmp_path)
    with CommitLog(root, mode="r") as log:
        offsets = [int(at) for rows in log.scan() for at in rows["offset"]]

    assert [record["offset"] for record in store.records] == offsets
    assert not (root / "meta").exists()


def test_a_reader_does_not_pass_the_end_of_a_live_writer(tmp_path: Path) -> None:
    """
    A reader never sees incomplete records above the published end (A4).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 5)
        end = log.end_offset
        with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(end)
            file.write(b"\0\0\0\x70")
        with CommitLog(root, mode="r") as reader:
            assert end == reader.end_offset
        with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(end)
            file.write(b"\0\0\0\0")


def test_a_reader_gets_an_error_for_a_cut_below_its_read(tmp_path: Path) -> None:
    """
    The cut generation moved: what was read does not count (A4).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 100)
        with CommitLog(root, mode="r") as reader:
            generation, end = reader.ends.cut_generation, reader.end_offset
            log.cut(offsets[50])

            with pytest.raises(CutError, match="cut"):
                reader.reader.unchanged(generation, end)
            reader.reader.unchanged(generation, offsets[50])
            assert 50 == len(bodies(reader))


def test_a_killed_writers_store_is_read_to_its_published_end(tmp_path: Path) -> None:
    """
    In the same boot the live page still has the end.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 500))
    with CommitLog(root, mode="r") as log:
        assert 500 == len(bodies(log))


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_flipped_bit_of_the_published_end_misleads_no_reader(
    tmp_path: Path, *, is_synced: bool
) -> None:
    """
    Each bit of the word, in the page of a killed writer. A lower end is taken only if a
    record ends there and nothing above it was stored as synced; below a higher end
    each record is read.
    """
    root = tmp_path / "store"

    def work(log: CommitLog) -> None:
        fill(log, 20)
        if is_synced:
            log.sync()
            log.keep()

    kill_while(root, work)
    with CommitLog(root, mode="r") as log:
        expected, end = bodies(log), log.end_offset
        ends = {int(at) for rows in log.scan() for at in rows["offset"]}
    page = root / "meta/live"
    content = page.read_bytes()
    for bit in range(64):
        wrong = int.from_bytes(content[48:56], "little") ^ 1 << bit
        page.write_bytes(content[:48] + wrong.to_bytes(8, "little") + content[56:])
        with CommitLog(root, mode="r") as log:
            if wrong in ends and not is_synced:
                assert wrong == log.end_offset
            elif wrong < end:
                assert (end, expected) == (log.end_offset, bodies(log)), bit
                with arrow_reader(root, columns=["offset"]) as reader:
                    assert len(expected) == reader.read_all().num_rows, bit
            else:
                read = [log.read(at).body for at in sorted(ends)]
                assert expected == read, bit


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_flipped_bit_of_the_published_end_of_a_closed_store_is_noticed(
    tmp_path: Path, *, has_checkpoint: bool
) -> None:
    """
    Each bit of the word: the end is what was stored as synced, for each reader.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 20)
        expected, end = bodies(log), log.end_offset
    if not has_checkpoint:
        (root / "checkpoint").unlink()
    page = root / "meta/live"
    content = page.read_bytes()
    for bit in range(64):
        wrong = int.from_bytes(content[48:56], "little") ^ 1 << bit
        page.write_bytes(content[:48] + wrong.to_bytes(8, "little") + content[56:])
        with CommitLog(root, mode="r") as log:
            assert (end, expected) == (log.end_offset, bodies(log)), bit
        with arrow_reader(root, columns=["offset"]) as reader:
            assert len(expected) == reader.read_all().num_rows, bit


def test_a_closed_store_without_its_newest_segment_ends_where_it_ended(
    tmp_path: Path,
) -> None:
    """
    No byte is there that could contradict the published end.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 1500)
        end = log.end_offset
    segment(root, end - end % SEGMENT).unlink()
    with CommitLog(root, mode="r") as log:
        assert end == log.end_offset
        with pytest.raises(CorruptError, match="is missing"):
            list(log.scan())


def test_records_of_another_program_above_the_published_end_are_found(
    tmp_path: Path,
) -> None:
    """
    With bytes above the published end of a closed store the page is not valid.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 10)
        end = log.end_offset
        data = bytearray(log.reader.acquire(offsets[9], end - offsets[9]))
    data[28:36] = end.to_bytes(8, "big")
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(end)
        file.write(data)
    with CommitLog(root, mode="r") as log:
        assert end + len(data) == log.end_offset


def test_opening_a_closed_store_brings_in_one_page(disk_path: Path) -> None:
    """
    Only the bytes at the end: a reader does not read megabytes for this check.
    """
    root = disk_path / "store"
    with CommitLog(root, segment_size=1 << 23) as log:
        fill(log, 2000)
        end = log.end_offset
    make_cold(files_of(root))

    with CommitLog(root, mode="r") as reader:
        assert end == reader.end_offset
        assert 1 == pages_in_memory(files_of(root))


def _cut_and_refill(at: int) -> Callable[[CommitLog], None]:
    """
    Another history of the same length, from an offset on.
    """

    def work(log: CommitLog) -> None:
        log.cut(at)
        for at_body in range(60):
            log.append(Message("t", b"other %5d" % at_body))

    return work


def test_a_reader_that_opens_before_the_writer_begins_hears_of_its_cuts(
    tmp_path: Path,
) -> None:
    """
    Between `abort` and the live page no writer binds the reader; later one does (A4).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = [log.append(Message("t", b"whole %5d" % i)).offset for i in range(90)]
        end = log.end_offset
    with (
        paused_opening(root, _cut_and_refill(offsets[40])) as resume,
        CommitLog(root, mode="r") as reader,
    ):
        assert end == reader.end_offset
        assert 0 == reader.synced_offset
        seen = reader.ends.cut_generation
        scan = reader.scan(rows=50)
        held = reader.scan(rows=20)
        assert offsets[:50] == list(next(scan)["offset"])
        assert offsets[:20] == list(next(held)["offset"])
        resume()

        with pytest.raises(CutError, match=f"cut at {offsets[40]} "):
            next(scan)
        with pytest.raises(CutError, match="was cut"):
            reader.reader.unchanged(seen, offsets[40] + 1)
        assert end + 10 * (end - offsets[89]) == reader.end_offset
        assert b"other     0" == reader.read(offsets[40]).body
        assert 100 == len(bodies(reader))


def test_a_reader_that_opens_before_the_writer_begins_follows_its_appends(
    tmp_path: Path,
) -> None:
    """
    Without a cut what it read stays, and its end grows.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 30))
    with (
        paused_opening(root, lambda log: fill(log, 20)) as resume,
        CommitLog(root, mode="r") as reader,
    ):
        seen, end = reader.ends.cut_generation, reader.end_offset
        scan = reader.scan(rows=10)
        assert 10 == len(next(scan))
        resume()

        assert 40 == sum(len(rows) for rows in scan)
        reader.reader.unchanged(seen, end)
        assert reader.end_offset > end


@pytest.mark.parametrize("whole", [0, 5])
def test_a_reader_hears_that_the_next_opening_cut_a_torn_record(
    tmp_path: Path, whole: int
) -> None:
    """
    In another boot the reader takes a record with a lost sector for whole; the opening
    cuts it (A6).
    """
    root = tmp_path / "store"
    kill_while(
        root,
        lambda log: (fill(log, whole), log.append(Message("t", b"x" * 4000))),
    )
    with CommitLog(root, mode="r") as log:
        torn = int(next(log.scan())["offset"][whole])
    with (root / "commitlog" / f"{0:020d}").open("r+b") as segment:
        segment.seek((torn // 512 + 3) * 512)
        segment.write(bytes(512))
    with (root / "meta" / "live").open("r+b") as page:
        page.seek(24)
        page.write(os.urandom(16))
    with (
        paused_opening(root, lambda log: fill(log, 90)) as resume,
        CommitLog(root, mode="r") as reader,
    ):
        assert reader.end_offset > torn
        scan = reader.scan(rows=whole + 1)
        assert whole + 1 == len(next(scan))
        resume()

        with pytest.raises(CutError, match=f"cut at {torn} "):
            next(scan)
        assert whole + 90 == len(bodies(reader))


def test_a_scan_hears_of_a_cut_between_two_of_its_arrays(tmp_path: Path) -> None:
    """
    It never goes on in another history, also where a record begins at its offset (A4).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = [log.append(Message("t", b"whole %5d" % i)).offset for i in range(90)]
        with CommitLog(root, mode="r") as reader:
            scans = [one.scan(rows=50) for one in (reader, log)]
            lower = [one.scan(rows=40) for one in (reader, log)]
            for scan in (*scans, *lower):
                next(scan)
            _cut_and_refill(offsets[40])(log)

            for scan in scans:
                with pytest.raises(CutError, match=f"cut at {offsets[40]} "):
                    next(scan)
            for scan in lower:
                assert b"other     0" == log.read(int(next(scan)["offset"][0])).body


def test_after_a_restart_a_reader_knows_that_the_newest_segment_is_missing(
    tmp_path: Path,
) -> None:
    """
    The metadata has the end that was stored as synced: what is missing below is ill for
    a scan, and the rest is served.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 1500)
        end = log.end_offset
    restart_machine(root)
    base = end - end % SEGMENT
    segment(root, base).unlink()
    here = [one for one in offsets if one < base]

    with CommitLog(root, mode="r") as log:
        (ill,) = log.ill
        assert (base, end) == (ill.offset, ill.end)
        assert end == log.end_offset
        with pytest.raises(CorruptError, match=segment(root, base).name) as caught:
            list(log.scan())
        assert base == caught.value.offset
        assert here == [
            offset
            for rows in log.scan_past_damage()
            for offset in rows["offset"].tolist()
        ]
    reported = arrow_reader(root, columns=["offset", "damage"], on_damage="report")
    *whole, damaged = reported.read_all().to_pylist()
    assert here == [row["offset"] for row in whole]
    assert base == damaged["offset"]
    assert damaged["damage"]


def test_after_a_restart_a_reader_raises_at_records_that_are_zeros(
    tmp_path: Path,
) -> None:
    """
    The newest segment lost its last records; the metadata knows of them.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 20)
        end = log.end_offset
    restart_machine(root)
    write(segment(root, 0), offsets[15], bytes(end - offsets[15]))

    with (
        CommitLog(root, mode="r") as log,
        pytest.raises(
            CorruptError, match=f"nothing was written at offset {offsets[15]}"
        ),
    ):
        list(log.scan())


def test_after_a_cut_and_a_restart_a_reader_reads_the_shorter_log(
    tmp_path: Path,
) -> None:
    """
    A cut stores the lower end first.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 1500)
        log.sync()
        log.cut(offsets[700])
    restart_machine(root)

    with CommitLog(root, mode="r") as log:
        assert () == log.ill
        assert 700 == sum(len(rows) for rows in log.scan())


def test_after_a_restart_a_log_without_any_segment_is_no_empty_log(
    tmp_path: Path,
) -> None:
    """
    One line says that records were there; so do a range of Spark and a stream.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 20)
    restart_machine(root)
    segment(root, 0).unlink()

    with pytest.raises(CorruptError, match="no segment is left"):
        CommitLog(root, mode="r")
    with pytest.raises(CorruptError, match="no segment is left"):
        arrow_reader(root).read_all()


def test_without_metadata_a_reader_meets_the_damage_of_the_newest_segment(
    tmp_path: Path,
) -> None:
    """
    Nothing but the file tells that there were records: a reader does not end in front
    of it, as if the log ended there.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        while log.end_offset < 2 * SEGMENT + 1000:
            fill(log, 10)
    shutil.rmtree(root / "meta")
    path = segment(root, 2 * SEGMENT)
    path.unlink()
    path.symlink_to(path.name)

    with CommitLog(root, mode="r") as reader:
        assert 3 * SEGMENT == reader.end_offset
        with pytest.raises(CorruptError, match="cannot open"):
            bodies(reader)
