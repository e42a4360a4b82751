"""
Fillers are whole records of exactly the size of a range.
"""

from __future__ import annotations

import random

import pytest

from pystore.doctor.filler import FILLER_TOPIC, filler_bytes

SEGMENT = 1 << 24
SMALLEST = 91 + len(FILLER_TOPIC) + 20


def sizes_of(data: bytes) -> list[int]:
    """
    Returns the sizes in the heads of records that follow one another.
    """
    sizes, at = [], 0
    while at < len(data):
        sizes.append(int.from_bytes(data[at : at + 4]))
        at += sizes[-1]
    return sizes


def test_a_range_is_filled_to_the_byte() -> None:
    """
    Sizes at random, and those around the largest record.
    """
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    sizes = [SMALLEST, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (1 << 20) + SMALLEST]
    for size in sizes + [draw.randrange(SMALLEST, 5 << 20) for _ in range(20)]:
        start = draw.randrange(1 << 20)
        data = filler_bytes(
            start, start + size, 1, segment_size=SEGMENT, property_crc=True
        )
        assert size == len(data)
        found = sizes_of(data)
        assert size == sum(found)
        assert SMALLEST <= min(found)
        assert max(found) <= 1 << 20


@pytest.mark.parametrize("size", [8, 100, 5000])
def test_the_end_of_a_segment_gets_a_blank_record(size: int) -> None:
    """
    RocketMQ goes on in the next segment.
    """
    data = filler_bytes(
        SEGMENT - size, SEGMENT, 1, segment_size=SEGMENT, property_crc=True
    )
    assert size.to_bytes(4) + bytes.fromhex("cbd43194") == data[:8]
    assert size == len(data)


def test_a_range_that_is_too_small_gets_nothing() -> None:
    """
    No record of the system topic is so small, no blank record smaller than its head.
    """
    assert b"" == filler_bytes(
        0, SMALLEST - 1, 1, segment_size=SEGMENT, property_crc=True
    )
    assert b"" == filler_bytes(
        SEGMENT - 7, SEGMENT, 1, segment_size=SEGMENT, property_crc=True
    )
