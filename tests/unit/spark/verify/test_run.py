"""
The whole verify job: planted damage is reported, and nothing else is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lib.spark.verify_job import SEGMENT, by_word, check, make_replicas, run_here
from lib.store.segment_files import write

from pystore.errors import InvalidError, NotAStoreError
from pystore.message.message import Message
from pystore.rocketmq.identity_file import BrokerIdentity
from pystore.spark.verify.run import verify_stores
from pystore.store.commit_log import CommitLog
from pystore.store.sealer import seal_next
from pystore.store.store import Store


def _segment(root: Path, base: int) -> Path:
    return root / "commitlog" / f"{base:020d}"


def _flip(path: Path, at: int, size: int = 1) -> None:
    """
    Changes bytes of a file, one bit of each.
    """
    data = bytearray(path.read_bytes())
    for index in range(at, at + size):
        data[index] ^= 1
    path.write_bytes(data)


def test_equal_replicas_are_ok(tmp_path: Path) -> None:
    """
    Each copy confirms the others.
    """
    roots = make_replicas(tmp_path)

    verdicts = check(*roots, replicas="all")

    assert {"OK"} == set(by_word(verdicts))
    assert not any(one.is_bad or one.evidence for one in verdicts)
    assert {2} == {one.replicas for one in verdicts}
    assert 3 * 1000 == sum(one.records for one in verdicts)
    by_segment: dict[int | None, set[str]] = {}
    for one in verdicts:
        by_segment.setdefault(one.segment, set()).add(one.digest)
    assert all(len(digests) == 1 for digests in by_segment.values())


def test_a_single_store_is_unsealed(tmp_path: Path) -> None:
    """
    Nothing is wrong, but there is no seal and no replica to compare with.
    """
    (root,) = make_replicas(tmp_path, 1)

    verdicts = check(root)

    assert {"UNSEALED"} == set(by_word(verdicts))
    assert not any(one.is_bad for one in verdicts)


def test_one_bit_is_found_in_its_block(tmp_path: Path) -> None:
    """
    The copy is CORRUPT; other copies and segments are OK.
    """
    roots = make_replicas(tmp_path)
    _flip(_segment(roots[1], SEGMENT), 30_000)

    verdicts = check(*roots, replicas="all")

    words = by_word(verdicts)
    assert [("b", SEGMENT)] == words.pop("CORRUPT")
    assert {"OK"} == set(words)
    (bad,) = [one for one in verdicts if one.is_bad]
    assert (0,) == bad.blocks
    assert SEGMENT + 30_000 == bad.first_difference


def test_a_bit_that_no_checksum_covers_is_found_by_the_replicas(tmp_path: Path) -> None:
    """
    Without a property CRC a changed born time is valid; two replicas differ.
    """
    root = tmp_path / "a"
    with CommitLog(root, segment_size=SEGMENT, property_crc=False) as log:
        offsets = [log.append(Message("T", b"x" * 500)).offset for _ in range(300)]
    for name in "bc":
        shutil.copytree(root, tmp_path / name)
    target = next(one for one in offsets if one > SEGMENT + 1000)
    _flip(_segment(tmp_path / "c", SEGMENT), target - SEGMENT + 44)

    verdicts = check(*(tmp_path / name for name in "abc"), replicas="all")

    words = by_word(verdicts)
    assert [("c", SEGMENT)] == words.pop("CORRUPT")
    assert {"OK"} == set(words)
    (bad,) = [one for one in verdicts if one.is_bad]
    assert target + 44 == bad.first_difference
    assert "equal again after that" in bad.evidence[0]


def test_a_block_of_zeros_is_found(tmp_path: Path) -> None:
    """
    The scan cannot continue; the digests show where the zeros end.
    """
    roots = make_replicas(tmp_path)
    path = _segment(roots[0], 2 * SEGMENT)
    data = bytearray(path.read_bytes())
    data[8192:12288] = bytes(4096)
    path.write_bytes(data)

    verdicts = check(*roots, replicas="all")

    words = by_word(verdicts)
    assert [("a", 2 * SEGMENT)] == words.pop("CORRUPT")
    assert {"OK"} == set(words)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_missing_segment_is_absent(tmp_path: Path, at: int) -> None:
    """
    No other segment of the store gets another verdict.
    """
    roots = make_replicas(tmp_path)
    _segment(roots[2], at * SEGMENT).unlink()

    verdicts = check(*roots, replicas="all")

    words = by_word(verdicts)
    assert [("c", at * SEGMENT)] == words.pop("ABSENT")
    assert {"OK"} == set(words)
    (bad,) = [one for one in verdicts if one.is_bad]
    assert "take it from a replica" in bad.evidence[0]


def test_a_missing_last_segment_is_absent(tmp_path: Path) -> None:
    """
    The store's own queues show that it existed.
    """
    roots = make_replicas(tmp_path, with_queues=True)
    last = max((roots[1] / "commitlog").iterdir())
    last.unlink()

    verdicts = check(*roots, replicas="all")

    words = by_word(verdicts)
    assert [("b", int(last.name))] == words.pop("ABSENT")
    assert {"OK"} == set(words)
    assert [True] == [one.is_bad for one in verdicts if one.verdict == "ABSENT"]


def test_a_segment_that_retention_deleted_is_absent_and_not_bad(tmp_path: Path) -> None:
    """
    Replicas delete their oldest segments at different times.
    """
    roots = make_replicas(tmp_path)
    with CommitLog(roots[0]) as log:
        log.delete_before(SEGMENT)

    verdicts = check(*roots, replicas="all")

    words = by_word(verdicts)
    assert [("a", 0)] == words.pop("ABSENT")
    assert {"OK"} == set(words)
    assert not any(one.is_bad for one in verdicts)


def test_a_diverged_tail_is_named_with_its_first_byte(tmp_path: Path) -> None:
    """
    Two replicas continued with one log, the third with another one.
    """
    (root,) = make_replicas(tmp_path, 1, records=500)
    shutil.copytree(root, tmp_path / "b")
    with CommitLog(root) as log:
        start = log.ends.published_end
        for _ in range(300):
            log.append(Message("T1", b"the right one " * 20))
    shutil.copytree(root, tmp_path / "c")
    with CommitLog(tmp_path / "b") as log:
        for _ in range(300):
            log.append(Message("T1", b"another one " * 23))

    verdicts = check(*(tmp_path / name for name in "abc"), replicas="all")

    words = by_word(verdicts)
    first = start // SEGMENT * SEGMENT
    diverged = words.pop("DIVERGENT")
    assert ("b", first) == min(diverged)
    assert {"b"} == {name for name, _ in diverged}
    assert {"OK"} == set(words)
    places = [one.first_difference for one in verdicts if one.segment == first]
    (place,) = [one for one in places if one is not None]
    assert start <= place < start + 100
    assert not [o for o in verdicts if o.is_bad and (o.segment or 0) < first]


def test_a_lagging_replica_is_compared_up_to_its_end(tmp_path: Path) -> None:
    """
    Its later segments are ABSENT, and not bad.
    """
    roots = make_replicas(tmp_path, 2, records=500)
    with CommitLog(roots[0]) as log:
        for _ in range(600):
            log.append(Message("T1", b"more " * 50))

    verdicts = check(*roots, replicas="all")

    words = by_word(verdicts)
    assert {"b"} == {name for name, _ in words.pop("ABSENT")}
    assert not any(one.is_bad for one in verdicts)
    assert {"OK"} <= set(words)


def test_two_copies_that_differ_without_a_seal_are_both_bad(tmp_path: Path) -> None:
    """
    An operator has to decide, so both are named.
    """
    (root,) = make_replicas(tmp_path, 1, records=500)
    shutil.copytree(root, tmp_path / "b")
    for name in "ab":
        with CommitLog(tmp_path / name) as log:
            log.append(Message("T1", f"from {name}".encode()))

    verdicts = check(tmp_path / "a", tmp_path / "b", replicas="all")

    assert {"a", "b"} == {name for name, _ in by_word(verdicts)["DIVERGENT"]}
    assert any(
        "an operator has to" in one.evidence[0] for one in verdicts if one.is_bad
    )


def test_a_seal_shows_which_of_two_copies_is_right(tmp_path: Path) -> None:
    """
    The wrong one is CORRUPT with its blocks, the other one is OK.
    """
    roots = make_replicas(tmp_path, 2)
    for root in roots:
        with CommitLog(root) as log:
            while seal_next(log.writer):
                pass
    shutil.rmtree(roots[1])
    shutil.copytree(roots[0], roots[1])
    _flip(_segment(roots[1], SEGMENT), 100)

    verdicts = check(*roots, replicas="all")

    words = by_word(verdicts)
    assert [("b", SEGMENT)] == words.pop("CORRUPT")
    assert {"OK"} == set(words)
    assert any(one.is_sealed for one in verdicts)


def test_files_that_belong_to_no_log_are_orphans(tmp_path: Path) -> None:
    """
    A strange name, and a base offset that is no multiple of the segment size.
    """
    (root,) = make_replicas(tmp_path, 1)
    (root / "commitlog" / "00000000000000000000.bak").write_bytes(b"x")
    _segment(root, 12345).write_bytes(b"x" * SEGMENT)

    verdicts = check(root)

    orphans = [one for one in verdicts if one.verdict == "ORPHAN"]
    assert {"00000000000000000000.bak", f"{12345:020d}"} == {o.name for o in orphans}
    assert all(one.is_bad for one in orphans)
    assert {"ORPHAN", "UNSEALED"} == set(by_word(verdicts))


def test_a_segment_of_a_wrong_size_is_corrupt(tmp_path: Path) -> None:
    """
    The file exists, but its size is wrong.
    """
    roots = make_replicas(tmp_path)
    path = _segment(roots[0], SEGMENT)
    path.write_bytes(path.read_bytes()[:-1])

    verdicts = check(*roots, replicas="all")

    words = by_word(verdicts)
    assert [("a", SEGMENT)] == words.pop("CORRUPT")
    assert {"OK"} == set(words)
    (bad,) = [one for one in verdicts if one.is_bad]
    assert f"it has {SEGMENT - 1} bytes instead of {SEGMENT}" in bad.evidence[0]


def test_a_segment_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    """
    A broken link stands for a failed disk.
    """
    roots = make_replicas(tmp_path)
    path = _segment(roots[0], SEGMENT)
    path.rename(tmp_path / "away")
    path.symlink_to(tmp_path / "away")

    def run(
        tasks: Sequence[Any], function: Callable[[Any], Any], size: Callable[[Any], int]
    ) -> list[Any]:
        (tmp_path / "away").unlink(missing_ok=True)
        return run_here(tasks, function, size)

    found = verify_stores(run, [str(root) for root in roots], replicas="all")

    words = by_word(found.verdicts)
    assert [("a", SEGMENT)] == words.pop("UNKNOWN")
    assert {"OK"} == set(words)


def test_replicas_with_segments_of_other_sizes_cannot_be_compared(
    tmp_path: Path,
) -> None:
    """
    Their logs differ by the blank records at the segments' ends.
    """
    (one,) = make_replicas(tmp_path, 1, records=300)
    with CommitLog(tmp_path / "b", segment_size=2 * SEGMENT) as log:
        for _ in range(300):
            log.append(Message("T", b"x" * 200))

    verdicts = check(one, tmp_path / "b", replicas="all")

    assert {"UNKNOWN"} == set(by_word(verdicts))
    assert "segments of 65536 and 131072 bytes" in verdicts[0].evidence[0]


def test_stores_of_one_broker_set_are_compared(tmp_path: Path) -> None:
    """
    By their identities; a store of another set is not compared with them.
    """
    roots = make_replicas(tmp_path)
    for number, root in enumerate(roots):
        name = "broker-b" if number == 2 else "broker-a"
        identity = BrokerIdentity("cluster", name, number)
        (root / "brokerIdentity").write_bytes(identity.encode())

    verdicts = check(*roots)

    groups = {Path(one.store).name: (one.group, one.replicas) for one in verdicts}
    assert {
        "a": ("cluster/broker-a", 1),
        "b": ("cluster/broker-a", 1),
        "c": ("cluster/broker-b", 0),
    } == groups


def test_a_sampled_round_compares_blocks(tmp_path: Path) -> None:
    """
    The first and the last block are always read.
    """
    roots = make_replicas(tmp_path)
    _flip(_segment(roots[1], SEGMENT), 30_000)

    verdicts = check(*roots, replicas="all", percent=0)

    words = by_word(verdicts)
    assert [("b", SEGMENT)] == words.pop("CORRUPT")
    assert {"OK"} == set(words)


def test_an_entry_that_names_no_record_is_a_finding_about_the_store(
    tmp_path: Path,
) -> None:
    """
    The log itself is undamaged.
    """
    (root,) = make_replicas(tmp_path, 1, with_queues=True)
    queue = next((root / "consumequeue" / "T1" / "0").iterdir())
    _flip(queue, 20 * 7 + 7)

    verdicts = check(root)

    (bad,) = [one for one in verdicts if one.is_bad]
    assert (0, "consumequeue") == (bad.segment, bad.name)
    assert "queue offset 7 names" in bad.evidence[0]


def test_an_empty_store_has_no_verdict(tmp_path: Path) -> None:
    """
    Nothing is bad.
    """
    with CommitLog(tmp_path / "a", segment_size=SEGMENT):
        pass

    assert not [one for one in check(tmp_path / "a") if one.is_bad or one.records]


def test_invalid_arguments_are_refused(tmp_path: Path) -> None:
    """
    Before any store is read.
    """
    with pytest.raises(InvalidError, match="replicas 'some'"):
        check(tmp_path, replicas="some")
    with pytest.raises(InvalidError, match="percent 101"):
        check(tmp_path, percent=101)
    with pytest.raises(NotAStoreError, match="no such directory"):
        check(tmp_path / "none")


def test_a_newest_segment_that_lost_its_first_page_is_corrupt(tmp_path: Path) -> None:
    """
    It holds no record then, and every store bound says that it did: alone and beside
    two whole replicas.
    """
    roots = make_replicas(tmp_path)
    last = max((roots[1] / "commitlog").iterdir())
    data = bytearray(last.read_bytes())
    data[:4096] = bytes(4096)
    last.write_bytes(data)

    alone = check(roots[1])
    together = check(*roots, replicas="all")

    for verdicts in (alone, together):
        assert [("b", int(last.name))] == by_word(verdicts)["CORRUPT"]
        assert [True] == [one.is_bad for one in verdicts if one.verdict == "CORRUPT"]


def test_a_newest_segment_of_another_size_is_corrupt(tmp_path: Path) -> None:
    """
    Also if no record of it is promised.
    """
    (root,) = make_replicas(tmp_path, 1)
    last = max((root / "commitlog").iterdir())
    shutil.rmtree(root / "meta")
    last.write_bytes(last.read_bytes()[:1000])

    assert [("a", int(last.name))] == by_word(check(root))["CORRUPT"]


def test_a_topic_that_was_made_again_is_no_damage(tmp_path: Path) -> None:
    """
    Its queue begins at 0 again; the row says it.
    """
    root = tmp_path / "a"
    with CommitLog(root, segment_size=SEGMENT, property_crc=False) as log:
        starts = [log.append(Message("T", b"x")).offset for _ in range(15)]
    for index, start in enumerate(starts[10:]):
        write(_segment(root, 0), start + 20, index.to_bytes(8))

    verdicts = check(root)

    assert not [one for one in verdicts if one.is_bad]
    (note,) = [text for one in verdicts for text in one.evidence]
    assert "queue offset 0, not 10" in note
    assert "the topic was made again" in note


def test_after_a_failover_the_old_master_is_named_and_not_the_elected_one(
    tmp_path: Path,
) -> None:
    """
    Also if the old one sealed what nobody acknowledged, and a replica followed it.
    """
    old = tmp_path / "a"
    with CommitLog(old, segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        for _ in range(300):
            log.append(Message("T1", b"both have it " * 20))
        fork = log.end_offset
    new = shutil.copytree(old, tmp_path / "b")
    with CommitLog(old) as log:
        for _ in range(600):
            log.append(Message("T1", b"nobody acknowledged it " * 20))
        while seal_next(log.writer):
            pass
    follower = shutil.copytree(old, tmp_path / "c")
    with CommitLog(new) as log:
        log.begin_epoch(2)
        for _ in range(600):
            log.append(Message("T1", b"the elected master has it " * 15))

    verdicts = check(old, new, follower, replicas="all")

    bad = [one for one in verdicts if one.is_bad]
    assert {"a", "c"} == {Path(one.store).name for one in bad}
    assert {"DIVERGENT"} == {str(one.verdict) for one in bad}
    first = next(one for one in bad if one.segment == fork // SEGMENT * SEGMENT)
    assert fork == first.first_difference
    assert not any("cut it" in text for one in verdicts for text in one.evidence)


@pytest.mark.parametrize("at", [12, 20, -1], ids=["queueId", "queueOffset", "topic"])
@pytest.mark.parametrize("with_queues", [True, False])
@pytest.mark.parametrize("names", ["a", "c", "bc"])
def test_a_bit_in_an_unproved_record_is_in_its_copies_and_nowhere_else(
    tmp_path: Path, at: int, names: str, *, with_queues: bool
) -> None:
    """
    The queue's entry and order know better than two copies that were damaged alike.
    """
    root = tmp_path / "a"
    opened = Store if with_queues else CommitLog
    with opened(root, segment_size=SEGMENT, property_crc=False) as store:
        log = store.log if isinstance(store, Store) else store
        starts = [
            log.append(Message(f"T{n % 2}", b"x" * 500, queue_id=n % 3)).offset
            for n in range(300)
        ]
    for name in "bc":
        shutil.copytree(root, tmp_path / name)
    start = next(one for one in starts if one > SEGMENT + 2000)
    for name in names:
        path = _segment(tmp_path / name, SEGMENT)
        place = start - SEGMENT + at
        if at < 0:  # the topic's last byte, before the length of no properties
            place = starts[starts.index(start) + 1] - SEGMENT - 3
        _flip(path, place)
    roots = [tmp_path / name for name in "abc"]

    verdicts = check(*roots, replicas="all")

    bad = {(Path(one.store).name, one.segment) for one in verdicts if one.is_bad}
    assert {(name, SEGMENT) for name in names} == bad
    assert {"CORRUPT"} == {str(one.verdict) for one in verdicts if one.is_bad}
    if with_queues:
        alone = check(*(tmp_path / name for name in names), replicas="none")
        assert {(name, SEGMENT) for name in names} == {
            (Path(one.store).name, one.segment) for one in alone if one.is_bad
        }
