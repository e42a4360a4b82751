"""
Earlier mistakes of the verify job, one test for each.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lib.spark.checked_store import findings_of, places
from lib.spark.letter_replicas import LetterReplica, verdict_words, verdicts_of
from lib.spark.verify_job import SEGMENT, by_word, check, make_replicas, run_here
from lib.store.segment_files import flip, offsets, restart_machine, segment, write

from pystore.message.message import Message
from pystore.spark.verify.block_diff import read_pages
from pystore.spark.verify.check_store import check_store
from pystore.spark.verify.plan import plan_store, plan_tasks
from pystore.spark.verify.run import verify_stores
from pystore.spark.verify.task import check_segment
from pystore.store.commit_log import CommitLog
from pystore.store.sealer import seal_next
from pystore.store.store import Store


def test_an_epoch_at_the_end_is_no_finding_after_a_restart(tmp_path: Path) -> None:
    """
    It has no record yet.
    """
    root = tmp_path / "a"
    with CommitLog(root, segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        for _ in range(300):
            log.append(Message("T", b"x" * 300))
        log.begin_epoch(2)
    restart_machine(root)
    assert [] == places(findings_of(root))


def test_a_store_that_lost_every_segment_is_bad(tmp_path: Path) -> None:
    """
    Its own bound shows that there was a log.
    """
    (root,) = make_replicas(tmp_path, 1)
    for path in (root / "commitlog").iterdir():
        path.unlink()
    assert [one for one in check(root) if one.is_bad]


def test_a_torn_tail_is_no_damage_in_a_sampled_round(tmp_path: Path) -> None:
    """
    It is no damage in a full round either.
    """
    (root,) = make_replicas(tmp_path, 1, 800)
    with CommitLog(root, mode="r") as log:
        end = log.end_offset
    restart_machine(root)
    write(segment(root, end // SEGMENT * SEGMENT), end % SEGMENT, b"\xaa" * 50)
    assert not [one for one in check(root) if one.is_bad]
    assert not [one for one in check(root, percent=0) if one.is_bad]


def test_a_missing_last_segment_is_bad_in_a_sampled_round(tmp_path: Path) -> None:
    """
    The bound is the same.
    """
    (root,) = make_replicas(tmp_path, 1, with_queues=True)
    restart_machine(root)
    segment(root, 4 * SEGMENT).unlink()
    assert [one for one in check(root) if one.is_bad]
    assert [one for one in check(root, percent=0) if one.is_bad]


def test_a_missing_segment_below_the_published_end_is_bad(tmp_path: Path) -> None:
    """
    The live page is valid, and the segment is missing.
    """
    (root,) = make_replicas(tmp_path, 1, 300)
    segment(root, SEGMENT).unlink()
    assert [one for one in check(root) if one.is_bad]


def test_a_copy_whose_only_peer_could_not_be_read_is_unsealed() -> None:
    """
    It was compared with nothing.
    """
    verdicts, _ = verdicts_of(
        LetterReplica("a", {}, errors={0: "no such disk"}),
        LetterReplica("b", {0: "ABCD"}),
    )
    assert "UNSEALED" == verdict_words(verdicts)["b"]


def test_an_unreadable_reference_is_no_reason_to_cut(tmp_path: Path) -> None:
    """
    The evidence gives no advice without a comparison.
    """
    root = tmp_path / "a"
    with CommitLog(root, segment_size=SEGMENT, property_crc=False) as log:
        for _ in range(300):
            log.append(Message("T", b"x" * 500))
    for name in "bc":
        shutil.copytree(root, tmp_path / name)
    flip(
        segment(tmp_path / "c", SEGMENT),
        offsets(root, SEGMENT, SEGMENT)[3] % SEGMENT + 44,
    )

    def run(
        tasks: Sequence[Any], function: Callable[[Any], Any], size: Callable[[Any], int]
    ) -> list[Any]:
        if function is read_pages and segment(root, SEGMENT).exists():
            segment(root, SEGMENT).unlink()
        return run_here(tasks, function, size)

    found = verify_stores(run, [str(tmp_path / n) for n in "abc"], replicas="all")
    assert not [
        e for one in found.verdicts for e in one.evidence if "cut it there" in e
    ]


def test_a_copy_that_differs_only_from_another_replicas_seal_is_corrupt(
    tmp_path: Path,
) -> None:
    """
    No replica has the right bytes.
    """
    roots = make_replicas(tmp_path, 2)
    with CommitLog(roots[0]) as log:
        while seal_next(log.writer):
            pass
    for number, root in enumerate(roots):
        flip(segment(root, SEGMENT), SEGMENT - 1 - number)
    texts = [e for one in check(*roots, replicas="all") for e in one.evidence]
    assert not [text for text in texts if "another log than :" in text]


def test_damage_in_one_replica_does_not_end_the_comparison(tmp_path: Path) -> None:
    """
    The others are compared up to their own ends.
    """
    root = tmp_path / "a"
    with CommitLog(root, segment_size=SEGMENT, property_crc=False) as log:
        for _ in range(300):
            log.append(Message("T", b"x" * 500))
    for name in "bc":
        shutil.copytree(root, tmp_path / name)
    roots = [tmp_path / name for name in "abc"]
    starts = offsets(root, 2 * SEGMENT, SEGMENT)
    for one in roots:
        restart_machine(one)
    write(segment(root, 2 * SEGMENT), starts[3] % SEGMENT, bytes(4096))
    flip(segment(roots[2], 2 * SEGMENT), starts[-3] % SEGMENT + 44)
    bad = {Path(one.store).name for one in check(*roots, replicas="all") if one.is_bad}
    assert "c" in bad  # only "b" differs from it: a tie, which is not OK


def test_a_store_with_an_empty_file_does_not_end_the_job(tmp_path: Path) -> None:
    """
    It is treated like a store that was never written.
    """
    roots = make_replicas(tmp_path, 2, 300)
    (tmp_path / "z" / "commitlog").mkdir(parents=True)
    (tmp_path / "z" / "commitlog" / ("0" * 20)).write_bytes(b"")
    check(*roots, tmp_path / "z")


def test_a_store_that_vanishes_does_not_end_the_job(tmp_path: Path) -> None:
    """
    It is UNKNOWN, and the other stores are checked.
    """
    roots = make_replicas(tmp_path, 2, 300)

    def run(
        tasks: Sequence[Any], function: Callable[[Any], Any], size: Callable[[Any], int]
    ) -> list[Any]:
        found = run_here(tasks, function, size)
        if (roots[0] / "commitlog").exists():
            (roots[0] / "commitlog").rename(tmp_path / "away")
        return found

    found = verify_stores(run, [str(root) for root in roots], replicas="all")
    assert "OK" in by_word(found.verdicts)


def test_segments_that_vanish_do_not_end_the_job(tmp_path: Path) -> None:
    """
    The segments that were read get no wrong verdict.
    """
    (root,) = make_replicas(tmp_path, 1, with_queues=True)
    shutil.rmtree(root / "meta")
    write(segment(root, 2 * SEGMENT), 30000, bytes(30000))
    plan = plan_store(root)
    checks = {one.base: check_segment(one) for one in plan_tasks([plan])}
    for path in (root / "commitlog").iterdir():
        path.unlink()
    check_store(plan, checks)


def test_many_bad_records_are_no_finding_about_the_queue(tmp_path: Path) -> None:
    """
    The queue's entries are right.
    """
    root = tmp_path / "a"
    with Store(root, segment_size=SEGMENT) as store:
        for _ in range(600):
            store.log.append(Message("T", b"x" * 100))
    for start in offsets(root, 0, SEGMENT)[:200:2]:
        flip(segment(root, 0), start + 110)
    assert [] == findings_of(root).of_store


def test_no_finding_is_repeated(tmp_path: Path) -> None:
    """
    Two checks read the same file.
    """
    (root,) = make_replicas(tmp_path, 1, 100, with_queues=True)
    next((root / "consumequeue" / "T1" / "0").iterdir()).write_bytes(b"short")
    texts = [one.text for one in plan_store(root).findings]
    assert sorted(set(texts)) == sorted(texts)


def test_a_bad_last_record_of_a_closed_copy_is_damage(tmp_path: Path) -> None:
    """
    A copy has no bound, but it was closed, and two other copies differ.
    """
    roots = make_replicas(tmp_path, records=300)
    start = offsets(roots[2], SEGMENT, SEGMENT)[-1]
    flip(segment(roots[2], SEGMENT), start % SEGMENT + 120)

    verdicts = check(*roots, replicas="all")

    verdict_words = by_word(verdicts)
    assert [("c", SEGMENT)] == verdict_words.pop("CORRUPT")
    assert {"OK"} == set(verdict_words)


def test_a_bad_last_record_of_a_closed_copy_is_damage_without_a_replica(
    tmp_path: Path,
) -> None:
    """
    It was closed, and its metadata tells where it ended: nothing is torn there.
    """
    (root,) = make_replicas(tmp_path, 1, records=300)
    copy = shutil.copytree(root, tmp_path / "copy")
    start = offsets(copy, SEGMENT, SEGMENT)[-1]
    flip(segment(copy, SEGMENT), start % SEGMENT + 120)

    verdicts = check(copy, replicas="none")

    assert {
        "CORRUPT": [("copy", SEGMENT)],
        "UNSEALED": [("copy", 0)],
    } == by_word(verdicts)
