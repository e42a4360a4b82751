"""
The records in some blocks of a segment.
"""

from __future__ import annotations

import random
import shutil
from itertools import chain, combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from lib.spark.verify_job import check
from lib.store.segment_files import flip, offsets, segment, write
from numpy.typing import NDArray

from pystore.core.log_reader import LogReader
from pystore.damage.segment_walk import SegmentReport
from pystore.message.message import Message
from pystore.seals import BLOCK_BYTES
from pystore.spark.verify.sampled_walk import walk_blocks
from pystore.store.commit_log import CommitLog
from pystore.verify.coverage import uncovered_bytes

BLOCKS = 5
SEGMENT = BLOCKS * BLOCK_BYTES
SETS = list(chain.from_iterable(combinations(range(BLOCKS), n) for n in (1, 2, 3, 5)))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A store whose first segment is full, with records of any size and no property CRC.
    """
    seed = random.randrange(2**32)
    print("seed", seed)
    sizes = random.Random(seed)
    root = tmp_path_factory.mktemp("sampled") / "a"
    with CommitLog(root, segment_size=SEGMENT, property_crc=False) as log:
        while log.end_offset <= SEGMENT:
            body = sizes.randbytes(1000) * sizes.choice((0, 1, 10, 300, 1000))
            log.append(Message("T", body))
    return root


@pytest.fixture
def root(filled: Path, tmp_path: Path) -> Path:
    """
    A copy of it.
    """
    return shutil.copytree(filled, tmp_path / "a", symlinks=True)


def walked(root: Path, *blocks: int) -> tuple[SegmentReport, list[int]]:
    """
    The report, and the offsets of the records.
    """
    seen: list[int] = []

    def note(rows: NDArray[Any]) -> None:
        seen.extend(rows["offset"].tolist())

    with LogReader(root) as log:
        report = walk_blocks(log, 0, SEGMENT, blocks, note, uncovered=uncovered_bytes)
    assert report.records == len(seen)
    return report, seen


@pytest.mark.parametrize("blocks", SETS, ids=str)
def test_every_record_that_begins_in_a_block_is_checked(
    filled: Path, blocks: tuple[int, ...]
) -> None:
    """
    And the first one behind it, if that begins in the next block: so the record across
    the border was read to its end.
    """
    starts = offsets(filled, 0, SEGMENT)
    report, seen = walked(filled, *blocks)

    within = [at for at in starts if at // BLOCK_BYTES in blocks]
    behind = {
        min((at for at in starts if at >= (block + 1) * BLOCK_BYTES), default=-1)
        for block in blocks
    }
    assert sorted({*within, *behind} - {-1}) == seen
    assert () == report.faults


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_bad_body_is_found_in_the_block_where_its_record_begins(
    root: Path, block: int
) -> None:
    """
    Also if the changed byte is in the next one.
    """
    seed = random.randrange(2**32)
    print("seed", seed)
    starts = offsets(root, 0, SEGMENT)
    # The last record of the segment may have no body to change.
    large = [low for low, high in pairwise(starts) if high - low > 1000]
    within = [at for at in large if at // BLOCK_BYTES == block]
    record = random.Random(seed).choice([within[-1], *within])
    flip(segment(root, 0), record + 88 + 500)

    report, _ = walked(root, block)

    assert [record] == [one.offset for one in report.faults]


def test_a_bad_record_at_the_first_boundary_is_found(root: Path) -> None:
    """
    The walk begins with it, not behind it.
    """
    starts = offsets(root, 0, SEGMENT)
    record = next(at for at in starts if at > 2 * BLOCK_BYTES)
    write(segment(root, 0), record + 8, b"\xff")  # the body CRC

    report, _ = walked(root, 2)

    assert [record] == [one.offset for one in report.faults]


def test_a_damage_hides_no_record_behind_it_in_the_block(root: Path) -> None:
    """
    A size that changed is one fault.
    """
    starts = [at for at in offsets(root, 0, SEGMENT) if at // BLOCK_BYTES == 3]
    write(segment(root, 0), starts[2], b"\x7f")
    write(segment(root, 0), starts[5] + 8, b"\xff")

    report, _ = walked(root, 3)

    assert [starts[2], starts[5]] == [one.offset for one in report.faults]


def test_a_copied_checksum_at_the_border_of_a_block_is_no_damage(
    tmp_path: Path,
) -> None:
    """
    Brokers copy it with the properties. The records around it show that; one of them
    is in a block that is not read.
    """
    copied = b"__CRC32#\x010123456789"
    root = tmp_path / "a"
    with CommitLog(root, segment_size=SEGMENT, property_crc=False) as log:
        while log.end_offset < SEGMENT:
            log.append(Message("T", b"b" * 50_000, properties={"k": "v" * 17}))
    starts = offsets(root, 0, SEGMENT)
    path = segment(root, 0)
    data = path.read_bytes()
    for block in range(1, BLOCKS):
        first = next(at for at in starts if at >= block * BLOCK_BYTES)
        for record in (first - (starts[1] - starts[0]), first):
            write(path, data.index(b"k\x01vvvv", record), copied)
    assert not walked(root, *range(BLOCKS))[0].faults

    for block in range(BLOCKS):
        report, seen = walked(root, block)
        assert () == report.faults
        assert len(seen) > 60


def test_a_block_without_a_boundary_is_passed_over(tmp_path: Path) -> None:
    """
    Its bytes are those of one record.
    """
    root = tmp_path / "a"
    with CommitLog(
        root, segment_size=SEGMENT, property_crc=False, message_size_max=SEGMENT
    ) as log:
        body = bytes(3 * BLOCK_BYTES)
        log.append(Message("T", body, body_size_max=SEGMENT))
        log.append(Message("T", b"next"))
    report, seen = walked(root, 1)

    assert (0, [], ()) == (report.records, seen, report.faults)


def test_a_sample_of_a_store_finds_a_bad_record_in_each_block_that_it_reads(
    root: Path,
) -> None:
    """
    Nobody else vouches for the bytes. The verdict tells how many were checked.
    """
    starts = offsets(root, 0, SEGMENT)
    for block in range(BLOCKS):
        record = next(at for at in starts if at > block * BLOCK_BYTES)
        write(segment(root, 0), record + 8, b"\xff")

    found = check(root, percent=100 // BLOCKS, replicas="none", number=0)
    again = check(root, percent=100 // BLOCKS, replicas="none", number=1)

    assert all(one.verdict == "CORRUPT" for one in (found[0], again[0]))
    assert {len(found[0].blocks), len(again[0].blocks)} == {3}
    assert 4 * BLOCK_BYTES > found[0].checked_bytes > BLOCK_BYTES
