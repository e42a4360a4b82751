"""
The digests of blocks equal those of seals, for any order of reading.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
import xxhash

from pystore.core.log_reader import LogReader
from pystore.epochs.table import EpochTable
from pystore.errors import PystoreError
from pystore.seals import BLOCK_BYTES, Seal, make_seal
from pystore.spark.verify.digests import BlockDigests, blocks_of

SIZE = 2 * BLOCK_BYTES + 12345
"""Of a segment: two blocks and a part of one."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogReader]:
    """
    A segment of random bytes; digests need no records.
    """
    root = tmp_path_factory.mktemp("digests")
    (root / "commitlog").mkdir()
    base = SIZE * 3
    (root / "commitlog" / f"{base:020d}").write_bytes(os.urandom(SIZE))
    with LogReader(root) as log:
        yield log


@pytest.fixture
def base(log: LogReader) -> int:
    """
    The base offset of the segment.
    """
    return log.segments()[0]


def seal_of(log: LogReader, base: int, end: int) -> Seal:
    """
    The seal of the bytes below *end*.
    """
    return make_seal(
        [block.view for block in log.blocks(base, end)],
        group="g",
        start_offset=base,
        record_count=0,
        first_store_ms=0,
        last_store_ms=0,
        epochs=EpochTable(),
    )


def test_a_part_of_a_block_counts_as_one() -> None:
    """
    The number is rounded up; no bytes have no block.
    """
    sizes = [0, 1, BLOCK_BYTES, BLOCK_BYTES + 1, SIZE]

    assert [0, 1, 1, 2, 3] == [blocks_of(size) for size in sizes]


@pytest.mark.parametrize(
    "size", [1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, SIZE]
)
def test_the_digests_are_those_of_a_seal(log: LogReader, base: int, size: int) -> None:
    """
    This holds for every block and for all bytes together.
    """
    seal = seal_of(log, base, base + size)
    digests = BlockDigests(log, base, base + size, with_whole=True)
    digests.finish()

    assert dict(enumerate(seal.block_digests)) == digests.blocks
    assert seal.digest == digests.whole
    assert size == digests.size


def test_steps_of_any_size_give_the_same_digests(log: LogReader, base: int) -> None:
    """
    A scan advances by records, which do not end at block ends.
    """
    seed = random.randrange(2**32)
    print("seed", seed)
    choose = random.Random(seed)
    seal = seal_of(log, base, base + SIZE)
    digests = BlockDigests(log, base, base + SIZE, with_whole=True)
    at = base
    while at < base + SIZE:
        at += choose.choice([1, 17, 4096, 100_003, BLOCK_BYTES, BLOCK_BYTES + 1])
        digests.reach(at)
    digests.finish()

    assert dict(enumerate(seal.block_digests)) == digests.blocks
    assert seal.digest == digests.whole


def test_bytes_are_digested_once(log: LogReader, base: int) -> None:
    """
    Behind a bad record a scan may report a lower offset.
    """
    digests = BlockDigests(log, base, base + SIZE)
    for offset in (base + 5000, base + 10, base + 5000, base):
        digests.reach(offset)

    assert 5000 == digests.size


def test_a_block_has_a_digest_once_its_last_byte_is_digested(
    log: LogReader, base: int
) -> None:
    """
    It has none before.
    """
    digests = BlockDigests(log, base, base + SIZE)
    digests.reach(base + 2 * BLOCK_BYTES - 1)
    assert {0} == set(digests.blocks)

    digests.reach(base + 2 * BLOCK_BYTES)
    assert {0, 1} == set(digests.blocks)


def test_nothing_is_digested_above_the_end(log: LogReader, base: int) -> None:
    """
    Replicas are compared up to the end of the shortest one.
    """
    end = base + BLOCK_BYTES + 100
    digests = BlockDigests(log, base, end)
    digests.reach(base + SIZE)

    assert BLOCK_BYTES + 100 == digests.size
    last = log.acquire(base + BLOCK_BYTES, 100)
    assert xxhash.xxh3_64_intdigest(last) == digests.blocks[1]


def test_only_chosen_blocks_are_read(log: LogReader, base: int) -> None:
    """
    Their digests equal those of a full read.
    """
    seal = seal_of(log, base, base + SIZE)
    digests = BlockDigests(log, base, base + SIZE, chosen=[2, 0])
    for at in range(base, base + SIZE, 999_983):
        digests.reach(at)
    digests.finish()

    assert {0: seal.block_digests[0], 2: seal.block_digests[2]} == digests.blocks
    assert BLOCK_BYTES + 12345 == digests.size


def test_all_bytes_are_digested_only_on_request(log: LogReader, base: int) -> None:
    """
    Without a seal there is nothing to compare the digest with.
    """
    digests = BlockDigests(log, base, base + 100)
    digests.finish()

    assert b"" == digests.whole


def test_a_digest_up_to_a_stop_is_that_of_a_shorter_segment(
    log: LogReader, base: int
) -> None:
    """
    It equals the digest of a replica that ends there, for any size of the steps.
    """
    stop = base + BLOCK_BYTES + 777
    shorter = BlockDigests(log, base, stop)
    shorter.finish()
    digests = BlockDigests(log, base, base + SIZE, stops=[stop, base + BLOCK_BYTES])
    for at in range(base, base + SIZE, 99_991):
        digests.reach(at)
    digests.finish()

    assert shorter.blocks[1] == digests.partial[stop]
    assert shorter.blocks[0] == digests.blocks[0]


def test_a_segment_without_bytes_has_no_digests(log: LogReader, base: int) -> None:
    """
    A segment above the end of every replica has none either.
    """
    digests = BlockDigests(log, base, base)
    digests.finish()

    assert {} == digests.blocks


def test_missing_bytes_are_an_error(log: LogReader, base: int) -> None:
    """
    The log is shorter than it should be.
    """
    digests = BlockDigests(log, base, base + SIZE + 1)

    with pytest.raises(PystoreError):
        digests.finish()
