"""
A store as its segments show it: damage, torn tails, holes, seals, samples.
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
    root = make_replicas(tmp_path_factory.mktemp("judge"), 1, with_queues=True)[0]
    with CommitLog(root) as log:
        while seal_next(log.writer):
            pass
    return root


@pytest.fixture
def root(store: Path, tmp_path: Path) -> Path:
    """
    A copy of it without bounds of its own and seals, as RocketMQ would leave it.
    """
    return shutil.copytree(
        store, tmp_path / "a", ignore=shutil.ignore_patterns("meta"), symlinks=True
    )


@pytest.fixture
def lone(root: Path) -> Path:
    """
    The same without consume queues, so that no evidence is left.
    """
    shutil.rmtree(root / "consumequeue")
    return root


# -- records -------------------------------------------------------------------


def test_nothing_is_found_in_a_whole_store(store: Path) -> None:
    """
    It ends where its last record does.
    """
    found = findings_of(store)

    assert [] == places(found)
    assert (end_of(store), end_of(store), "") == (
        found.end,
        found.expected_end,
        found.torn_reason,
    )


def test_a_whole_store_of_rocketmq_ends_at_its_last_record(root: Path) -> None:
    """
    Which no bound says, but the scan.
    """
    found = findings_of(root)

    assert [] == places(found)
    assert end_of(root) == found.end


def test_a_torn_tail_is_not_damage(root: Path) -> None:
    """
    Half a record behind the last one: every crash may leave it.
    """
    end = end_of(root)
    head = segment(root, 0).read_bytes()[:50]
    write(segment(root, 4 * SEGMENT), end - 4 * SEGMENT, head)

    found = findings_of(root)

    assert [] == places(found)
    assert end == found.end
    assert found.torn_reason


def test_what_a_killed_writer_left_is_not_damage(tmp_path: Path) -> None:
    """
    Its page still tells what it had published.
    """
    root = tmp_path / "a"
    kill_while(root, lambda log: fill(log, 900))

    found = findings_of(root)

    assert [] == places(found)
    assert end_of(root) == found.end


def test_a_bad_record_below_our_own_bound_is_damage(tmp_path: Path) -> None:
    """
    The last one of a store that was closed.
    """
    (root,) = make_replicas(tmp_path, 1, 300)
    last = offsets(root, SEGMENT, SEGMENT)[-1]
    write(segment(root, SEGMENT), last - SEGMENT + 120, b"\xff")

    found = findings_of(root)

    assert isinstance(found.plan.bound, Bound)
    assert [("record", last)] == places(found)


def test_a_bad_record_that_a_queue_names_is_damage(root: Path) -> None:
    """
    RocketMQ's evidence decides where there is no bound.
    """
    last = offsets(root, 4 * SEGMENT, SEGMENT)[-3]
    write(segment(root, 4 * SEGMENT), last - 4 * SEGMENT + 120, b"\xff")

    found = findings_of(root)

    assert isinstance(found.plan.bound, Evidence)
    assert [("record", last)] == places(found)


def test_a_bad_last_record_without_any_evidence_is_torn(lone: Path) -> None:
    """
    Nothing promised it.
    """
    *_, before, last = offsets(lone, 4 * SEGMENT, SEGMENT)
    write(segment(lone, 4 * SEGMENT), last - 4 * SEGMENT + 120, b"\xff")

    found = findings_of(lone)

    assert before < last == found.end
    assert [] == places(found)
    assert found.torn_reason


def test_a_bad_record_with_a_segment_behind_it_is_damage(lone: Path) -> None:
    """
    Logs are written from the front.
    """
    start = offsets(lone, SEGMENT, SEGMENT)[4]
    write(segment(lone, SEGMENT), start - SEGMENT + 120, b"\xff")

    found = findings_of(lone)

    assert [("record", start)] == places(found)
    assert [SEGMENT] == list(found.by_segment)
    assert end_of(lone) == found.end


def test_every_bad_record_is_named(root: Path) -> None:
    """
    In every segment; none hides another one.
    """
    starts = [
        offsets(root, base, SEGMENT)[3] for base in (0, SEGMENT, SEGMENT, 3 * SEGMENT)
    ]
    starts[2] = offsets(root, SEGMENT, SEGMENT)[9]
    for start in starts:
        write(segment(root, start // SEGMENT * SEGMENT), start % SEGMENT + 120, b"\xff")

    assert [("record", start) for start in starts] == places(findings_of(root))


def test_what_could_not_be_looked_at_belongs_to_the_damage(root: Path) -> None:
    """
    Behind zeros nobody knows where a record begins: the rest of the segment.
    """
    start = offsets(root, SEGMENT, SEGMENT)[7]
    write(segment(root, SEGMENT), start - SEGMENT, bytes(4096))

    found = findings_of(root)

    (finding,) = found.by_segment[SEGMENT]
    assert (start, 2 * SEGMENT - start) == (finding.offset, finding.size)


# -- holes ---------------------------------------------------------------------


def test_a_hole_is_no_finding(root: Path) -> None:
    """
    The segments beside it are whole; that one is absent is said elsewhere.
    """
    end = end_of(root)
    segment(root, 2 * SEGMENT).unlink()

    found = findings_of(root)

    assert [] == places(found)
    assert end == found.end


def test_a_segment_before_a_hole_must_be_full(lone: Path) -> None:
    """
    The log went on behind it.
    """
    start = offsets(lone, SEGMENT, SEGMENT)[-2]
    segment(lone, 2 * SEGMENT).unlink()
    write(segment(lone, SEGMENT), start - SEGMENT, bytes(2 * SEGMENT - start))

    assert [("record", start)] == places(findings_of(lone))


def test_a_store_says_that_its_last_segment_was_there(tmp_path: Path) -> None:
    """
    What a killed writer had published was in it.
    """
    root = tmp_path / "a"
    kill_while(root, lambda log: fill(log, 900))
    end = end_of(root)
    segment(root, 3 * SEGMENT).unlink()

    found = findings_of(root)

    assert [] == places(found)
    assert (3 * SEGMENT, end) == (found.end, found.expected_end)


def test_queues_say_that_the_last_segment_was_there(root: Path) -> None:
    """
    They name its records.
    """
    end = end_of(root)
    segment(root, 4 * SEGMENT).unlink()

    found = findings_of(root)

    assert [] == places(found)
    assert end == found.expected_end
    assert found.end <= 4 * SEGMENT


# -- seals ---------------------------------------------------------------------


def test_a_block_that_is_not_what_was_sealed_is_named(store: Path) -> None:
    """
    With its range; the records say nothing against it.
    """

    def change(checks: dict[int, SegmentCheck]) -> None:
        one = checks[SEGMENT]
        assert one.is_sealed_whole
        one.digests[0] ^= 1
        one.is_sealed_whole = False

    found = findings_of(store, change)

    text = f"bytes {SEGMENT} to {2 * SEGMENT} are not what was sealed"
    assert {SEGMENT: [Finding("seal", SEGMENT, text, SEGMENT)]} == found.by_segment


def test_where_all_blocks_agree_and_the_whole_does_not_all_are_suspect(
    store: Path,
) -> None:
    """
    As in a comparison with a seal anywhere else.
    """

    def change(checks: dict[int, SegmentCheck]) -> None:
        checks[SEGMENT].is_sealed_whole = False

    found = findings_of(store, change)

    assert [("seal", SEGMENT)] == places(found)


def test_the_seal_of_what_a_cut_shortens_says_nothing(store: Path) -> None:
    """
    A cut that is not finished leaves it.
    """
    plan = plan_store(store)
    checks = {one.base: check_segment(one) for one in plan_tasks([plan])}
    seal = checks[3 * SEGMENT].seal
    assert seal is not None
    last = replace(seal, start_offset=4 * SEGMENT)
    checks[4 * SEGMENT].seal = last

    assert [] == places(check_store(plan, checks))


def test_a_seal_that_does_not_prove_itself_is_the_store_s(store: Path) -> None:
    """
    The segment may be whole.
    """

    def change(checks: dict[int, SegmentCheck]) -> None:
        checks[0] = replace(
            checks[0], seal=None, seal_problem="it has 3 bytes", is_sealed_whole=False
        )

    found = findings_of(store, change)

    assert {} == found.by_segment
    assert [Finding("seal", 0, "it has 3 bytes")] == found.of_store


# -- parts ---------------------------------------------------------------------


def test_bad_records_of_a_sample_are_damage(root: Path) -> None:
    """
    As far as they were checked.
    """
    start = offsets(root, SEGMENT, SEGMENT)[4]
    write(segment(root, SEGMENT), start - SEGMENT + 120, b"\xff")

    assert [("record", start)] == places(findings_of(root, percent=0))


def test_the_blocks_of_a_sample_are_compared_with_the_seal(store: Path) -> None:
    """
    Those that were not read are not missing.
    """

    def change(checks: dict[int, SegmentCheck]) -> None:
        checks[0].digests.clear()
        checks[SEGMENT].digests[0] ^= 1

    assert [("seal", SEGMENT)] == places(findings_of(store, change, percent=0))


def test_a_sample_says_nothing_about_queues(root: Path) -> None:
    """
    Most of the records were not looked at.
    """
    queue = next((root / "consumequeue" / "T1" / "0").iterdir())
    write(queue, 7 * ENTRY + 7, b"\xff")

    assert [] == places(findings_of(root, percent=0))


def test_segments_that_another_round_checks_are_not_missed(root: Path) -> None:
    """
    Nor what queues name in them.
    """

    def choose(checks: dict[int, SegmentCheck]) -> None:
        for base in (0, 2 * SEGMENT, 4 * SEGMENT):
            del checks[base]

    assert [] == places(findings_of(root, choose))


def test_a_store_without_segments_has_no_findings(tmp_path: Path) -> None:
    """
    As one that was just made.
    """
    with CommitLog(tmp_path / "a", segment_size=SEGMENT):
        pass
    found = findings_of(tmp_path / "a")

    assert ([], 0, 0) == (places(found), found.end, found.expected_end)


def test_a_finding_goes_where_it_belongs(store: Path) -> None:
    """
    To the segment of its offset, unless it is about queues, epochs or no place.
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
