"""
Opening for reading, beside a writer and without one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.oracle.golden_data import STORES, GoldenStore
from lib.store.cold_files import files_of, make_cold, pages_in_memory
from lib.store.stores import SEGMENT, bodies, fill, kill_while

from pystore.errors import CutError
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


def test_opening_a_closed_store_brings_in_one_page(tmp_path: Path) -> None:
    """
    Only the bytes at the end: a reader does not read megabytes for this check.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=1 << 23) as log:
        fill(log, 2000)
        end = log.end_offset
    make_cold(files_of(root))

    with CommitLog(root, mode="r") as reader:
        assert end == reader.end_offset
        assert 1 == pages_in_memory(files_of(root))
