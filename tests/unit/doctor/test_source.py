"""
A copy gives bytes only if they prove themselves and belong to the same log.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from lib.command_line import overwrite, segment_file
from lib.store.pairs import SEGMENT, Pair, fill, seal

from pystore import CommitLog, Message
from pystore.doctor.source import Source, Target, epochs_of


def refusal(store: Path, copy: Path, start: int, end: int) -> str:
    """
    Returns why a copy cannot give a range.
    """
    with Target(store, [(start, end)]) as own, Source(copy) as source:
        return source.refusal(own, start, end)


def record(root: Path, index: int) -> tuple[int, int]:
    """
    Returns the range of a record.
    """
    with CommitLog(root, mode="r") as log:
        rows = [row for rows in log.scan() for row in rows]
    row = rows[index]
    return int(row["offset"]), int(row["offset"] + row["size"])


def test_a_whole_copy_gives_a_record(pair: Pair) -> None:
    """
    Its bytes prove themselves.
    """
    start, end = record(pair.copy, 150)

    assert "" == refusal(pair.store, pair.copy, start, end)


def test_a_copy_that_is_damaged_there_gives_nothing(pair: Pair) -> None:
    """
    Its property CRC differs.
    """
    start, end = record(pair.copy, 150)
    base = start // SEGMENT * SEGMENT
    overwrite(segment_file(pair.copy, base), end - base - 9, b"?")

    assert "not whole" in refusal(pair.store, pair.copy, start, end)


def test_a_copy_that_ends_before_gives_nothing(pair: Pair) -> None:
    """
    Its log is shorter.
    """
    start, end = record(pair.copy, 299)
    with CommitLog(pair.copy) as log:
        log.cut(start)

    assert "only the offsets" in refusal(pair.store, pair.copy, start, end)


def test_a_copy_with_segments_of_another_size_gives_nothing(
    pair: Pair, tmp_path: Path
) -> None:
    """
    Its blank records stand elsewhere.
    """
    fill(tmp_path / "other", segment=1 << 15)
    start, end = record(pair.copy, 150)

    assert "segments" in refusal(pair.store, tmp_path / "other", start, end)


def test_histories_that_part_below_the_range_give_nothing(pair: Pair) -> None:
    """
    Both stores had the same records; then each had a master of its own.
    """
    with CommitLog(pair.store) as log:
        log.begin_epoch(2)
    with CommitLog(pair.copy) as log:
        log.begin_epoch(3)
    for root in pair:
        fill(root, 10, first=300)
    assert epochs_of(pair.store)
    start, end = record(pair.copy, 305)

    assert "part at" in refusal(pair.store, pair.copy, start, end)


def test_histories_that_part_after_a_common_epoch_give_nothing_above(
    tmp_path: Path,
) -> None:
    """
    Below the end of the common epoch the bytes are the same.
    """
    pair = Pair(tmp_path / "store", tmp_path / "copy")
    with CommitLog(pair.copy, segment_size=SEGMENT) as log:
        log.begin_epoch(1)
    fill(pair.copy)
    shutil.copytree(pair.copy, pair.store)
    for root, epoch in zip(pair, (2, 3), strict=True):
        with CommitLog(root) as log:
            log.begin_epoch(epoch)
        fill(root, 10, first=300)

    start, end = record(pair.copy, 305)
    assert "part at" in refusal(pair.store, pair.copy, start, end)
    start, end = record(pair.copy, 150)
    assert "" == refusal(pair.store, pair.copy, start, end)


def test_a_seal_decides_about_a_block(pair: Pair) -> None:
    """
    The seal of the damaged store proves the bytes of the copy, record or not.
    """
    seal(pair.store)
    assert "" == refusal(pair.store, pair.copy, SEGMENT, 2 * SEGMENT)

    overwrite(segment_file(pair.copy, SEGMENT), 5000, b"?")
    assert "sealed" in refusal(pair.store, pair.copy, SEGMENT, 2 * SEGMENT)


def test_a_range_begins_with_the_record_whose_proof_is_damaged(pair: Pair) -> None:
    """
    Its property CRC stands at its end; without it the record looks whole.
    """
    before, start = record(pair.copy, 150)
    base = start // SEGMENT * SEGMENT
    overwrite(segment_file(pair.store, base), start - base - 10, bytes(10))
    end = record(pair.copy, 151)[1]

    with Target(pair.store, [(start, end)]) as own, Source(pair.copy) as source:
        assert before == source.start_of(own, start)
        assert "" == source.refusal(own, start, end)


def test_without_property_crc_a_range_begins_with_a_record_that_ends_in_zeros(
    tmp_path: Path,
) -> None:
    """
    A lost sector took the end of one record, which no checksum covers, and the start of
    the next. Other bytes there are another log's.
    """
    store, copy = tmp_path / "store", tmp_path / "copy"
    with CommitLog(copy, segment_size=SEGMENT, property_crc=False) as log:
        for number in range(20):
            log.append(
                Message("T", bytes(100), properties={"user": "x" * (number + 1)})
            )
    shutil.copytree(copy, store)
    before, start = record(copy, 10)
    end = record(copy, 11)[1]
    overwrite(segment_file(store, 0), start - 5, bytes(50))

    with Target(store, [(start, end)]) as own, Source(copy) as source:
        assert before == source.start_of(own, start)
        assert "" == source.refusal(own, start, end)
    overwrite(segment_file(store, 0), start - 5, b"other")
    assert "beside the range, differ" in refusal(store, copy, start, end)


def test_a_missing_segment_behind_a_range_is_not_compared(tmp_path: Path) -> None:
    """
    Nothing but a queue entry knows where the log ended, and the range ends there.
    """
    store, copy = tmp_path / "store", tmp_path / "copy"
    fill(copy)
    shutil.copytree(copy, store)
    with CommitLog(copy, mode="r") as log:
        rows = [row for rows in log.scan() for row in rows]
    last = segment_file(store, int(rows[-1]["offset"]) // SEGMENT * SEGMENT)
    start, end = int(last.name), int(rows[-3]["offset"])
    last.unlink()

    assert "" == refusal(store, copy, start, end)
