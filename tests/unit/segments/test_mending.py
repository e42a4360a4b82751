"""
A copy of a log is mended from others, whether it is open, closed or cannot be opened.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from threading import RLock

import pytest
from lib.command_line import segment_file
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT, fill, seal

from pystore import Message, Store
from pystore.errors import NotAStoreError
from pystore.rocketmq.identity_file import BrokerIdentity
from pystore.segments.mend_plan import MendAction, plan_mending
from pystore.segments.mending import (
    MendProgress,
    fill_store,
    mend_open,
)
from pystore.segments.mending import mend_closed as mend_closed_store
from pystore.segments.store_copy import StoreCopy
from pystore.verify import verify_store

RECORDS = 900


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A sealed store of many segments.
    """
    root = tmp_path_factory.mktemp("made") / "store"
    fill(root, RECORDS)
    seal(root)
    return root


@pytest.fixture
def good(made: Path, tmp_path: Path) -> Path:
    """
    A copy that stays whole.
    """
    return copied(made, tmp_path / "good")


@pytest.fixture
def bad(made: Path, tmp_path: Path) -> Path:
    """
    A copy that is damaged.
    """
    return copied(made, tmp_path / "bad")


def copied(made: Path, root: Path) -> Path:
    """
    Another store with the same log: a copy of the files would be a copy of the store.
    """
    follow_from(made, root, 0)
    return root


def flip(path: Path, at: int) -> None:
    """
    Changes one bit of a file.
    """
    with path.open("r+b") as file:
        file.seek(at)
        old = file.read(1)
        file.seek(at)
        file.write(bytes([old[0] ^ 4]))


def mend_closed(
    root: Path, sources: list[Path], kept: Path, segment: int | None = None
) -> MendProgress:
    """
    Mends a closed store from others.
    """
    copies = [StoreCopy(one) for one in sources]
    return mend_closed_store(root, copies, kept, segment)


def damage(path: Path, kind: str) -> None:
    """
    Damages the file of a segment.
    """
    match kind:
        case "payload bit":
            flip(path, 700)
        case "header bit":
            flip(path, 4)
        case "missing":
            path.unlink()
        case "short":
            os.truncate(path, 3000)
        case "empty":
            os.truncate(path, 0)
        case "zeros":
            path.write_bytes(bytes(SEGMENT))
        case "directory":
            path.unlink()
            path.mkdir()


KINDS = ["payload bit", "header bit", "missing", "short", "empty", "zeros"]


def check_equal(good: Path, bad: Path) -> None:
    """
    Checks that both logs are equal and whole, every record with its entry.
    """
    report = verify_store(bad)
    assert "whole" == report.verdict, report.damages
    assert 0 == report.queues.missing
    for path in sorted((good / "commitlog").iterdir())[:-1]:
        assert path.read_bytes() == (bad / "commitlog" / path.name).read_bytes()


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("kind", ["payload bit", "short"])
def test_a_file_that_a_backup_shares_is_replaced_and_not_changed(
    good: Path, bad: Path, tmp_path: Path, kind: str, *, is_open: bool
) -> None:
    """
    A repair in place would change the backup, too, and a copy of it would be the same
    damage: a whole file comes from the sources, and own whole blocks count as one.
    """
    path, backup = segment_file(bad, SEGMENT), tmp_path / "backup"
    os.link(path, backup)
    if is_open:
        with Store(bad) as store:
            damage(path, kind)
            before = backup.read_bytes()
            lock, progress = RLock(), MendProgress()
            progress.begin(plan_mending(StoreCopy(bad), [StoreCopy(good)]))
            fill_it, kept = fill_store(store, lock), tmp_path / "kept"
            mend_open(store, fill_it, progress.plan.steps, kept, progress)
    else:
        damage(path, kind)
        before = backup.read_bytes()
        progress = mend_closed(bad, [good], tmp_path / "kept")

    assert [SEGMENT] == [one.base for one in progress.done]
    assert (before, 1) == (backup.read_bytes(), path.stat().st_nlink)
    check_equal(good, bad)


