"""
Behind a bad record: going on where its size leads, or not at all.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.store.logs import SEGMENT_SIZE, make_root, open_log

from pystore.bindings.row import Check
from pystore.core.log_reader import LogReader
from pystore.core.resync import next_record
from pystore.message.message import Message

CHECKS = Check.BODY | Check.OFFSET


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """
    Five records of one size.
    """
    root = make_root(tmp_path)
    with open_log(root) as log:
        for _ in range(5):
            log.append(Message("T", b"body" * 20).form)
    return root


@pytest.fixture
def ends(root: Path) -> list[int]:
    """
    Where each record ends.
    """
    with LogReader(root) as log:
        (rows,) = log.scan(0)
    return [int(row["offset"] + row["size"]) for row in rows]


def _behind(root: Path, at: int, what: bytes, end: int) -> int | None:
    path = root / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[at : at + len(what)] = what
    path.write_bytes(content)
    with LogReader(root) as log:
        found = log.scan(0, end, CHECKS).finish()
        assert found.stop.is_bad
        return next_record(log, found, end)


def test_a_bad_body_leads_to_the_next_record(root: Path, ends: list[int]) -> None:
    """
    Its lengths add up.
    """
    assert ends[1] == _behind(root, ends[0] + 100, b"?", SEGMENT_SIZE)


def test_a_bad_last_record_leads_nowhere(root: Path, ends: list[int]) -> None:
    """
    No record follows it.
    """
    assert _behind(root, ends[3] + 100, b"?", ends[4]) is None


@pytest.mark.parametrize("at", [0, 4], ids=["size", "magic"])
def test_a_bad_size_or_magic_hides_one_record(
    root: Path, ends: list[int], at: int
) -> None:
    """
    The next record proves its place by its magic, its lengths and its offset.
    """
    assert ends[1] == _behind(root, ends[0] + at, b"????", SEGMENT_SIZE)


def test_a_zeroed_page_hides_only_its_records(root: Path, ends: list[int]) -> None:
    """
    The search goes on behind the zeros.
    """
    path = root / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[ends[0] : ends[2] + 10] = bytes(ends[2] - ends[0] + 10)
    path.write_bytes(content)
    with LogReader(root) as log:
        assert ends[3] == log.resync(ends[0], SEGMENT_SIZE)
        assert log.resync(ends[4], SEGMENT_SIZE) is None
