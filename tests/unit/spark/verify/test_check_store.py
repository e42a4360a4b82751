"""
Findings of one store: damage, torn tails, missing segments, seals, samples.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from lib.spark.checked_store import findings_of, places
from lib.spark.verify_job import SEGMENT, make_replicas
from lib.store.segment_files import end_of, offsets, segment, write
from lib.store.stores import fill, kill_while

from pystore.recovery.torn_tail import Bound, Evidence
from pystore.spark.verify.check_store import StoreFindings, check_store
from pystore.spark.verify.plan import StorePlan, plan_store, plan_tasks
from pystore.spark.verify.task import SegmentCheck, check_segment
from pystore.spark.verify.verdicts import Finding
from pystore.store.commit_log import CommitLog
from pystore.store.sealer import seal_next

ENTRY = 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A sealed store of five segments, the last one not full, with consume queues.
    """
    root = make_replicas(tmp_path_factory.mktemp("store"), 1, with_queues=True)[0]
    with CommitLog(root) as log:
        while seal_next(log.writer):
            pass
    return root


@pytest.fixture
def root(store: Path, tmp_path: Path) -> Path:
    """
    A copy of the store without bounds of pystore and seals, like RocketMQ's.
    """
    return shutil.copytree(
        store, tmp_path / "a", ignore=shutil.ignore_patterns("meta"), symlinks=True
    )


@pytest.fixture
def lone(root: Path) -> Path:
    """
    A copy of the store without consume queues, so without evidence.
    """
    shutil.rmtree(root / "consumequeue")
    return root


# -- records -------------------------------------------------------------------


def test_an_undamaged_store_has_no_findings(store: Path) -> None:
    """
    It ends where its last record ends.
    """
    found = findings_of(store)

    assert [] == places(found)
    assert (end_of(store), end_of(store), "") == (
        found.end,
        found.expected_end,
        found.torn_reason,
    )


def test_an_undamaged_store_of_rocketmq_ends_at_its_last_record(root: Path) -> None:
    """
    There is no bound; the scan finds the end.
    """
    found = findings_of(root)

    assert [] == places(found)
    assert end_of(root) == found.end


def test_a_torn_tail_is_not_damage(root: Path) -> None:
    """
    Half a record is behind the last one, as after any crash.
    """
    end = end_of(root)
    head = segment(root, 0).read_bytes()[:50]
    write(segment(root, 4 * SEGMENT), end - 4 * SEGMENT, head)

    found = findings_of(root)

    assert [] == places(found)
    assert end == found.end
    assert found.torn_reason


def test_the_store_of_a_killed_writer_is_not_damaged(tmp_path: Path) -> None:
    """
    Its live page still has the published end.
    """
    root = tmp_path / "a"
    kill_while(root, lambda log: fill(log, 900))

    found = findings_of(root)

    assert [] == places(found)
    assert end_of(root) == found.end


def test_a_bad_record_below_our_own_bound_is_damage(tmp_path: Path) -> None:
    """
    It is the last record of a store that was closed.
    """
    (root,) = make_replicas(tmp_path, 1, 300)
    last = offsets(root, SEGMENT, SEGMENT)[-1]
    write(segment(root, SEGMENT), last - SEGMENT + 120, b"\xff")

    found = findings_of(root)

    assert isinstance(found.plan.bound, Bound)
    assert [("record", last)] == places(found)


def test_a_bad_record_that_a_queue_names_is_damage(root: Path) -> None:
    """
    Without a bound, RocketMQ's files are the evidence.
    """
    last = offsets(root, 4 * SEGMENT, SEGMENT)[-3]
    write(segment(root, 4 * SEGMENT), last - 4 * SEGMENT + 120, b"\xff")

    found = findings_of(root)

    assert isinstance(found.plan.bound, Evidence)
    assert [("record", last)] == places(found)


