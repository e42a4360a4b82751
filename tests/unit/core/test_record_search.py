"""
The record around an offset: found where it proves itself, and never behind damage.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lib.store.logs import make_root, open_log
from lib.store.segment_files import flip, segment

from pystore.core import record_search
from pystore.core.record_search import check_no_record_around
from pystore.errors import InvalidError
from pystore.message.message import Message

SEED = 20


def test_every_offset_inside_a_record_names_it(tmp_path: Path) -> None:
    """
    Records of all sizes, blank ones too, at random offsets; the starts name nothing.
    """
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    with open_log(make_root(tmp_path), segment_size=1 << 17) as log:
        found = []
        for number in range(40):
            body = draw.randbytes(draw.choice([0, 9, 200, 5000, 30000]))
            found.append(log.append(Message(f"T{number}", body).form))
        log.roll()
        ends = [one.offset for one in found[1:]] + [found[-1].end]
        for one, following in zip(found, ends, strict=True):
            offsets = {one.offset + 1, one.end - 1, draw.randrange(one.offset, one.end)}
            for offset in offsets - {one.offset}:
                with pytest.raises(
                    InvalidError, match=f"record at {one.offset}, which"
                ):
                    check_no_record_around(log, offset)
            for offset in range(one.end, following, 40000):  # of a blank record
                with pytest.raises(InvalidError, match=f"record at {one.end}, which"):
                    check_no_record_around(log, offset)


def test_damage_behind_a_record_is_not_called_a_mistake(tmp_path: Path) -> None:
    """
    Neither a damaged record, nor the offsets inside of one, are inside another one.
    """
    root = make_root(tmp_path)
    with open_log(root) as log:
        offsets = [log.append(Message("T", b"x" * 300).form).offset for _ in range(5)]
        flip(segment(root, 0), offsets[3] + 4)
        for offset in (offsets[3], offsets[3] + 1, offsets[4] - 1):
            check_no_record_around(log, offset)


def test_a_damaged_body_in_front_is_no_record_around(tmp_path: Path) -> None:
    """
    Its head proves its place, its checksum does not hold.
    """
    root = make_root(tmp_path)
    with open_log(root) as log:
        offsets = [log.append(Message("T", b"x" * 300).form).offset for _ in range(5)]
        flip(segment(root, 0), offsets[2] + 120)
        for offset in (offsets[2] + 1, offsets[2] + 200):
            check_no_record_around(log, offset)


def test_a_long_blank_record_is_found_from_the_front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Where only zeros are in reach, the records of the segment are walked.
    """
    monkeypatch.setattr(record_search, "REACH_BYTES", 5000)
    with open_log(make_root(tmp_path), segment_size=1 << 17) as log:
        end = log.append(Message("T", b"x" * 300).form).end
        log.roll()
        with pytest.raises(InvalidError, match=f"record at {end}, which"):
            check_no_record_around(log, 100_000)


def test_bytes_of_a_body_that_look_like_a_record_are_none(tmp_path: Path) -> None:
    """
    A body that holds a whole record of another offset names its own record.
    """
    with open_log(make_root(tmp_path)) as log:
        inner = log.append(Message("T", b"inner" * 20).form)
        outer = log.append(Message("T", log.read(inner.offset).data).form)
        for offset in range(outer.offset + 1, outer.end):
            with pytest.raises(InvalidError, match=f"record at {outer.offset}, which"):
                check_no_record_around(log, offset)
