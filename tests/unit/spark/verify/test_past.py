"""
What a round takes over from the rounds before.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from lib.spark.verify_job import SEGMENT, make_replicas, run_here
from lib.store.segment_files import flip, offsets, segment

from pystore.message.message import Message
from pystore.seals import BLOCK_BYTES
from pystore.spark.verify.output import write_output
from pystore.spark.verify.past import Past, merge_rounds, with_lost_stores
from pystore.spark.verify.rounds import (
    NEWEST,
    last_verified,
    load_past,
    next_round,
    oldest_first,
)
from pystore.spark.verify.run import VerifyRun, verify_stores
from pystore.spark.verify.summary import is_bad, summary_of
from pystore.spark.verify.verdicts import SegmentVerdict, Verdict
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store


def round_of(
    into: Path,
    *paths: Path | str,
    percent: int = 100,
    budget: int | None = None,
    forgotten: tuple[str, ...] = (),
) -> VerifyRun:
    """
    One round as the command runs it; returns the newest verdicts.
    """
    past = load_past(into)
    choose = None
    if budget is not None:
        choose = oldest_first(last_verified(into), budget, past.bad)
    found = verify_stores(
        run_here,
        map(str, paths),
        replicas="none",
        percent=percent,
        number=next_round(into),
        choose=choose,
        past=past.bad,
    )
    found = with_lost_stores(past, found, forgotten)
    newest = merge_rounds(past, found, forgotten)
    write_output(into, found, newest)
    return newest


def bad_places(found: VerifyRun) -> list[tuple[str, int | None, str]]:
    """
    Store, segment and verdict of each bad row.
    """
    return sorted(
        (Path(one.store).name, one.segment, str(one.verdict))
        for one in found.verdicts
        if one.is_bad
    )


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """
    A store of one full segment of four blocks, and some bytes behind it, without seals.
    """
    root = tmp_path / "big"
    with CommitLog(root, segment_size=4 * BLOCK_BYTES, property_crc=False) as log:
        for number in range(40):
            log.append(Message("T", bytes([number]) * 500_000))
    return root


# -- the newest verdict of every segment ---------------------------------------


def test_rounds_under_a_budget_do_not_forget(tmp_path: Path) -> None:
    """
    The exit code and the page are of all rounds, and the bad segment is read again in
    each of them.
    """
    (root,) = make_replicas(tmp_path, 1)
    flip(segment(root, 2 * SEGMENT), 30_000)
    into = tmp_path / "audit"

    for number in range(6):
        found = round_of(into, root, budget=1)
        known = {one.segment for one in found.verdicts}
        if number >= 2:
            assert [("a", 2 * SEGMENT, "CORRUPT")] == bad_places(found)
            assert is_bad(found)
            assert "CORRUPT" in (into / "report.html").read_text()
    assert {0, SEGMENT, 2 * SEGMENT} == known

    shutil.copy(segment(root, 2 * SEGMENT), tmp_path / "aside")
    flip(segment(root, 2 * SEGMENT), 30_000)  # repaired
    found = round_of(into, root, budget=1)

    assert [] == bad_places(found)
    assert {0, SEGMENT, 2 * SEGMENT} == {one.segment for one in found.verdicts}


def test_the_rows_of_a_merged_round_keep_their_round(tmp_path: Path) -> None:
    """
    The summary counts the records of the last round.
    """
    (root,) = make_replicas(tmp_path, 1)
    into = tmp_path / "audit"
    first = round_of(into, root, budget=1)
    second = round_of(into, root, budget=1)

    assert {0: 0, SEGMENT: 1} == {one.segment: one.round for one in second.verdicts}
    records = {one.segment: one.records for one in second.verdicts}
    assert records[SEGMENT] == summary_of(second)["records"]
    assert records[0] == summary_of(first)["records"]


def test_a_wrong_queue_entry_is_not_forgotten(tmp_path: Path) -> None:
    """
    Until the segment that it names was read again without it.
    """
    (root,) = make_replicas(tmp_path, 1, with_queues=True)
    path = next((root / "consumequeue" / "T1" / "0").iterdir())
    flip(path, 20 * 7 + 7)
    into = tmp_path / "audit"

    for _ in range(7):
        found = round_of(into, root, budget=1)
        assert [("a", 0, "CORRUPT")] == bad_places(found)
    flip(path, 20 * 7 + 7)

    assert [] == bad_places(round_of(into, root))


def test_segments_that_retention_deleted_leave_the_page(tmp_path: Path) -> None:
    """
    Also bad ones.
    """
    (root,) = make_replicas(tmp_path, 1)
    flip(segment(root, 0), 30_000)
    into = tmp_path / "audit"
    assert [("a", 0, "CORRUPT")] == bad_places(round_of(into, root))
    with CommitLog(root) as log:
        log.delete_before(SEGMENT)

    found = round_of(into, root)

    assert [] == bad_places(found)
    assert 0 not in {one.segment for one in found.verdicts}


def test_no_answer_hides_no_verdict() -> None:
    """
    A segment that could not be read again is as bad as it was.
    """
    bad = SegmentVerdict("g", "/s", 0, Verdict.CORRUPT, is_bad=True, round=3)
    unknown = SegmentVerdict("g", "/s", 0, Verdict.UNKNOWN)
    past = Past({("/s", 0, ""): bad}, 3)

    found = merge_rounds(past, _run(4, unknown))

    (one,) = found.verdicts
    assert ("CORRUPT", True, 3) == (one.verdict, one.is_bad, one.round)
    assert ["found in round 3; no later check read it again"] == one.evidence


def test_a_sample_of_other_blocks_hides_no_verdict() -> None:
    """
    One of the bad blocks does, if the verdict was of a sample, too.
    """
    bad = SegmentVerdict(
        "g",
        "/s",
        0,
        Verdict.CORRUPT,
        is_bad=True,
        round=3,
        is_sampled=True,
        blocks=(2,),
        length=4 * BLOCK_BYTES,
        read_blocks=(0, 2),
    )
    past = Past({("/s", 0, ""): bad}, 3)
    other = SegmentVerdict(
        "g", "/s", 0, Verdict.SAMPLED, is_sampled=True, read_blocks=(0, 1)
    )
    same = replace(other, read_blocks=(0, 2))

    assert {("/s", 0): (2,)} == past.bad
    assert is_bad(merge_rounds(past, _run(4, other)))
    assert not is_bad(merge_rounds(past, _run(4, same)))
    whole = replace(bad, is_sampled=False, read_blocks=(0, 1, 2, 3))
    assert is_bad(merge_rounds(Past({("/s", 0, ""): whole}, 3), _run(4, same)))


def _run(number: int, *verdicts: SegmentVerdict) -> VerifyRun:
    return VerifyRun(number, list(verdicts), ["/s"], 1.0, 1e9, {"/s": (0,)})


def test_newest_verdicts_are_made_again_from_the_rounds(tmp_path: Path) -> None:
    """
    If the job was stopped before it wrote them.
    """
    (root,) = make_replicas(tmp_path, 1)
    flip(segment(root, 0), 30_000)
    into = tmp_path / "audit"
    round_of(into, root, budget=1)
    round_of(into, root)
    kept = load_past(into)
    (into / NEWEST).unlink()

    again = load_past(into)

    assert kept.rows.keys() == again.rows.keys()
    assert kept.bad == again.bad == {(str(root), 0): (0,)}


# -- stores that are gone ------------------------------------------------------


@pytest.mark.parametrize("way", ["unmounted", "removed"])
@pytest.mark.parametrize("is_glob", [True, False])
def test_a_store_of_the_last_round_that_is_gone_is_a_verdict(
    tmp_path: Path, way: str, *, is_glob: bool
) -> None:
    """
    By a pattern and by name, in each round, until it is forgotten.
    """
    (tmp_path / "data").mkdir()
    roots = make_replicas(tmp_path / "data", 3, 300)
    into = tmp_path / "audit"
    paths = [tmp_path / "data" / "[abc]"] if is_glob else roots
    assert [] == bad_places(round_of(into, *paths))
    shutil.rmtree(roots[1] / "commitlog" if way == "unmounted" else roots[1])
    shutil.rmtree(roots[1] / "meta", ignore_errors=True)

    for _ in range(2):
        found = round_of(into, *paths)
        assert ("b", None, "ABSENT") in bad_places(found)
    (text,) = next(
        one.evidence for one in found.verdicts if one.is_bad and one.segment is None
    )
    assert "is its disk mounted?" in text

    found = round_of(into, *paths, forgotten=(str(roots[1]),))
    assert [] == bad_places(found)
    if is_glob:
        assert [] == bad_places(round_of(into, *paths))


def test_stores_of_other_runs_are_not_missed(tmp_path: Path) -> None:
    """
    Their verdicts stay.
    """
    roots = make_replicas(tmp_path, 2, 300)
    flip(segment(roots[0], 0), 30_000)
    into = tmp_path / "audit"
    round_of(into, roots[0])

    found = round_of(into, roots[1])

    assert [("a", 0, "CORRUPT")] == bad_places(found)
    assert list(map(str, (roots[1], roots[0]))) == found.stores


# -- samples and digests -------------------------------------------------------


def test_a_sample_says_what_it_proved(big: Path) -> None:
    """
    How many blocks were read, and what they were compared with.
    """
    found = verify_stores(run_here, [str(big)], percent=50)

    (first, _) = found.verdicts
    assert Verdict.SAMPLED == first.verdict
    text = (
        "3 of 4 blocks (75 %) were read: there is neither a seal nor a replica to "
        "compare them with; 26 records in them are whole"
    )
    assert [text] == first.evidence
    assert 4 * BLOCK_BYTES > first.checked_bytes > 2 * BLOCK_BYTES


def test_a_sample_finds_what_changed_since_the_last_round(
    big: Path, tmp_path: Path
) -> None:
    """
    Nobody else vouches for the bytes: there is no seal and no replica.
    """
    into = tmp_path / "audit"
    round_of(into, big)
    found = round_of(into, big, percent=100)
    assert [] == bad_places(found)
    starts = offsets(big, 0, 4 * BLOCK_BYTES)
    record = next(one for one in starts if one > BLOCK_BYTES)
    flip(segment(big, 0), record + 19)  # the flag, which no checksum covers

    for _ in range(4):
        found = round_of(into, big, percent=50)

    assert [("big", 0, "CORRUPT")] == bad_places(found)
    (one,) = [one for one in found.verdicts if one.is_bad]
    assert (1,) == one.blocks
    assert "a log only grows" in " ".join(one.evidence)


def test_an_unchanged_sample_agrees_with_the_last_round(
    big: Path, tmp_path: Path
) -> None:
    """
    The evidence says so.
    """
    into = tmp_path / "audit"
    round_of(into, big)
    found = round_of(into, big, percent=0)

    (text, more) = found.verdicts[0].evidence
    assert text.startswith("2 of 4 blocks (50 %) were read")
    assert "2 blocks are as round 0 read them" == more


def test_a_log_that_was_cut_and_grew_again_is_no_damage(tmp_path: Path) -> None:
    """
    All bytes behind the cut changed.
    """
    root = tmp_path / "a"
    into = tmp_path / "audit"
    with Store(root, segment_size=SEGMENT) as store:
        for _ in range(300):
            store.log.append(Message("T", b"x" * 1000))
    round_of(into, root)
    with Store(root) as store:
        store.log.cut(int(next(iter(store.log.scan()))["offset"][20]))
        for _ in range(300):
            store.log.append(Message("T", os.urandom(500) * 2))

    found = round_of(into, root)

    assert [] == bad_places(found)
    assert summary_of(found)["notes"] > 0


def test_a_repaired_segment_is_no_change(tmp_path: Path) -> None:
    """
    What was bad is not compared with what is there now.
    """
    (root,) = make_replicas(tmp_path, 1)
    into = tmp_path / "audit"
    flip(segment(root, SEGMENT), 30_000)
    assert [("a", SEGMENT, "CORRUPT")] == bad_places(round_of(into, root))
    flip(segment(root, SEGMENT), 30_000)

    found = round_of(into, root)

    assert [] == bad_places(found)
    assert not [one for one in found.verdicts if one.evidence]
