"""
Pages of a block show the first byte in which two copies differ.
"""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest
import xxhash
from lib.spark.verify_job import SEGMENT, make_replicas

from pystore.seals import BLOCK_BYTES
from pystore.spark.verify.block_diff import (
    PAGE_BYTES,
    BlockTask,
    PageDigests,
    block_range,
    first_difference,
    read_pages,
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A store of several segments, which tests do not change.
    """
    return make_replicas(tmp_path_factory.mktemp("difference"), 1)[0]


def raw(root: Path, base: int) -> bytes:
    """
    A segment's file.
    """
    return (root / "commitlog" / f"{base:020d}").read_bytes()


def test_a_block_ends_where_the_next_begins_or_the_log_ends() -> None:
    """
    Blocks are counted from the segment's first byte.
    """
    base, end = 3 * BLOCK_BYTES, 5 * BLOCK_BYTES + 7

    assert (base, base + BLOCK_BYTES) == block_range(base, 0, end)
    assert (base + 2 * BLOCK_BYTES, end) == block_range(base, 2, end)


def test_each_page_has_a_digest(root: Path) -> None:
    """
    The last page may be shorter than the others.
    """
    start, end = SEGMENT, SEGMENT + 3 * PAGE_BYTES + 5
    found = read_pages(BlockTask(str(root), SEGMENT, start, end))

    data = raw(root, SEGMENT)[: end - start]
    expected = [
        xxhash.xxh3_64_intdigest(data[at : at + PAGE_BYTES])
        for at in range(0, len(data), PAGE_BYTES)
    ]
    assert (4, expected) == (len(expected), list(found.digests))
    assert (b"", "") == (found.raw, found.error)


def test_a_raw_task_returns_the_bytes(root: Path) -> None:
    """
    The result has no digests then.
    """
    start, end = SEGMENT + 5000, SEGMENT + 6000
    found = read_pages(BlockTask(str(root), SEGMENT, start, end, is_raw=True))

    assert raw(root, SEGMENT)[5000:6000] == found.raw
    assert () == found.digests


def test_an_unreadable_range_or_segment_is_an_error_in_the_result(
    tmp_path: Path,
) -> None:
    """
    The error is one line, and no exception is raised.
    """
    (tmp_path / "commitlog").mkdir()
    task = BlockTask(str(tmp_path), SEGMENT, SEGMENT, 2 * SEGMENT)
    found = read_pages(task)

    assert task == found.task
    assert found.error
    assert "\n" not in found.error
    assert () == found.digests


def test_block_tasks_and_results_can_be_pickled() -> None:
    """
    A task is the key of its result.
    """
    task = BlockTask("/a", 0, 0, 4096)
    answer = PageDigests(task, (1, 2**64 - 1), b"x", "error")

    assert answer == pickle.loads(pickle.dumps(answer))
    assert hash(task) == hash(pickle.loads(pickle.dumps(task)))


def test_equal_bytes_do_not_differ() -> None:
    """
    Two empty ranges are equal, too.
    """
    assert first_difference(b"abc", b"abc") is None
    assert first_difference(b"", b"") is None


def test_the_first_byte_that_differs_is_found() -> None:
    """
    It may be anywhere, and any bytes may follow.
    """
    seed = random.randrange(2**32)
    print("seed", seed)
    choose = random.Random(seed)
    for _ in range(50):
        one = choose.randbytes(choose.randrange(1, PAGE_BYTES))
        at = choose.randrange(len(one))
        other = one[:at] + bytes([one[at] ^ choose.randrange(1, 256)])
        other += choose.randbytes(len(one) - len(other))

        assert at == first_difference(one, other)


def test_of_two_lengths_the_end_of_the_shorter_one_is_the_difference() -> None:
    """
    The longer one has a byte there.
    """
    assert 2 == first_difference(b"ab", b"abc")
    assert 0 == first_difference(b"abc", b"")
