"""
The core writes each record as a line of JSON.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lib.oracle.golden_data import GoldenStore
from lib.oracle.json_records import BASE, PLAIN, expected, laid_out, records_of

from pystore.errors import InvalidError
from pystore.message.json_lines import JsonLines
from pystore.store.commit_log import CommitLog


@pytest.mark.parametrize("bodies", [True, False])
def test_each_golden_record_has_the_line_of_python(
    golden_store: GoldenStore, golden_root: Path, *, bodies: bool
) -> None:
    """
    All of them are written by the core.
    """
    count, size = 0, golden_store.segment_size
    with CommitLog(golden_root, mode="r") as log:
        for base in range(log.min_offset // size * size, log.end_offset, size):
            scan = log.scan(max(base, log.min_offset), base + size)
            rows = np.concatenate(list(scan))
            start = int(rows["offset"][0])
            end = int(rows["offset"][-1] + rows["size"][-1])
            view = log.reader.acquire(start, end - start)
            while len(rows):
                lines, done = JsonLines(bodies=bodies).write(rows, view, start)

                assert [
                    expected(record, bodies=bodies)
                    for record in records_of(rows[:done], view, start)
                ] == bytes(lines).decode().splitlines()
                assert done
                rows = rows[done:]
                count += done
    assert len(golden_store.records) == count


@pytest.mark.parametrize("name", ["size", "topic_at", "properties_at", "offset"])
def test_a_row_of_other_bytes_is_refused(name: str) -> None:
    """
    A part of the record is outside of the bytes.
    """
    rows, data = laid_out([PLAIN])
    rows[name] += 9

    with pytest.raises(InvalidError):
        JsonLines(bodies=False).write(rows, data, BASE)
