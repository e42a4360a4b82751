"""
Heads of single records equal those of the core.
"""

from __future__ import annotations

from pathlib import Path

from lib.oracle.golden_data import GoldenStore

from pystore.core.options import LogOptions
from pystore.spark.plan.record_head import read_record_head, read_segment_bytes
from pystore.store.open_reader import open_reader


def test_the_head_of_each_golden_record_equals_the_core_s_row(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    Both versions, with all kinds of addresses.
    """
    log, _ = open_reader(golden_root, LogOptions())
    with log:
        bases = log.segments()
        for line in golden_store.records:
            offset = line["offset"]
            base = max(one for one in bases if one <= offset)
            found, record = (
                read_record_head(golden_root, base, offset),
                log.read(offset),
            )
            assert found is not None
            assert record.topic == found.topic == line["topic"]
            assert (record.queue_id, record.queue_offset) == found[1:3]
            assert (record.store_ms, record.size) == found[3:]


def test_an_offset_without_a_record_has_no_head(golden_root: Path) -> None:
    """
    Within a record, behind the end of the file, and in a missing file.
    """
    base = min(int(path.name) for path in (golden_root / "commitlog").iterdir())

    assert read_record_head(golden_root, base, base + 4) is None
    assert read_record_head(golden_root, base, base + (1 << 40)) is None
    assert read_record_head(golden_root, base + 1, base + 1) is None
    assert b"" == read_segment_bytes(golden_root, base, base + (1 << 40), 8)
