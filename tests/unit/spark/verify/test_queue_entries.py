"""
The entries of queues by queue offset, without a look at the whole queue.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pystore.errors import CorruptError, StorageError
from pystore.spark.verify.queue_entries import QueueEntries, rising_parts

ENTRY = 20
PER_FILE = 10
KEY = ("T", 3)


def write_files(root: Path, *first: int) -> Path:
    """
    Files of ten entries each: that of queue offset n names offset 100 n.
    """
    folder = root / "consumequeue" / "T" / "3"
    folder.mkdir(parents=True)
    for start in first:
        data = b"".join(
            (100 * at).to_bytes(8) + (100).to_bytes(4) + at.to_bytes(8)
            for at in range(start, start + PER_FILE)
        )
        (folder / f"{start * ENTRY:020d}").write_bytes(data)
    return folder


@pytest.fixture
def entries(tmp_path: Path) -> Iterator[QueueEntries]:
    """
    Of a store that tests write.
    """
    found = QueueEntries(tmp_path, PER_FILE * ENTRY)
    yield found
    found.close()


def offsets(entries: QueueEntries, *indexes: int) -> list[int]:
    """
    The offsets that the entries of these queue offsets name.
    """
    found = entries.read(KEY, np.array(indexes, np.int64))
    assert all(one["size"] in (0, 100) for one in found)
    return [int(one) for one in found["offset"]]


def test_a_file_that_a_writer_is_making_has_no_entries_yet(
    entries: QueueEntries, tmp_path: Path
) -> None:
    """
    It is empty until it gets its size.
    """
    folder = write_files(tmp_path, 0)
    new = folder / f"{PER_FILE * ENTRY:020d}"
    new.touch()

    assert [900, 0, 0] == offsets(entries, 9, 10, 11)
    with new.open("r+b") as file:
        file.truncate(PER_FILE * ENTRY)
        file.write((1000).to_bytes(8) + (100).to_bytes(4) + bytes(8))
    assert [900, 1000, 0] == offsets(entries, 9, 10, 11)


def test_entries_are_read_in_any_order_and_across_files(
    entries: QueueEntries, tmp_path: Path
) -> None:
    """
    Also twice.
    """
    write_files(tmp_path, 0, 10, 20)

    assert [300, 800, 900, 1000, 1100, 2900, 300] == offsets(
        entries, 3, 8, 9, 10, 11, 29, 3
    )
    assert 0 == entries.first_slot(KEY)


def test_above_the_last_file_stand_zeros(entries: QueueEntries, tmp_path: Path) -> None:
    """
    The queue has no entries there yet.
    """
    write_files(tmp_path, 0)

    assert [800, 900, 0, 0] == offsets(entries, 8, 9, 10, 11)
    assert 0 == entries.first_slot(KEY)


def test_retention_deletes_the_first_files(
    entries: QueueEntries, tmp_path: Path
) -> None:
    """
    Then the queue begins behind them.
    """
    write_files(tmp_path, 10)

    assert [0, 0, 1000] == offsets(entries, 8, 9, 10)
    assert 10 == entries.first_slot(KEY)


def test_a_queue_without_files_has_zeros(entries: QueueEntries) -> None:
    """
    Neither a queue nor a topic.
    """
    assert [0, 0] == offsets(entries, 0, 1)
    assert 0 == entries.first_slot(KEY)


@pytest.mark.parametrize("index", [-1, -(2**63), 2**63 - 1, 2**62])
def test_a_queue_offset_that_no_queue_can_have_is_zeros(
    entries: QueueEntries, tmp_path: Path, index: int
) -> None:
    """
    A damaged record may contain it.
    """
    write_files(tmp_path, 0)

    assert [0, 500] == offsets(entries, index, 5)


def test_a_short_file_is_damage(entries: QueueEntries, tmp_path: Path) -> None:
    """
    It ends before its entries.
    """
    folder = write_files(tmp_path, 0)
    os.truncate(folder / f"{0:020d}", 170)

    with pytest.raises(CorruptError, match="it ends at byte 170"):
        offsets(entries, 8)


def test_no_answer_is_an_error(entries: QueueEntries, tmp_path: Path) -> None:
    """
    A loop of links is not a queue without entries.
    """
    folder = write_files(tmp_path)
    (folder / f"{0:020d}").symlink_to(f"{0:020d}")

    with pytest.raises(StorageError):
        offsets(entries, 8)


def test_parts_rise_by_one() -> None:
    """
    Each is ``[start, above)``.
    """
    assert [(0, 3), (3, 4), (4, 6)] == rising_parts(np.array([4, 5, 6, 9, 0, 1]))
    assert [] == rising_parts(np.empty(0, np.int64))
