"""
Many records of a block at once.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lib.store.logs import make_root, open_log

from pystore.bindings.row import Check
from pystore.core.log_writer import LogHandle
from pystore.core.scan import check_record
from pystore.errors import CorruptError, InvalidError
from pystore.message.message import Message
from pystore.message.record_batch import find_property, move_records

COUNT = 50


@pytest.fixture(params=[True, False], ids=["crc", "no-crc"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> LogHandle:
    """
    A log of a few records, every third without keys.
    """
    log = open_log(make_root(tmp_path), property_crc=request.param)
    for number in range(COUNT):
        keys = f"key{number}" if number % 3 else None
        log.append(Message("T", bytes(number), keys=keys, tags="tag").form)
    return log


def test_the_value_of_a_property_is_found_in_each_record(log: LogHandle) -> None:
    """
    Its size is 0 in a record that has none.
    """
    end = log.ends().published_end
    (rows,) = log.scan(0, end)
    data = log.acquire(0, end)

    at, sizes = find_property(data, 0, rows, "KEYS")

    found = [
        bytes(data[start : start + size])
        for start, size in zip(at.tolist(), sizes.tolist(), strict=True)
    ]
    assert found == [b"key%d" % n if n % 3 else b"" for n in range(COUNT)]


def test_copies_are_whole_records_at_their_new_offsets(log: LogHandle) -> None:
    """
    In any order, with their checksums, and otherwise as they were.
    """
    end = log.ends().published_end
    (rows,) = log.scan(0, end)
    chosen = rows[::-2]
    sizes = chosen["size"].astype(np.uint64)
    target = np.uint64(7) + np.cumsum(sizes) - sizes

    copies, moved = move_records(
        log.acquire(0, end), 0, chosen["offset"], target, int(sizes.sum())
    )

    checks = Check.BODY | Check.PROPERTY | Check.OFFSET
    for row, copy, place in zip(chosen, moved, target.tolist(), strict=True):
        record = check_record(copies[place - 7 :].tobytes(), place, checks)
        original = log.read(int(row["offset"]))
        assert record.message() == original.message()
        assert record.store_ms == original.store_ms == copy["store_ms"]
        assert record.queue_offset == original.queue_offset
        assert place == copy["offset"]


def test_a_bad_record_is_not_signed_anew(log: LogHandle) -> None:
    """
    Nor one that is somewhere else.
    """
    end = log.ends().published_end
    (rows,) = log.scan(0, end)
    bad = bytearray(log.acquire(0, end))
    row = rows[7]
    bad[int(row["offset"]) + int(row["body_at"])] ^= 1

    with pytest.raises(CorruptError, match=f"record at offset {row['offset']}"):
        move_records(
            memoryview(bad), 0, rows["offset"][7:8], rows["offset"][:1], 1 << 20
        )
    with pytest.raises(InvalidError, match="does not lie in"):
        move_records(
            memoryview(bad)[:1000], 0, rows["offset"][-1:], rows["offset"][:1], 1 << 20
        )
    with pytest.raises(InvalidError, match="does not lie in"):
        find_property(memoryview(bad)[:1000], 0, rows, "KEYS")
