"""
Rounds over replicas that are real stores: verdicts, and what becomes of them.
"""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lib.autorecovery.local_set import LocalSet
from lib.autorecovery.recoveries import damage, flip, fork, large, unconfirmed
from lib.command_line import segment_file
from lib.spark.local_rounds import LocalRounds, bad_of, replicas_of
from lib.store.pairs import SEGMENT

from pystore.autorecovery.pauses import PauseKind, PauseTarget, pause
from pystore.errors import InvalidError, StorageError, UnavailableError
from pystore.seals import BLOCK_BYTES
from pystore.segments.store_copy import StoreCopy
from pystore.spark.verify.frame import row_of, verdict_of
from pystore.spark.verify.past import Past, merge_rounds
from pystore.spark.verify.rounds import load_past, write_round
from pystore.spark.verify.summary import summary_of


def _two(replicas: LocalSet) -> Path:
    return replicas.replicas[2].root


def _bases(replicas: LocalSet) -> list[int]:
    return list(StoreCopy(_two(replicas)).facts.bases())


@pytest.fixture
def replicas(tmp_path: Path) -> LocalSet:
    """
    Three replicas of one log.
    """
    return replicas_of(tmp_path)


def test_whole_replicas_are_ok_and_say_what_was_planned(replicas: LocalSet) -> None:
    """
    A row for each copy, with the process that answered and how its log stood.
    """
    rounds = LocalRounds(replicas)
    found = rounds.round()
    assert 3 * len(_bases(replicas)) == len(found.verdicts)
    for row in found.verdicts:
        assert ("OK", 2, True) == (row.verdict, row.replicas, row.is_sealed)
        assert SEGMENT == row.checked_bytes
        plan = row.replica
        assert plan is not None
        assert row.store == f"cluster/set/{plan.broker_id}"
        assert replicas.replicas[plan.broker_id].incarnation == plan.incarnation
        assert (0, -1) == (plan.begin, plan.cut_generation)
        assert row.segment is not None
        assert row.segment + SEGMENT <= plan.confirm
    assert {} == rounds.marked()


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("payload bit", "CORRUPT"),
        ("header bit", "CORRUPT"),
        ("short", "ABSENT"),
        ("missing", "ABSENT"),
    ],
)
def test_damage_is_marked_as_its_broker_confirms_it(
    replicas: LocalSet, kind: str, verdict: str
) -> None:
    """
    The reason and the blocks are those of the confirmation.
    """
    fact = damage(_two(replicas), kind)
    rounds = LocalRounds(replicas)
    assert [(verdict, "cluster/set/2", SEGMENT)] == bad_of(rounds.round())
    assert {SEGMENT: {2: fact.reason.value}} == rounds.marked()
    (mark,) = rounds.queue.list().values()
    assert (fact.blocks, "verification") == (mark.missing[2].blocks, mark.by)
    assert SEGMENT == mark.size


def test_rows_keep_what_was_planned(replicas: LocalSet, tmp_path: Path) -> None:
    """
    In Parquet and in JSON; those of an earlier version, and of stores, have none.
    """
    damage(_two(replicas), "payload bit")
    found = LocalRounds(replicas).round()
    write_round(tmp_path, found)
    rows = load_past(tmp_path).rows
    assert len(found.verdicts) == len(rows)
    for one in found.verdicts:
        assert one.replica == rows[one.store, one.segment, ""].replica
    (told,) = json.loads(json.dumps(summary_of(found)))["findings"]
    assert (2, replicas.replicas[2].incarnation) == (
        told["brokerId"],
        told["incarnation"],
    )
    row = row_of(found.verdicts[0], found)
    assert verdict_of({k: v for k, v in row.items() if k not in _ADDED}).replica is None
    store = replace(found.verdicts[0], replica=None, is_bad=True)
    (told,) = summary_of(replace(found, verdicts=[store]))["findings"]
    assert not _ADDED & told.keys()


_ADDED = {
    "brokerId",
    "incarnation",
    "begin",
    "confirm",
    "cutGeneration",
    "plannedAt",
}


def test_nothing_is_written_without_the_wish(replicas: LocalSet) -> None:
    """
    What would be marked is said, after the same confirmation.
    """
    damage(_two(replicas), "payload bit")
    rounds = LocalRounds(replicas, is_marking=False)
    rounds.round()
    line = f"cluster/set/2 segment {SEGMENT}: CORRUPT, blocks [0]"
    assert ([line], {}) == (rounds.job.marks.confirmed, rounds.marked())


