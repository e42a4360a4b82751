"""
Copies that differ are damaged or belong to another log.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lib.spark.verify_job import SEGMENT, make_replicas, run_here

from pystore.seals import BLOCK_BYTES
from pystore.spark.verify.block_diff import PAGE_BYTES, BlockTask
from pystore.spark.verify.check_replicas import Difference
from pystore.spark.verify.divergence import complete_verdicts
from pystore.spark.verify.verdicts import SegmentVerdict, Verdict

LARGE = 3 * BLOCK_BYTES


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A store of several segments.
    """
    return make_replicas(tmp_path_factory.mktemp("closer"), 1)[0]


@pytest.fixture
def roots(store: Path, tmp_path: Path) -> tuple[Path, Path]:
    """
    Two copies of its log.
    """
    for name in "ab":
        shutil.copytree(store / "commitlog", tmp_path / name / "commitlog")
    return tmp_path / "a", tmp_path / "b"


@pytest.fixture
def large(tmp_path: Path) -> tuple[Path, Path]:
    """
    Two equal segments of three blocks of any bytes.
    """
    data = bytes(range(256)) * (LARGE // 256)
    for name in "ab":
        (tmp_path / name / "commitlog").mkdir(parents=True)
        (tmp_path / name / "commitlog" / f"{0:020d}").write_bytes(data)
    return tmp_path / "a", tmp_path / "b"


def change(root: Path, base: int, first: int, above: int | None = None) -> None:
    """
    Changes bytes of a segment from one position to another.
    """
    path = root / "commitlog" / f"{base:020d}"
    data = bytearray(path.read_bytes())
    above = first + 1 if above is None else above
    data[first:above] = data[first:above].translate(bytes(range(255, -1, -1)))
    path.write_bytes(data)


def difference(
    root: Path,
    reference: Path | str,
    base: int = SEGMENT,
    size: int = SEGMENT,
    **changes: Any,
) -> Difference:
    """
    A copy that differs in its only block, with a block to compare on both sides.
    """
    verdict = SegmentVerdict("g", str(root), base, Verdict.DIVERGENT, is_bad=True)
    given: dict[str, Any] = {
        "blocks": (0,),
        "agrees_behind": False,
        "is_tie": False,
    } | changes
    return Difference(
        verdict=verdict, end=base + size, reference=str(reference), **given
    )


def settled(one: Difference) -> SegmentVerdict:
    """
    Its verdict, after a closer look.
    """
    complete_verdicts([one], run_here)
    return one.verdict


def test_a_copy_that_is_equal_again_behind_the_difference_is_corrupt(
    roots: tuple[Path, Path],
) -> None:
    """
    Two logs that diverged never become equal again.
    """
    root, good = roots
    change(root, SEGMENT, 30_000, 30_100)
    verdict = settled(difference(root, good))

    assert (Verdict.CORRUPT, True) == (verdict.verdict, verdict.is_bad)
    assert SEGMENT + 30_000 == verdict.first_difference
    (text,) = verdict.evidence
    assert text.startswith(f"at offset {SEGMENT + 30_000} it differs from {good}, ")
    assert "take the segment from there" in text


def test_a_copy_that_differs_up_to_the_end_is_another_log(
    roots: tuple[Path, Path],
) -> None:
    """
    The evidence names the offset at which to cut it.
    """
    root, good = roots
    change(root, SEGMENT, 30_001, SEGMENT)
    verdict = settled(difference(root, good))

    assert Verdict.DIVERGENT is verdict.verdict
    assert SEGMENT + 30_001 == verdict.first_difference
    assert (
        f"from offset {SEGMENT + 30_001} on it holds another log"
        in (verdict.evidence[0])
    )


@pytest.mark.parametrize("at", [0, PAGE_BYTES - 1, PAGE_BYTES, SEGMENT - 1])
def test_the_first_byte_that_differs_is_named(
    roots: tuple[Path, Path], at: int
) -> None:
    """
    It may be anywhere in its page.
    """
    root, good = roots
    change(root, 2 * SEGMENT, at)
    verdict = settled(difference(root, good, 2 * SEGMENT))

    assert 2 * SEGMENT + at == verdict.first_difference


def test_copies_are_compared_up_to_the_end_of_the_shorter_one(
    roots: tuple[Path, Path],
) -> None:
    """
    Bytes above that end cannot be compared.
    """
    root, good = roots
    change(root, SEGMENT, 9000, SEGMENT)
    verdict = settled(difference(root, good, size=9001))

    assert SEGMENT + 9000 == verdict.first_difference
    assert Verdict.DIVERGENT is verdict.verdict


def test_a_later_block_that_is_right_shows_damage(large: tuple[Path, Path]) -> None:
    """
    This holds even if the last block that differs does so up to its end.
    """
    root, good = large
    change(root, 0, 1000, BLOCK_BYTES)
    one = difference(root, good, 0, LARGE, agrees_behind=True)

    assert Verdict.CORRUPT is settled(one).verdict


def test_the_last_block_that_differs_is_compared_as_well(
    large: tuple[Path, Path],
) -> None:
    """
    The copies are equal again at its end; the difference began in the first block.
    """
    root, good = large
    change(root, 0, 5000, LARGE - PAGE_BYTES)
    verdict = settled(difference(root, good, 0, LARGE, blocks=(0, 1, 2)))

    assert (Verdict.CORRUPT, 5000) == (verdict.verdict, verdict.first_difference)


def test_blocks_that_differ_up_to_the_end_are_another_log(
    large: tuple[Path, Path],
) -> None:
    """
    They differ from the second block on.
    """
    root, good = large
    start = BLOCK_BYTES + 77
    change(root, 0, start, LARGE)
    verdict = settled(difference(root, good, 0, LARGE, blocks=(1, 2)))

    assert (Verdict.DIVERGENT, start) == (verdict.verdict, verdict.first_difference)


def test_an_operator_decides_a_tie(roots: tuple[Path, Path]) -> None:
    """
    This holds even if the copies are equal again later: either may be damaged.
    """
    root, other = roots
    change(root, SEGMENT, 30_000)
    verdict = settled(difference(root, other, is_tie=True))

    assert Verdict.DIVERGENT is verdict.verdict
    assert SEGMENT + 30_000 == verdict.first_difference
    assert (
        "neither a seal nor a majority shows which copy is right"
        in (verdict.evidence[0])
    )


def test_damage_shown_by_a_record_stays_damage(
    roots: tuple[Path, Path],
) -> None:
    """
    The evidence is not repeated; only the first difference is added.
    """
    root, good = roots
    change(root, SEGMENT, 30_000, SEGMENT)
    one = difference(root, good)
    one.verdict.verdict = Verdict.CORRUPT
    one.verdict.evidence.append("record: bad")
    verdict = settled(one)

    assert Verdict.CORRUPT is verdict.verdict
    assert SEGMENT + 30_000 == verdict.first_difference
    assert ["record: bad"] == verdict.evidence


@pytest.mark.parametrize("gone", ["mine", "theirs", "both"])
def test_an_unreadable_copy_leaves_the_verdict(
    roots: tuple[Path, Path], gone: str
) -> None:
    """
    The difference is then known by the block only.
    """
    root, good = roots
    change(root, SEGMENT, 30_000)
    if gone != "theirs":
        shutil.rmtree(root)
    if gone != "mine":
        shutil.rmtree(good)
    verdict = settled(difference(root, good))

    assert (Verdict.DIVERGENT, True) == (verdict.verdict, verdict.is_bad)
    assert verdict.first_difference is None
    assert 1 == len(verdict.evidence)


def test_without_a_reference_no_bytes_are_compared(roots: tuple[Path, Path]) -> None:
    """
    Only a seal shows that the copy is wrong.
    """
    root, _ = roots
    verdict = settled(difference(root, ""))

    assert Verdict.CORRUPT is verdict.verdict
    assert verdict.first_difference is None
    assert "differs from a replica's seal" in verdict.evidence[0]


def test_only_pages_travel(large: tuple[Path, Path]) -> None:
    """
    Digests of two blocks of each side travel, then one page of each.
    """
    ran: list[list[BlockTask]] = []

    def run(
        tasks: Sequence[Any], function: Callable[[Any], Any], size: Callable[[Any], int]
    ) -> list[Any]:
        ran.append(list(tasks))
        return run_here(tasks, function, size)

    root, good = large
    change(root, 0, 5000, LARGE)
    complete_verdicts([difference(root, good, 0, LARGE, blocks=(0, 1, 2))], run)
    digests, pages = ran

    stores = {str(root), str(good)}
    assert {(name, at) for name in stores for at in (0, 2 * BLOCK_BYTES)} == {
        (one.store, one.start) for one in digests
    }
    assert stores == {one.store for one in pages}
    assert [(PAGE_BYTES, 2 * PAGE_BYTES, True)] * 2 == [
        (one.start, one.end, one.is_raw) for one in pages
    ]


def test_equal_block_tasks_run_once(roots: tuple[Path, Path], tmp_path: Path) -> None:
    """
    Two copies may be compared with the same third copy.
    """
    root, good = roots
    shutil.copytree(root, tmp_path / "c")
    change(root, SEGMENT, 100)
    change(tmp_path / "c", SEGMENT, 200)
    ran: list[BlockTask] = []

    def run(
        tasks: Sequence[Any], function: Callable[[Any], Any], size: Callable[[Any], int]
    ) -> list[Any]:
        ran.extend(tasks)
        return run_here(tasks, function, size)

    one, other = difference(root, good), difference(tmp_path / "c", good)
    complete_verdicts([one, other], run)

    assert len(set(ran)) == len(ran) == 6
    assert [SEGMENT + 100, SEGMENT + 200] == [
        each.verdict.first_difference for each in (one, other)
    ]


def test_without_differences_no_task_runs() -> None:
    """
    Most rounds find no difference.
    """
    complete_verdicts([], run_here)