@pytest.mark.parametrize("base", [0, SEGMENT, 5 * SEGMENT])
@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_store_is_mended_from_a_copy(
    good: Path, bad: Path, kind: str, base: int
) -> None:
    """
    Also where it cannot be opened before.
    """
    damage(segment_file(bad, base), kind)
    plan = mend_closed(bad, [good], bad.parent / "kept")

    assert [base] == [one.base for one in plan.done]
    assert [] == plan.unmended
    check_equal(good, bad)
    assert () == tuple(mend_closed(bad, [good], bad.parent / "kept").done)


@pytest.mark.parametrize("kind", KINDS)
def test_an_open_store_is_mended_while_appends_and_reads_go_on(
    good: Path, bad: Path, kind: str
) -> None:
    """
    A reader that has the store open reads the mended bytes, too.
    """
    lock = RLock()
    with Store(bad, lock=lock) as store, Store(bad, mode="r") as reader:
        entry = next(one for one in range(RECORDS) if at(reader, one) >= SEGMENT)
        reader.read("t0", 0, entry)
        damage(segment_file(bad, SEGMENT), kind)
        store.log.append(Message("t0", b"during"))
        plan = MendProgress()
        plan.begin(plan_mending(StoreCopy(bad), [StoreCopy(good)]))
        kept, fill_it = bad.parent / "kept", fill_store(store, lock)
        mend_open(store, fill_it, plan.plan.steps, kept, plan)
        store.log.append(Message("t0", b"after"))
        assert [SEGMENT] == [one.base for one in plan.done]
        expected = store.read("t0", 0, entry)
        assert expected.body == reader.read("t0", 0, entry).body
    check_equal(good, bad)


def at(store: Store, index: int) -> int:
    """
    The log offset of a record of the first queue.
    """
    queue = store.queues.get("t0", 0)
    assert queue is not None
    return queue.read(index).offset


