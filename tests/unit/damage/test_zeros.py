"""
A lost sector is told from bytes that are zero by content.
"""

from __future__ import annotations

import random

import pytest

from pystore.damage.zeros import SECTOR, has_lost_sector, has_unwritten_end


def _pieces(data: bytes, seed: int) -> list[bytes]:
    chance, pieces, at = random.Random(seed), [], 0
    while at < len(data):
        size = chance.randrange(1, 700)
        pieces.append(data[at : at + size])
        at += size
    return pieces


@pytest.mark.parametrize("seed", range(20))
def test_the_pieces_of_the_bytes_do_not_matter(seed: int) -> None:
    """
    Compared with a plain loop over the sectors.
    """
    chance = random.Random(seed)
    start = chance.randrange(3000)
    end = start + chance.randrange(1, 3000)
    data = bytearray(chance.randbytes(-(-end // SECTOR) * SECTOR - start))
    for _ in range(3):
        at = chance.randrange(len(data))
        data[at : at + 600] = bytes(len(data[at : at + 600]))
    sectors = range(start // SECTOR, -(-end // SECTOR))
    expected = any(
        not any(data[max(0, one * SECTOR - start) : (one + 1) * SECTOR - start])
        for one in sectors
    )

    assert expected == has_lost_sector(_pieces(bytes(data), seed), start, end), seed


@pytest.mark.parametrize(
    ("data", "start", "end", "expected"),
    [
        (b"x" * 1024, 0, 1024, False),
        (b"x" * 512 + bytes(512), 0, 1024, True),
        (bytes(12) + b"x" * 500 + b"x" * 512, 500, 1500, True),
        (b"x" * 510 + bytes(2) + b"y" * 512, 0, 512, False),
        (b"x" * 512 + bytes(2) + b"y" * 510, 0, 514, False),
        (b"x" * 512 + bytes(512), 0, 514, True),
        (b"x" * 512 + bytes(2), 0, 514, True),
        (b"", 0, 10, False),
    ],
    ids=[
        "no zeros",
        "a whole sector",
        "the first part of a record",
        "the end of a sector",
        "an end of content before the next record",
        "an end before nothing",
        "an end of the file",
        "nothing",
    ],
)
def test_a_zero_sector_is_lost_and_a_few_zeros_are_content(
    data: bytes, start: int, end: int, expected: bool
) -> None:
    """
    A record without properties ends with two zeros.
    """
    assert expected == has_lost_sector([data], start, end)


@pytest.mark.parametrize(
    ("data", "start", "end", "expected"),
    [
        (b"x" * 500 + bytes(12) + b"x" * 512, 0, 1024, True),
        (b"x" * 511 + bytes(1) + b"x" * 512, 0, 1024, False),
        (b"x" * 400 + bytes(12) + b"x" * 512, 100, 1024, True),
        (b"x" * 500 + bytes(12), 0, 511, False),
        (b"x" * 1000 + bytes(24), 0, 1024, True),
        (b"x" * 30 + bytes(20) + b"x" * 512, 462, 1024, False),
        (b"x" * 20 + bytes(30) + b"x" * 512, 462, 1024, True),
        (b"", 0, 10, False),
    ],
)
def test_a_sector_that_ends_in_zeros_was_written_in_part(
    data: bytes, start: int, end: int, expected: bool
) -> None:
    """
    A single zero is common in a binary body.
    """
    pieces, at = [], start
    while data:
        size = SECTOR - at % SECTOR
        pieces.append(data[:size])
        data, at = data[size:], at + len(pieces[-1])

    assert expected == has_unwritten_end(pieces, start, end)
