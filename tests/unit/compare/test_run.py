"""
Two stores are compared by bytes, and the differences are explained.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from lib.command_line import SEGMENT, make_store, overwrite, segment_file

from pystore.compare import compare_stores
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog

SEED = int(os.environ.get("PS_SEED", "1"))


def pair(tmp_path: Path, **options: bool) -> tuple[Path, Path, list[int]]:
    """
    A store, a copy of it, and the offsets of the records.
    """
    root = make_store(tmp_path / "a", **options)
    with CommitLog(root, mode="r") as log:
        offsets = [int(at) for rows in log.scan() for at in rows["offset"]]
    return root, shutil.copytree(root, tmp_path / "b"), offsets


def test_a_copy_is_identical_and_progress_reaches_the_end(tmp_path: Path) -> None:
    """
    Without epochs by bytes alone.
    """
    ours, theirs, _ = pair(tmp_path)
    done: list[tuple[int, int]] = []
    report = compare_stores(ours, theirs, progress=lambda *place: done.append(place))

    assert report.is_identical
    assert not report.has_epochs
    assert report.first is None
    assert report.consistent_point is None
    size = report.logs[0].end_offset
    assert (size, (size, size)) == (report.compared_bytes, done[-1])


def test_the_side_that_is_whole_names_the_field(tmp_path: Path) -> None:
    """
    In either order.
    """
    ours, theirs, offsets = pair(tmp_path)
    record = offsets[700]
    base = record // SEGMENT * SEGMENT
    overwrite(segment_file(theirs, base), record + 25 - base, b"\x7f")
    for stores in ((ours, theirs), (theirs, ours)):
        report = compare_stores(*stores)
        (one,) = report.differences
        assert report.first is not None
        assert (record + 25, record, "queueOffset") == (
            report.first.offset,
            report.first.record_offset,
            report.first.field,
        )
        assert tuple(str(segment_file(root, base)) for root in stores) == (
            report.first.paths
        )
        assert {"whole", "damaged"} == {state.verdict for state in one.states}
        assert "whole" == one.states[stores.index(ours)].verdict
        assert (record + 25, 1) == (one.offset, one.size)


def test_a_longer_log_is_not_identical(tmp_path: Path) -> None:
    """
    The common range is the same.
    """
    ours, theirs, _ = pair(tmp_path)
    with CommitLog(theirs) as log:
        log.append(Message("t", b"more"))
    report = compare_stores(ours, theirs)

    assert (0, False, False) == (
        report.ranges,
        report.has_same_ends,
        report.is_identical,
    )
    assert report.logs[0].end_offset == report.end_offset


def test_histories_that_part_are_both_whole_and_epochs_say_where(
    tmp_path: Path,
) -> None:
    """
    The consistent point is where the second mastership began.
    """
    ours, theirs = tmp_path / "a", tmp_path / "b"
    with CommitLog(ours, segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        log.append(Message("t", b"common"))
    shutil.copytree(ours, theirs)
    for epoch, root in ((2, ours), (3, theirs)):
        with CommitLog(root) as log:
            log.begin_epoch(epoch)
            point = log.end_offset
            log.append(Message("t", b"of %d" % epoch))
    report = compare_stores(ours, theirs)

    assert report.has_epochs
    assert point == report.consistent_point
    assert report.first is not None
    assert point <= report.first.offset
    assert {"whole"} == {
        state.verdict for one in report.differences for state in one.states
    }


def test_other_segment_sizes_and_beginnings_are_compared(tmp_path: Path) -> None:
    """
    Up to the first blank record the bytes are the same.
    """
    small, large = tmp_path / "a", tmp_path / "b"
    for root, size in ((small, SEGMENT), (large, 4 * SEGMENT)):
        with CommitLog(root, segment_size=size) as log:
            log.begin_epoch(1)
            for number in range(700):
                log.append(Message("t", b"%d" % number, born_ms=1))
    for path in (segment_file(small), segment_file(large)):
        data = path.read_bytes()
        # The times differ: the first bytes are made the same.
        path.write_bytes(segment_file(small).read_bytes()[:1000] + data[1000:])
    report = compare_stores(small, large)

    assert (SEGMENT, 4 * SEGMENT) == tuple(one.segment_size for one in report.logs)
    assert report.first is not None
    assert report.first.offset >= 1000
    segment_file(small).unlink()
    report = compare_stores(small, large)
    assert SEGMENT == report.start_offset


def test_a_missing_segment_and_a_store_without_one(tmp_path: Path) -> None:
    """
    The first is a range; the second has no offset in common with others.
    """
    ours, theirs, _ = pair(tmp_path)
    segment_file(theirs, SEGMENT).unlink()
    report = compare_stores(ours, theirs)
    (one,) = report.differences

    assert (SEGMENT, SEGMENT) == (one.offset, one.size)
    assert ("whole", "missing") == tuple(state.verdict for state in one.states)
    with CommitLog(tmp_path / "e", segment_size=SEGMENT):
        pass
    empty = compare_stores(ours, tmp_path / "e")
    assert (0, 0, False) == (empty.end_offset, empty.ranges, empty.is_identical)
    assert compare_stores(tmp_path / "e", tmp_path / "e").is_identical


def test_a_store_that_is_written_to_is_compared_up_to_its_published_end(
    tmp_path: Path,
) -> None:
    """
    No lock is taken, and nothing is changed.
    """
    with CommitLog(tmp_path / "a", segment_size=SEGMENT) as log:
        log.append(Message("t", b"body"))
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        end = log.append(Message("t", b"body")).end
        report = compare_stores(tmp_path / "a", tmp_path / "b")

    assert (end, 0) == (report.logs[0].end_offset, report.ranges)


def test_random_damage_is_found_where_it_is(tmp_path: Path) -> None:
    """
    Every byte that differs is in a range, and where only one store was changed the
    other one is whole.
    """
    print(f"seed {SEED}")
    ours, theirs, _ = pair(tmp_path)
    names = sorted(path.name for path in (ours / "commitlog").iterdir())
    whole = {name: (ours / "commitlog" / name).read_bytes() for name in names}
    with CommitLog(ours, mode="r") as log:
        end = log.end_offset
    for number in range(20):
        draw = random.Random(f"{SEED} {number}")
        changed = dict(whole)
        for _ in range(draw.randrange(1, 5)):
            at = draw.randrange(end)
            name = f"{at // SEGMENT * SEGMENT:020d}"
            data = bytearray(changed[name])
            data[at % SEGMENT] ^= 1 << draw.randrange(8)
            changed[name] = bytes(data)
        for name, content in changed.items():
            (theirs / "commitlog" / name).write_bytes(content)
        report = compare_stores(ours, theirs)
        places = [
            int(name) + at
            for name in names
            for at in range(SEGMENT)
            if whole[name][at] != changed[name][at]
        ]

        label = f"seed {SEED}, case {number}"
        common = [at for at in places if at < report.end_offset]
        ranges = [(one.offset, one.offset + one.size) for one in report.differences]
        assert all(any(a <= at < b for a, b in ranges) for at in common), label
        assert all(a in common and b - 1 in common for a, b in ranges), label
        for one in report.differences:
            assert one.states[0].verdict in ("whole", "no record"), label
            if one.states[0].verdict == "whole":
                assert "damaged" == one.states[1].verdict, label