def test_a_bad_last_record_without_any_evidence_is_torn(lone: Path) -> None:
    """
    No file shows that the record was complete.
    """
    *_, before, last = offsets(lone, 4 * SEGMENT, SEGMENT)
    write(segment(lone, 4 * SEGMENT), last - 4 * SEGMENT + 120, b"\xff")

    found = findings_of(lone)

    assert before < last == found.end
    assert [] == places(found)
    assert found.torn_reason


def test_a_bad_record_with_a_segment_behind_it_is_damage(lone: Path) -> None:
    """
    A log is written in offset order.
    """
    start = offsets(lone, SEGMENT, SEGMENT)[4]
    write(segment(lone, SEGMENT), start - SEGMENT + 120, b"\xff")

    found = findings_of(lone)

    assert [("record", start)] == places(found)
    assert [SEGMENT] == list(found.by_segment)
    assert end_of(lone) == found.end


def test_every_bad_record_is_named(root: Path) -> None:
    """
    There is a finding for each bad record in each segment.
    """
    starts = [
        offsets(root, base, SEGMENT)[3] for base in (0, SEGMENT, SEGMENT, 3 * SEGMENT)
    ]
    starts[2] = offsets(root, SEGMENT, SEGMENT)[9]
    for start in starts:
        write(segment(root, start // SEGMENT * SEGMENT), start % SEGMENT + 120, b"\xff")

    assert [("record", start) for start in starts] == places(findings_of(root))


def test_bytes_that_cannot_be_scanned_belong_to_the_damage(root: Path) -> None:
    """
    Behind zeros the next record is found: only the bytes up to it are damaged.
    """
    all_offsets = offsets(root, SEGMENT, SEGMENT)
    start = all_offsets[7]
    # The first byte of a record's size is zero anyway.
    behind = next(one for one in all_offsets if one >= start + 4095)
    write(segment(root, SEGMENT), start - SEGMENT, bytes(4096))

    found = findings_of(root)

    (finding,) = found.by_segment[SEGMENT]
    assert (start, behind - start) == (finding.offset, finding.size)


# -- missing segments ----------------------------------------------------------


def test_a_missing_segment_is_no_finding(root: Path) -> None:
    """
    The segments beside it are undamaged; the missing one gets the verdict ABSENT.
    """
    end = end_of(root)
    segment(root, 2 * SEGMENT).unlink()

    found = findings_of(root)

    assert [] == places(found)
    assert end == found.end


def test_a_segment_before_a_missing_one_must_be_full(lone: Path) -> None:
    """
    The log continued after it.
    """
    start = offsets(lone, SEGMENT, SEGMENT)[-2]
    segment(lone, 2 * SEGMENT).unlink()
    write(segment(lone, SEGMENT), start - SEGMENT, bytes(2 * SEGMENT - start))

    assert [("record", start)] == places(findings_of(lone))


def test_the_live_page_shows_that_the_last_segment_existed(tmp_path: Path) -> None:
    """
    A killed writer had published records in it.
    """
    root = tmp_path / "a"
    kill_while(root, lambda log: fill(log, 900))
    end = end_of(root)
    segment(root, 3 * SEGMENT).unlink()

    found = findings_of(root)

    assert [] == places(found)
    assert (3 * SEGMENT, end) == (found.end, found.expected_end)


def test_queues_show_that_the_last_segment_existed(root: Path) -> None:
    """
    They name its records. Of two entries that agree, the lower one counts.
    """
    end = end_of(root)
    last = offsets(root, 4 * SEGMENT, SEGMENT)
    segment(root, 4 * SEGMENT).unlink()

    found = findings_of(root)

    assert [] == places(found)
    assert last[-2] < found.expected_end <= end
    assert found.end <= 4 * SEGMENT


# -- seals ---------------------------------------------------------------------


def test_a_block_that_differs_from_the_seal_is_named(store: Path) -> None:
    """
    The finding has the block's range; the records alone are valid.
    """

    def change(checks: dict[int, SegmentCheck]) -> None:
        one = checks[SEGMENT]
        assert one.is_sealed_whole
        one.digests = {0: one.digests[0] ^ 1}
        one.is_sealed_whole = False

    found = findings_of(store, change)

    text = f"bytes {SEGMENT} to {2 * SEGMENT} are not what was sealed"
    assert {SEGMENT: [Finding("seal", SEGMENT, text, SEGMENT)]} == found.by_segment


def test_if_only_the_digest_of_all_bytes_differs_every_block_is_bad(
    store: Path,
) -> None:
    """
    The seal's digest of all bytes counts, too.
    """

    def change(checks: dict[int, SegmentCheck]) -> None:
        checks[SEGMENT].is_sealed_whole = False

    found = findings_of(store, change)

    assert [("seal", SEGMENT)] == places(found)


def test_the_seal_of_a_segment_that_an_unfinished_cut_shortens_does_not_count(
    store: Path,
) -> None:
    """
    An unfinished cut leaves the old seal.
    """
    plan = plan_store(store)
    checks = {one.base: check_segment(one) for one in plan_tasks([plan])}
    seal = checks[3 * SEGMENT].seal
    assert seal is not None
    last = replace(seal, start_offset=4 * SEGMENT)
    checks[4 * SEGMENT].seal = last

    assert [] == places(check_store(plan, checks))


def test_an_invalid_seal_is_a_finding_about_the_store(store: Path) -> None:
    """
    The segment may be undamaged.
    """

    def change(checks: dict[int, SegmentCheck]) -> None:
        checks[0] = replace(
            checks[0], seal=None, seal_problem="it has 3 bytes", is_sealed_whole=False
        )

    found = findings_of(store, change)

    assert {} == found.by_segment
    assert [Finding("seal", 0, "it has 3 bytes")] == found.of_store


# -- samples -------------------------------------------------------------------


def test_bad_records_of_a_sample_are_damage(root: Path) -> None:
    """
    Records are checked in the blocks that were read.
    """
    start = offsets(root, SEGMENT, SEGMENT)[4]
    write(segment(root, SEGMENT), start - SEGMENT + 120, b"\xff")

    assert [("record", start)] == places(findings_of(root, percent=0))


def test_the_blocks_of_a_sample_are_compared_with_the_seal(store: Path) -> None:
    """
    Blocks that were not read are not compared.
    """

    def change(checks: dict[int, SegmentCheck]) -> None:
        checks[0].digests = {}
        checks[SEGMENT].digests = {0: checks[SEGMENT].digests[0] ^ 1}

    assert [("seal", SEGMENT)] == places(findings_of(store, change, percent=0))


def test_a_sample_has_no_findings_about_queues(root: Path) -> None:
    """
    Most of the records were not read.
    """
    queue = next((root / "consumequeue" / "T1" / "0").iterdir())
    write(queue, 7 * ENTRY + 7, b"\xff")

    assert [] == places(findings_of(root, percent=0))


def test_segments_that_another_round_checks_are_not_missing(root: Path) -> None:
    """
    Entries of queues that name them are no finding either.
    """

    def choose(checks: dict[int, SegmentCheck]) -> None:
        for base in (0, 2 * SEGMENT, 4 * SEGMENT):
            del checks[base]

    assert [] == places(findings_of(root, choose))


def test_a_store_without_segments_has_no_findings(tmp_path: Path) -> None:
    """
    A store that was just created has none.
    """
    with CommitLog(tmp_path / "a", segment_size=SEGMENT):
        pass
    found = findings_of(tmp_path / "a")

    assert ([], 0, 0) == (places(found), found.end, found.expected_end)


def test_a_finding_belongs_to_its_segment_or_to_the_store(store: Path) -> None:
    """
    Findings about queues, epochs or without an offset belong to the store.
    """
    plan: StorePlan = plan_store(store)
    found = StoreFindings(plan, {})
    record = Finding("record", 2 * SEGMENT - 1, "")
    rest = [
        Finding("epoch", 5, ""),
        Finding("consumeQueue", 5, ""),
        Finding("store", None, ""),
    ]
    for one in [record, *rest]:
        found.add(one)

    assert {SEGMENT: [record]} == found.by_segment
    assert rest == found.of_store