def test_a_log_that_began_late_is_filled_from_a_copy(
    made: Path, tmp_path: Path
) -> None:
    """
    Down to where the copy begins.
    """
    good, late = copied(made, tmp_path / "good"), tmp_path / "late"
    follow_from(made, late, 4 * SEGMENT)
    plan = mend_closed(late, [good], tmp_path / "kept")

    assert [3, 2, 1, 0] == [one.base // SEGMENT for one in plan.done]
    assert {MendAction.FILL} == {one.action for one in plan.done}
    check_equal(good, late)


def test_one_segment_is_mended_if_it_is_named(good: Path, bad: Path) -> None:
    """
    The other ones stay as they are.
    """
    for base in (SEGMENT, 3 * SEGMENT):
        damage(segment_file(bad, base), "payload bit")
    plan = mend_closed(bad, [good], bad.parent / "kept", segment=3 * SEGMENT)

    assert [3 * SEGMENT] == [one.base for one in plan.done]
    assert "damaged" == verify_store(bad).verdict


def test_a_source_with_the_same_damage_mends_nothing(good: Path, bad: Path) -> None:
    """
    Each copy says why it cannot help.
    """
    for root in (good, bad):
        damage(segment_file(root, SEGMENT), "payload bit")
    plan = mend_closed(bad, [good], bad.parent / "kept")

    assert () == tuple(plan.done)
    (left,) = plan.unmended
    assert (SEGMENT, "1 of 1 blocks are bad") == (left.base, left.reason)
    assert (f"{good}: its own block 0 is bad",) == left.refusals


def test_what_one_source_lacks_another_one_has(
    good: Path, bad: Path, made: Path, tmp_path: Path
) -> None:
    """
    The first one that proves the bytes gives them.
    """
    third = copied(made, tmp_path / "third")
    damage(segment_file(bad, SEGMENT), "missing")
    damage(segment_file(good, SEGMENT), "short")
    plan = mend_closed(bad, [good, third], tmp_path / "kept")

    assert [(str(third),)] == [
        tuple(source.name for source in one.sources) for one in plan.done
    ]
    check_equal(third, bad)


def test_another_log_mends_nothing(bad: Path, tmp_path: Path) -> None:
    """
    Its records prove themselves, but they are not those that were sealed here.
    """
    other = tmp_path / "other"
    fill(other, RECORDS, first=5)
    seal(other)
    damage(segment_file(bad, SEGMENT), "payload bit")
    plan = mend_closed(bad, [other], tmp_path / "kept")

    assert () == tuple(plan.done)
    left = {one.base: one for one in plan.unmended}
    assert "is not the one that was sealed" in left[SEGMENT].refusals[0]


@pytest.mark.parametrize("has_seals", [(True, False), (False, True), (False, False)])
def test_without_seals_the_records_prove_themselves(
    good: Path, bad: Path, has_seals: tuple[bool, bool]
) -> None:
    """
    A seal was lost, or the store is one that never had any.
    """
    for root, is_sealed in zip((good, bad), has_seals, strict=True):
        if not is_sealed:
            shutil.rmtree(root / "meta" / "seals")
    damage(segment_file(bad, SEGMENT), "payload bit")
    damage(segment_file(bad, 3 * SEGMENT), "missing")
    plan = mend_closed(bad, [good], bad.parent / "kept")

    assert [SEGMENT, 3 * SEGMENT] == [one.base for one in plan.done]
    check_equal(good, bad)


@pytest.mark.parametrize("at", [8, 100, -1])
@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_seal_with_a_flipped_bit_is_no_seal(
    good: Path, bad: Path, at: int, *, is_damaged: bool
) -> None:
    """
    It proves nothing, here or at the source, and condemns no whole segment.
    """
    for root in (good, bad):
        seals = root / "meta" / "seals"
        (path,) = seals.glob(f"{SEGMENT:020d}*")
        flip(path, at % path.stat().st_size)
        assert StoreCopy(root).seal(SEGMENT) is None
    if is_damaged:
        damage(segment_file(bad, SEGMENT), "payload bit")
    done = mend_closed(bad, [good], bad.parent / "kept").done

    assert [SEGMENT] * is_damaged == [one.base for one in done]
    assert good_bytes(good) == good_bytes(bad)


def good_bytes(root: Path) -> bytes:
    """
    The bytes of the segment that is damaged.
    """
    return segment_file(root, SEGMENT).read_bytes()


@pytest.mark.parametrize("has_seals", [True, False])
@pytest.mark.parametrize("kind", ["another segment", "sparse", "text"])
def test_a_file_of_another_segment_is_damage(
    good: Path, bad: Path, kind: str, *, has_seals: bool
) -> None:
    """
    Of the right size, with whole records of another place, with a hole in it, or with
    what another program wrote there.
    """
    path = segment_file(bad, SEGMENT)
    match kind:
        case "another segment":
            shutil.copyfile(segment_file(bad, 2 * SEGMENT), path)
        case "sparse":
            half = path.read_bytes()[: SEGMENT // 2]
            with path.open("wb") as file:
                file.write(half)
                file.truncate(SEGMENT)
        case "text":
            path.write_bytes(b"to whom it may concern\n".ljust(SEGMENT))
    if not has_seals:
        for root in (good, bad):
            shutil.rmtree(root / "meta" / "seals")
    done = mend_closed(bad, [good], bad.parent / "kept").done

    assert [SEGMENT] == [one.base for one in done]
    check_equal(good, bad)


def test_two_whole_copies_that_differ_are_named_and_not_changed(
    bad: Path, tmp_path: Path
) -> None:
    """
    Each one proves itself: nothing says which one is right.
    """
    other = tmp_path / "other"
    fill(other, RECORDS, first=5)
    seal(other)
    before = segment_file(bad, SEGMENT).read_bytes()
    plan = mend_closed(bad, [other], tmp_path / "kept", segment=SEGMENT)

    assert () == tuple(plan.done)
    assert "whole here, and other copies differ" == plan.unmended[0].reason
    assert (f"{other}: it sealed other bytes",) == plan.unmended[0].refusals
    assert before == segment_file(bad, SEGMENT).read_bytes()


def test_a_source_that_rots_after_the_plan_writes_nothing(
    good: Path, bad: Path
) -> None:
    """
    Nothing of the block is written; it is left with what the source gave.
    """
    path = segment_file(bad, SEGMENT)
    damage(path, "payload bit")
    before = path.read_bytes()
    lock, progress = RLock(), MendProgress()
    with Store(bad, lock=lock) as store:
        progress.begin(plan_mending(StoreCopy(bad), [StoreCopy(good)]))
        damage(segment_file(good, SEGMENT), "header bit")
        kept, fill_it = bad.parent / "kept", fill_store(store, lock)
        mend_open(store, fill_it, progress.plan.steps, kept, progress)
    assert before == path.read_bytes()
    assert [] == progress.done
    assert "its block 0 is bad now" in progress.unmended[0].refusals[0]


def test_a_source_that_fails_under_way_is_followed_by_the_next_one(
    made: Path, good: Path, bad: Path, tmp_path: Path
) -> None:
    """
    For the blocks that it has no more.
    """
    third = copied(made, tmp_path / "third")
    for base in (SEGMENT, 2 * SEGMENT):
        damage(segment_file(bad, base), "payload bit")
    lock, progress = RLock(), MendProgress()
    with Store(bad, lock=lock) as store:
        copies = [StoreCopy(good), StoreCopy(third)]
        progress.begin(plan_mending(StoreCopy(bad), copies))
        damage(segment_file(good, SEGMENT), "missing")
        damage(segment_file(good, 2 * SEGMENT), "header bit")
        fill_it = fill_store(store, lock)
        mend_open(store, fill_it, progress.plan.steps, tmp_path / "kept", progress)
    assert [SEGMENT, 2 * SEGMENT] == [one.base for one in progress.done]
    check_equal(third, bad)


def test_an_interrupted_copy_goes_on_where_it_stopped(good: Path, bad: Path) -> None:
    """
    What another program left in the file is no part of it.
    """
    damage(segment_file(bad, SEGMENT), "missing")
    pulled = bad / "meta" / "tmp" / f"{SEGMENT:020d}.pull"
    pulled.write_bytes(random.Random(1).randbytes(SEGMENT))
    mend_closed(bad, [good], bad.parent / "kept")
    check_equal(good, bad)
    assert not pulled.exists()


def test_a_directory_that_has_the_name_of_a_segment_is_an_error(
    good: Path, bad: Path
) -> None:
    """
    It has no second name; the error says where it is.
    """
    damage(segment_file(bad, SEGMENT), "directory")
    with pytest.raises((NotAStoreError, OSError), match=r"0016384"):
        mend_closed(bad, [good], bad.parent / "kept")


def test_a_source_gives_only_what_its_set_has_confirmed(
    made: Path, tmp_path: Path
) -> None:
    """
    A replica may still have to cut the rest: copied, a history that lost would come
    back.
    """
    good, late = tmp_path / "good", tmp_path / "late"
    fill(good, RECORDS)
    follow_from(made, late, 4 * SEGMENT)
    with Store(good) as store:
        with store.log.writer.metastore.change() as change:
            change.store_identity(BrokerIdentity("c", "b", 1))
        store.log.writer.log.confirm(2 * SEGMENT + 100)
    source = StoreCopy(good)
    assert 2 * SEGMENT + 100 == source.facts.settled_end
    plan = plan_mending(StoreCopy(late), [source])

    assert () == plan.steps
    assert "has only the offsets 0 to" in plan.unmended[0].refusals[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_store_of_rocketmq_is_repaired(
    good: Path, bad: Path, kind: str
) -> None:
    """
    Without metadata and seals: each record proves itself, and nothing is added.
    """
    for root in (good, bad):
        shutil.rmtree(root / "meta")
    before = sorted(path.name for path in bad.rglob("*") if "lock" not in path.name)
    damage(segment_file(bad, SEGMENT), kind)
    done = mend_closed(bad, [good], bad.parent / "kept")

    assert [SEGMENT] == [one.base for one in done.done]
    assert before == sorted(
        path.name for path in bad.rglob("*") if "lock" not in path.name
    )
    check_equal(good, bad)


def test_a_failed_copy_stops_no_other_one(
    good: Path, bad: Path, tmp_path: Path
) -> None:
    """
    While one segment is installed the next one comes: each has its own outcome.
    """
    lock, progress = RLock(), MendProgress()
    with Store(bad, lock=lock) as store:
        for base in (SEGMENT, 2 * SEGMENT, 3 * SEGMENT, 5 * SEGMENT):
            damage(segment_file(bad, base), "missing")
        progress.begin(plan_mending(StoreCopy(bad), [StoreCopy(good)]))
        for base in (SEGMENT, 3 * SEGMENT):
            damage(segment_file(good, base), "payload bit")
        kept, fill_it = tmp_path / "kept", fill_store(store, lock)
        mend_open(store, fill_it, progress.plan.steps, kept, progress)
    assert [2, 5] == [one.base // SEGMENT for one in progress.done]
    assert [1, 3] == [one.base // SEGMENT for one in progress.unmended]
