"""
Sizes of RocketMQ's compaction files, and the places of records in them.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from pystore.errors import InvalidError
from pystore.spark.compact.sizes import FileSizes, Packer, file_sizes


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((104857600, 10485760), (104857460, 10485746)),  # RocketMQ's defaults
        ((1000, 460), (2300, 460)),
        ((2300, 460), (2760, 460)),
        ((2301, 460), (2300, 460)),
        ((2600, 465), (2760, 460)),
    ],
)
def test_sizes_are_those_that_a_broker_derives_from_its_settings(
    given: tuple[int, int], expected: tuple[int, int]
) -> None:
    """
    The size of a log file is a multiple of the queue files'.
    """
    assert FileSizes(*expected) == file_sizes(*given)


@pytest.mark.parametrize("given", [(1000, 91), (2**32, 460)])
def test_sizes_that_no_broker_could_use_are_refused(given: tuple[int, int]) -> None:
    """
    The error says which sizes are valid.
    """
    with pytest.raises(InvalidError, match="bytes"):
        file_sizes(*given)


def _slow(sizes: list[int], files: FileSizes) -> list[tuple[int, int]]:
    """
    The places one by one, by RocketMQ's rule.
    """
    base = at = entries = 0
    places = []
    for size in sizes:
        is_queue_full = (entries + 1) * 46 >= files.queue_bytes
        if is_queue_full or size + 8 > files.log_bytes - at:
            base, at, entries = base + files.log_bytes, 0, 0
        places.append((base + at, entries))
        at, entries = at + size, entries + 1
    return places


@pytest.mark.parametrize("seed", range(30))
def test_records_get_the_places_that_rocketmq_would_give_them(seed: int) -> None:
    """
    For any size of the batches, and whichever file is full first.
    """
    print("seed", seed)
    chance = random.Random(seed)
    files = file_sizes(chance.choice([2000, 5000, 20000]), chance.choice([460, 1000]))
    sizes = [chance.randint(92, files.log_bytes // 4) for _ in range(200)]
    sizes[7] = files.log_bytes - 8
    packer = Packer(files)
    places: list[tuple[int, int]] = []
    rest = np.array(sizes, np.int64)
    while len(rest):
        count = chance.randint(1, 60)
        offsets, entries = packer.place(rest[:count])
        places += zip(offsets.tolist(), entries.tolist(), strict=True)
        rest = rest[count:]

    assert _slow(sizes, files) == places
    last, _ = places[-1]
    closed = packer.close()
    assert closed[-1][0] == last // files.log_bytes * files.log_bytes
    assert len(sizes) == sum(entries for _, _, entries in closed)


def test_a_record_larger_than_a_file_is_refused() -> None:
    """
    It would never fit.
    """
    with pytest.raises(InvalidError, match="not fit into a file of 2300"):
        Packer(file_sizes(1000, 460)).place(np.array([100, 2293]))


def test_a_queue_without_records_has_no_files() -> None:
    """
    It has no empty file either.
    """
    assert [] == Packer(file_sizes(1000, 460)).close()
