"""
The start of a stream in a log: by name, by offset, by time, or an end of the log.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import pytest
from lib.spark.exports import SEGMENT as EXPORT_SEGMENT
from lib.spark.exports import Growing
from lib.spark.ill_stores import make_ill
from lib.store.segment_files import restart_machine
from lib.store.stores import SEGMENT, fill

from pystore.message.message import Message
from pystore.spark.plan.options import StreamOptions
from pystore.spark.source.starting import starting_offset
from pystore.spark.source.tail import FollowedStore
from pystore.store.commit_log import CommitLog


def test_a_start_is_known_by_its_record(tmp_path: Path) -> None:
    """
    So a cut before the first batch is noticed, too.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 800)
        ms = log.read(offsets[-1]).store_ms
        last = next(at for at in offsets if log.read(at).store_ms >= ms)
        with FollowedStore(log.path, published=False).snapshot() as snapshot:

            def start(**given: object) -> tuple[int, int | None]:
                options = StreamOptions(**given)  # type: ignore[arg-type]
                found = starting_offset(snapshot, ("key", "/root"), options)
                return found.offset, found.record

            named = (("/root", offsets[5] + 1),)
            assert (0, None) == start()
            assert (log.end_offset, offsets[-1]) == start(starting="latest")
            assert (offsets[3], offsets[2]) == start(starting=offsets[3])
            assert (offsets[6], offsets[5]) == start(starting_of=named)
            assert (last, offsets[offsets.index(last) - 1]) == start(starting_ms=ms)
            assert log.end_offset == start(starting_ms=ms + 1)[0]
            assert (0, None) == start(starting_ms=0)


def test_each_record_proves_the_position_at_its_end(tmp_path: Path) -> None:
    """
    Also the last of a segment, with a blank record behind it: after a cut and a restart
    of the machine the position is not in the log.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 1200)
        assert {SEGMENT, 2 * SEGMENT} <= set(offsets)
        positions = []
        with FollowedStore(log.path, published=False).snapshot() as snapshot:
            for record, offset in pairwise(offsets):
                options = StreamOptions(starting=str(offset))
                position = starting_offset(snapshot, (), options)
                assert (offset, record) == (position.offset, position.record)
                positions.append(position)
        log.cut(offsets[10])
        for number in range(1200):
            log.append(Message("t", b"other %5d" % number))
    restart_machine(log.path)
    with FollowedStore(log.path, published=False).snapshot() as snapshot:
        held = [snapshot.holds(position) for position in positions]
    assert [True] * 10 + [False] * (len(positions) - 10) == held


_STORE_TIME_AT = 56


@pytest.mark.parametrize("way", ["missing", "short"])
def test_a_time_that_may_be_in_a_missing_range_is_a_start_there(
    tmp_path: Path, way: str
) -> None:
    """
    Records with the time are behind the range, and others may be in it. A time that is
    not in it has the same start as before.
    """
    store = Growing.new(tmp_path / "store", 300)
    times = {at: 1000 * number for number, at in enumerate(store.offsets)}
    for at, ms in times.items():
        base = at - at % EXPORT_SEGMENT
        with (store.root / "commitlog" / f"{base:020}").open("r+b") as file:
            file.seek(at - base + _STORE_TIME_AT)
            file.write(struct.pack(">q", ms))
    ill = make_ill(store, way, "middle", has_page=True)
    with FollowedStore(store.root, published=False).snapshot() as snapshot:

        def start(ms: int) -> int:
            return starting_offset(snapshot, (), StreamOptions(starting_ms=ms)).offset

        for at in ill.gone:
            assert ill.gone[0] == start(times[at])
        behind = times[ill.gone[-1]] + 1000
        assert ill.gone[0] == start(behind)
        for at in ill.here:
            if times[at] != behind:
                assert at == start(times[at])
        assert snapshot.top == start(max(times.values()) + 1)