def test_a_copy_against_which_the_majority_is_is_marked(replicas: LocalSet) -> None:
    """
    Its broker tells the digest of its bytes, which two others do not have.
    """
    fork(replicas, 3)
    rounds = LocalRounds(replicas, is_forced=True)
    found = rounds.round()
    assert {("DIVERGENT", "cluster/set/3")} == {one[:2] for one in bad_of(found)}
    assert {"DIVERGENT"} == {it[3] for it in rounds.marked().values()}


def test_two_whole_copies_that_differ_are_left_to_a_person(tmp_path: Path) -> None:
    """
    Without a majority nothing is marked.
    """
    replicas = replicas_of(tmp_path, 2)
    fork(replicas, 2)
    rounds = LocalRounds(replicas)
    found = rounds.round()
    assert {"DIVERGENT"} == {one[0] for one in bad_of(found)}
    assert {} == rounds.marked()
    assert rounds.job.marks.passed_over
    assert all("a person decides" in one for one in rounds.job.marks.passed_over)


def test_no_answer_is_unknown_and_marks_nothing(replicas: LocalSet) -> None:
    """
    AR-R6: dead, silent, of RocketMQ: one row each, and none of it is damage.
    """
    damage(_two(replicas), "payload bit")
    replicas.replicas[1].is_alive = False
    replicas.replicas[2].is_silent = True
    replicas.replicas[3].is_java = True
    rounds = LocalRounds(replicas)
    found = rounds.round()
    assert [("UNKNOWN", None)] * 3 == [
        (it.verdict, it.segment) for it in found.verdicts
    ]
    assert ([], {}, []) == (bad_of(found), rounds.marked(), rounds.batches)


def test_what_may_still_be_cut_is_not_judged(replicas: LocalSet) -> None:
    """
    A copy that has confirmed less is behind: absent there, and not bad.
    """
    made = replicas.replicas[1].root
    unconfirmed(replicas, 3, made)
    rounds = LocalRounds(replicas)
    found = rounds.round()
    rows = [it for it in found.verdicts if it.store == "cluster/set/3"]
    assert ["OK", "ABSENT"] == [str(it.verdict) for it in rows][:2]
    assert ([], {}) == (bad_of(found), rounds.marked())


def test_damage_of_which_its_broker_says_that_it_is_whole_is_not_marked(
    replicas: LocalSet,
) -> None:
    """
    It was repaired between the check and its confirmation.
    """
    good = segment_file(_two(replicas), SEGMENT).read_bytes()
    damage(_two(replicas), "payload bit")
    rounds = LocalRounds(replicas)
    rounds.after = lambda: segment_file(_two(replicas), SEGMENT).write_bytes(good)
    assert [("CORRUPT", "cluster/set/2", SEGMENT)] == bad_of(rounds.round())
    why = f"cluster/set/2 segment {SEGMENT}: broker 2 says that its copy is whole"
    assert ([why], {}) == (rounds.job.marks.passed_over, rounds.marked())


def test_a_share_is_read_directly_and_the_bytes_are_digested_here(
    replicas: LocalSet,
) -> None:
    """
    All of them here; the digests of the blocks are in the rows.
    """
    rounds = LocalRounds(replicas, direct_share=1)
    for row in rounds.round().verdicts:
        assert ((0,), 1) == (row.read_blocks, len(row.block_digests))
        assert "1 blocks were read directly, too" in row.evidence


def test_a_sample_reads_the_wanted_blocks_and_those_known_to_be_bad(
    tmp_path: Path,
) -> None:
    """
    The ends and a share; and what a past round found, so that it can be cleared.
    """
    roots = [tmp_path / f"broker-{one}" for one in (1, 2)]
    large(roots[0], 5 * BLOCK_BYTES)
    follow = LocalSet(roots[0])
    rounds = LocalRounds(follow, percent=0)
    past = {("cluster/set/1", 0): (2,)}
    (row,) = rounds.round(past=past).verdicts
    assert ("SAMPLED", (0, 2, 4)) == (row.verdict, row.read_blocks)
    assert (3 * BLOCK_BYTES, True) == (row.checked_bytes, row.is_sampled)
    flip(roots[0], 2 * BLOCK_BYTES + 77, 0)
    (row,) = rounds.round(1).verdicts
    assert "SAMPLED" == row.verdict
    (row,) = rounds.round(2, past=past).verdicts
    assert ("CORRUPT", (2,), (0, 4)) == (row.verdict, row.blocks, row.read_blocks)


