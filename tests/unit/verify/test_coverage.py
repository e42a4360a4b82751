"""
The uncovered bytes are exactly those that can change undetected.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lib.oracle.golden_data import STORES, GoldenStore

from pystore.bindings.ffi import Check
from pystore.core.log_reader import LogReader
from pystore.core.scan import check_record
from pystore.errors import CorruptError
from pystore.verify.coverage import uncovered_bytes, uncovered_ranges

CHECKS = Check.BODY | Check.PROPERTY | Check.OFFSET
SIZE_MAX = 400
"""Larger records would take long and prove nothing new."""


def is_detected(data: bytes, offset: int) -> bool:
    """
    Whether the checks find an error.
    """
    try:
        record = check_record(data, offset, CHECKS)
    except CorruptError:
        return True
    return record.size != len(data)


def undetected(data: bytes, offset: int) -> set[int]:
    """
    Returns the positions of bytes with a bit that can flip undetected.
    """
    found = set()
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            if not is_detected(bytes(changed), offset):
                found.add(at)
                break
    return found


@pytest.mark.parametrize("name", ["mixed-clean", "propcrc"])
def test_the_bytes_that_can_flip_undetected_are_the_uncovered_ones(
    name: str, tmp_path: Path
) -> None:
    """
    Every bit of real records of all shapes; with property CRC each flip is detected.
    """
    (store,) = (store for store in STORES if store.name == name)
    with LogReader(store.extract(tmp_path)) as log:
        rows = np.concatenate(list(log.scan(0, checks=CHECKS)))
        small = rows[rows["size"] < SIZE_MAX]
        shapes = np.unique(small[["version", "sys_flag", "proof"]], return_index=True)
        empty = np.flatnonzero(small["body_size"] == 0)[:1]
        for row in small[np.concatenate([shapes[1][:12], empty])]:
            data = log.read(int(row["offset"])).data
            named = {at for one in uncovered_ranges(row) for at in range(*one)}

            assert named == undetected(data, int(row["offset"])), row
            assert (name == "propcrc") == (not named)


def test_the_sum_over_many_rows_is_the_sum_of_their_ranges(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    The fast sum and the ranges of single records agree.
    """
    with LogReader(golden_root) as log:
        rows = np.concatenate(list(log.scan(log.segments()[0], checks=CHECKS)))

    each = [end - start for row in rows for start, end in uncovered_ranges(row)]
    assert len(golden_store.records) == len(rows)
    assert sum(each) == uncovered_bytes(rows)
