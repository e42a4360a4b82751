"""
What storing the bounds costs and leaves: the rows of queues that changed, no others.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from lib.interrupts import Alarm, alarms
from lib.store.stores import SEGMENT, fill, message

from pystore.errors import InvalidError
from pystore.message.message import Message
from pystore.metastore.mark_table import MarkTable
from pystore.metastore.schema import FINGERPRINT, LENGTHS, POSITIONS
from pystore.store.bounds import current_bounds
from pystore.store.commit_log import CommitLog
from pystore.store.retention import Retention
from pystore.store.store import Store


def _stored(log: CommitLog, table: MarkTable) -> dict[tuple[str, int], int]:
    with log.writer.metastore.view() as view:
        view.check()
        marks = view.marks(table).next_offsets
        return {(topic, queue_id): value for topic, queue_id, value in marks if value}


def _next(log: CommitLog) -> dict[tuple[str, int], int]:
    queues, _ = log.writer.log.queues_fill()
    return {key: value for key, value in queues.items() if value}


def _written() -> tuple[int, int]:
    """
    Calls that wrote, and bytes, of this process so far.
    """
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    counts = dict(line.split(": ") for line in lines)
    return int(counts["syscw"]), int(counts["wchar"])


def _cost_of_a_keep(root: Path, queues: int) -> tuple[int, int]:
    """
    Of one new record, in a log with so many queues.
    """
    with CommitLog(root, segment_size=1 << 24, flush_interval_ms=0) as log:
        for at in range(0, queues, 1000):
            log.append_batch(
                Message(f"topic {at}", b"", queue_id=number) for number in range(1000)
            )
        log.keep()
        costs = []
        for _ in range(3):
            log.append(Message("topic 0", b"", queue_id=7))
            calls, size = _written()
            assert log.keep()
            after = _written()
            costs.append((after[0] - calls, after[1] - size))
        return min(costs)


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs /proc")
def test_a_keep_writes_a_few_pages_however_many_queues_there_are(
    tmp_path: Path,
) -> None:
    """
    The tree of a hundred times as many rows is a level or two higher.
    """
    calls, size = _cost_of_a_keep(tmp_path / "few", 1_000)
    calls_of_many, size_of_many = _cost_of_a_keep(tmp_path / "many", 100_000)
    print(calls, size, calls_of_many, size_of_many)

    assert calls_of_many <= calls + 6
    assert size_of_many <= size + 6 * 4096


@pytest.mark.parametrize("seed", range(6))
def test_stored_offsets_are_those_of_the_log_after_every_change(
    tmp_path: Path, seed: int
) -> None:
    """
    Appends, cuts, deletions and openings in random order, with a look at the bounds
    that was never stored.
    """
    print(f"seed {seed}")
    draw = random.Random(seed)
    root = tmp_path / "store"
    log = CommitLog(root, segment_size=SEGMENT)
    for _ in range(60):
        step = draw.randrange(8)
        ends = log.ends
        if step < 4:
            for _ in range(draw.randrange(1, 200)):
                number = draw.randrange(40)
                log.append(message(number, topic=f"t{number % 7}"))
        elif step == 4:
            current_bounds(log.writer)  # as a keep that a full disk ended
        elif step == 5 and ends.published_end > ends.min_offset:
            offsets = [int(at) for rows in log.scan() for at in rows["offset"]]
            log.cut(draw.choice(offsets))
        elif step == 6:
            log.delete_before(draw.randrange(ends.published_end + 1))
        elif step == 7:
            log.close()
            log = CommitLog(root, segment_size=SEGMENT)
        if draw.random() < 0.5 and log.keep():
            assert _next(log) == _stored(log, POSITIONS)
            bases = tuple((base, SEGMENT) for base in log.reader.segments())
            assert bases == log.writer.metastore.read(FINGERPRINT).segments
    log.close()
    with CommitLog(root) as log:
        assert log.recovery.is_clean
        assert _next(log) == _stored(log, POSITIONS)


@pytest.mark.parametrize("seed", range(4))
def test_stored_lengths_are_those_of_the_queues_after_every_change(
    tmp_path: Path, seed: int
) -> None:
    """
    Else an opening would take its own queues for those of another program.
    """
    print(f"seed {seed}")
    draw = random.Random(seed)
    root = tmp_path / "store"
    store = Store(root, segment_size=SEGMENT, queue_file_bytes=2000)
    for _ in range(40):
        step = draw.randrange(6)
        ends = store.log.ends
        if step < 3:
            fill(store.log, draw.randrange(1, 200), draw.randrange(99))
        elif step == 3 and ends.published_end > ends.min_offset:
            rows = next(iter(store.log.scan()))
            store.cut(int(draw.choice(rows["offset"].tolist())))
        elif step == 4:
            store.retain(Retention(None, draw.randrange(5) * SEGMENT), 0)
        elif step == 5:
            store.close()
            store = Store(root, segment_size=SEGMENT, queue_file_bytes=2000)
            assert () == store.log.recovery.foreign
            assert store.log.recovery.is_clean
        if draw.random() < 0.5 and store.keep():
            lengths = {key: n for key, n in store.queues.lengths().items() if n}
            assert lengths == _stored(store.log, LENGTHS)
    store.close()
    with Store(root) as store:
        assert store.log.recovery.is_clean


def test_a_cut_that_fails_to_begin_changes_no_offset(tmp_path: Path) -> None:
    """
    The offsets that were not stored yet are stored by the next keep.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 30)
        current_bounds(log.writer)
        with pytest.raises(InvalidError):
            log.cut(5)
        log.keep()

        assert _next(log) == _stored(log, POSITIONS)


def test_offsets_of_removed_records_are_not_stored_after_a_cut(tmp_path: Path) -> None:
    """
    A look at the bounds before the cut, as of a keep that failed, leaves none.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 30)
        current_bounds(log.writer)
        log.cut(0)
        fill(log, 1)
        log.keep()

        assert {("Topic", 0): 1} == _next(log) == _stored(log, POSITIONS)


@pytest.mark.parametrize("seed", range(2))
def test_an_interrupted_keep_forgets_no_queue(tmp_path: Path, seed: int) -> None:
    """
    Ctrl-C at a random moment: the next one stores what this one did not.
    """
    print(f"seed {seed}")
    draw = random.Random(seed)
    root = tmp_path / "store"
    interrupted = 0
    with (
        alarms() as alarm,
        Store(root, segment_size=SEGMENT, queue_file_bytes=2000) as store,
    ):
        for number in range(150):
            store.log.append(message(number, topic=f"t{number % 5}"))
            interrupted += _is_interrupted(alarm, draw.uniform(5e-6, 3e-3), store.keep)
            if number % 3 == 2:
                store.keep()
                assert _next(store.log) == _stored(store.log, POSITIONS)
                assert store.queues.lengths() == _stored(store.log, LENGTHS)
    assert interrupted > 10
    with Store(root) as store:
        assert store.log.recovery.is_clean


def _is_interrupted(alarm: Alarm, delay_s: float, call: Callable[[], object]) -> bool:
    """
    Whether Ctrl-C came before the end of a call.
    """
    try:
        alarm.arm(delay_s)
        call()
        alarm.disarm()  # here, since an interrupt behind it would end the test
    except KeyboardInterrupt:
        return True
    return False