def test_whole_copies_that_seem_to_differ_are_read_as_a_whole(tmp_path: Path) -> None:
    """
    A sample of a copy without a seal tells no digest: all its blocks do, and then there
    is a majority.
    """
    roots = [tmp_path / f"broker-{one}" for one in (1, 2, 3)]
    for root in roots[::2]:
        # Of other times: other bytes.
        large(root, 3 * BLOCK_BYTES)
    shutil.copytree(roots[0], roots[1])
    (roots[1] / "meta/seals" / f"{0:020d}.seal").unlink()
    rounds = LocalRounds(LocalSet(*roots), percent=0)
    found = rounds.round()
    assert [("DIVERGENT", "cluster/set/3", 0)] == bad_of(found)
    blocks = [
        {copy.blocks for it in batch for copy in it.copies} for batch in rounds.batches
    ]
    assert [{(0, 2)}, {()}] == blocks
    assert {0: {3: "DIVERGENT"}} == rounds.marked()


def test_a_pause_between_two_batches_ends_the_round(
    replicas: LocalSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    AR-R24: what was found so far is told, and the rest is left.
    """
    monkeypatch.setattr(
        "pystore.spark.peers.run.waves_of", _waves_of_one_segment(SEGMENT)
    )
    damage(_two(replicas), "payload bit")
    rounds = LocalRounds(replicas)
    left: list[int] = []

    def begin_pause() -> None:
        if len(rounds.batches) == 2:
            target = PauseTarget(PauseKind.VERIFICATION)
            until_ms = rounds.clock.now_ms + 60_000
            store = rounds.space.open()
            pause(store, target, until_ms, by="o", now_ms=rounds.clock.now_ms)

    rounds.after = begin_pause
    found = rounds.round(note=lambda _, count: left.append(count))
    assert 2 == len(rounds.batches)
    assert 3 * (len(_bases(replicas)) - 2) == left[-1]
    assert [("CORRUPT", "cluster/set/2", SEGMENT)] == bad_of(found)
    assert "verification is paused by o, for 60 s from now" == rounds.job.stopped
    assert {} == rounds.marked()
    rounds.clock.now_ms += 60_000
    assert "" == rounds.job.why_not()
    rounds.round(1)
    assert ("", [SEGMENT]) == (rounds.job.stopped, list(rounds.marked()))


def test_a_pause_before_the_marks_marks_nothing(replicas: LocalSet) -> None:
    """
    To confirm damage is to read bytes, too.
    """
    damage(_two(replicas), "payload bit")
    rounds = LocalRounds(replicas)

    def begin_pause() -> None:
        now_ms, target = rounds.clock.now_ms, PauseTarget(PauseKind.VERIFICATION)
        pause(rounds.space.open(), target, now_ms + 1000, by="o", now_ms=now_ms)

    rounds.after = begin_pause
    assert [("CORRUPT", "cluster/set/2", SEGMENT)] == bad_of(rounds.round())
    orders = len(replicas.replicas[2].orders)
    assert orders == len(_bases(replicas))
    assert ({}, rounds.job.stopped) == (rounds.marked(), rounds.job.marks.problem)
    assert rounds.job.stopped


def _waves_of_one_segment(size: int) -> Any:
    from pystore.spark.peers.plan import waves_of  # noqa: PLC0415

    return lambda tasks: waves_of(tasks, size)


def test_paused_hosts_and_sets_are_not_asked(replicas: LocalSet) -> None:
    """
    Of a paused host there is a row that says so; of a paused set none.
    """
    rounds = LocalRounds(replicas)
    store, now_ms = rounds.space.open(), rounds.clock.now_ms
    asked: list[str] = []
    replicas.before = lambda call, _: asked.append(call)
    host = PauseTarget(PauseKind.HOST, name="127.0.0.1")
    pause(store, host, now_ms + 1000, by="o", now_ms=now_ms)
    found = rounds.round()
    assert {"UNKNOWN"} == {str(it.verdict) for it in found.verdicts}
    assert "host 127.0.0.1 is paused" in found.verdicts[0].evidence[0]
    paused = PauseTarget(PauseKind.SET, "cluster", "set")
    pause(store, paused, now_ms + 1000, by="o", now_ms=now_ms)
    assert [] == rounds.round().verdicts
    assert {"one_set"} == set(asked)


def test_while_disabled_nothing_is_read_to_be_marked(replicas: LocalSet) -> None:
    """
    BookKeeper's `testPeriodicCheckWhenDisabled`; a round that only looks goes on.
    """
    rounds = LocalRounds(replicas)
    rounds.queue.disable("o")
    assert rounds.job.why_not().startswith("AutoRecovery is disabled")
    looking = LocalRounds(replicas, is_marking=False)
    looking.queue.disable("o")
    assert "" == looking.job.why_not()


def test_without_the_record_store_nothing_is_read(replicas: LocalSet) -> None:
    """
    A pause could be in it.
    """
    rounds = LocalRounds(replicas)

    def refuse() -> Any:
        raise UnavailableError("no server answers")

    rounds.job._open_store = refuse
    assert rounds.job.why_not().endswith("no server answers")


def test_a_set_that_the_controllers_do_not_know_is_refused(replicas: LocalSet) -> None:
    """
    One line that names it.
    """
    rounds = LocalRounds(replicas, only=(("cluster", "other"),))
    with pytest.raises(InvalidError, match="know no set cluster/other"):
        rounds.round()


def test_a_repaired_copy_clears_the_verdict_of_an_earlier_round(
    replicas: LocalSet,
) -> None:
    """
    And a replica that left its set counts no longer.
    """
    path = segment_file(_two(replicas), SEGMENT)
    good = path.read_bytes()
    damage(_two(replicas), "payload bit")
    rounds = LocalRounds(replicas)
    first = merge_rounds(Past(), rounds.round())
    past = Past({(it.store, it.segment, it.name): it for it in first.verdicts}, 0)
    path.write_bytes(good)
    del replicas.replicas[3]
    found = rounds.round(1, past=past.bad)
    gone = rounds.job.gone(past.stores | {"/data/1"})
    assert {"cluster/set/3"} == gone
    merged = merge_rounds(past, found, gone)
    assert {"cluster/set/1", "cluster/set/2"} == {it.store for it in merged.verdicts}
    assert [] == bad_of(merged)


def test_files_that_cannot_be_read_are_told_in_rounds_that_read_other_segments(
    replicas: LocalSet,
) -> None:
    """
    They cost no bytes, so no budget leaves them out.
    """
    damage(_two(replicas), "missing")
    rounds = LocalRounds(replicas)
    found = rounds.round(choose=lambda tasks: [it for it in tasks if it.base == 0])
    assert [("ABSENT", "cluster/set/2", SEGMENT)] == bad_of(found)
    assert {0, SEGMENT} == {it.segment for it in found.verdicts}


@pytest.mark.parametrize("seed", [random.randrange(1 << 32) for _ in range(5)])
def test_only_what_is_damaged_is_marked(
    replicas: LocalSet, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Random bits of random copies.
    """
    with capsys.disabled():
        print(f"seed {seed}", end=" ")
    chance = random.Random(seed)
    bases, wanted = _bases(replicas), set()
    for _ in range(chance.randrange(1, 6)):
        number, base = chance.choice([1, 2, 3]), chance.choice(bases)
        if (number, base) not in wanted:
            # Not the size or the magic code of its last, blank record.
            flip(replicas.replicas[number].root, chance.randrange(SEGMENT // 2), base)
            wanted.add((number, base))
    rounds = LocalRounds(replicas)
    rounds.round()
    marked = rounds.marked()
    assert wanted == {(one, base) for base, facts in marked.items() for one in facts}


def test_a_store_that_cannot_be_read_is_no_damage(
    replicas: LocalSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    AR-R6: a check that failed says nothing.
    """
    rounds = LocalRounds(replicas)
    own = StoreCopy.digests

    def refuse(copy: StoreCopy, base: int, indexes: Any) -> Any:
        if copy.root == _two(replicas) and base == SEGMENT:
            raise StorageError("EIO", path=str(copy.root))
        return own(copy, base, indexes)

    monkeypatch.setattr(StoreCopy, "digests", refuse)
    found = rounds.round()
    rows = [it for it in found.verdicts if it.verdict == "UNKNOWN"]
    assert [("cluster/set/2", SEGMENT)] == [(it.store, it.segment) for it in rows]
    assert ([], {}) == (bad_of(found), rounds.marked())
