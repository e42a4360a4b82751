"""
Maintenance of a large store: many queues that are idle, many segments that stay.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pytest
from contest import Figure
from table import Table

from pystore.message.message import Message
from pystore.store.commit_log import CommitLog
from pystore.store.retention import Retention
from pystore.store.sealer import seal_next
from pystore.store.store import Store

_QUEUES = 100_000
_OF_A_TOPIC = 8
_SEGMENTS = 1000
_SEGMENT = 1 << 16
_ROUNDS = 21


def _written() -> int:
    """
    Bytes that this process has passed to the system for writing.
    """
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


@pytest.mark.benchmark(group="maintenance of a large store")
def test_a_keep_does_not_grow_with_idle_queues(
    folder: Callable[[], Path], table: Table
) -> None:
    """
    Timed: ``keep`` after one new record, which is synced before.
    """
    queues = [
        Message(f"topic {at // _OF_A_TOPIC}", b"", queue_id=at % _OF_A_TOPIC)
        for at in range(_QUEUES)
    ]
    taken, sizes = [], []
    with CommitLog(folder(), segment_size=1 << 26, flush_interval_ms=0) as log:
        for at in range(0, _QUEUES, 1000):
            log.append_batch(queues[at : at + 1000])
        log.keep()
        for number in range(_ROUNDS):
            log.append(queues[number * 4567 % _QUEUES], "leader-synced")
            size, start = _written(), perf_counter()
            assert log.keep()
            taken.append(1000 * (perf_counter() - start))
            sizes.append(_written() - size)
    table.at_most(
        "keep with 100 000 queues and one new record",
        10,
        Figure(tuple(taken)),
        "ms",
        {"written": f"{max(sizes)} bytes"},
    )


@pytest.mark.benchmark(group="maintenance of a large store")
def test_a_retention_does_not_grow_with_segments_that_stay(
    folder: Callable[[], Path], table: Table
) -> None:
    """
    Timed: ``retain`` that deletes nothing, of a log whose oldest segment is sealed; the
    first call of a process looks at its seal.
    """
    root = folder()
    with Store(root, segment_size=_SEGMENT, flush_interval_ms=0) as store:
        body = bytes(_SEGMENT - 1000)
        for _ in range(_SEGMENTS):
            store.log.append(Message("T", body))
        store.log.sync()
        assert seal_next(store.log.writer)
        store.keep()
    with Store(root) as store:
        now = store.log.read(0).store_ms
        assert len(store.log.reader.segments()) == _SEGMENTS
        taken = []
        for _ in range(_ROUNDS):
            start = perf_counter()
            assert store.retain(Retention(reserved_hours=72), now) == 0
            taken.append(1000 * (perf_counter() - start))
    table.at_most(
        "retain of 1 000 segments that deletes nothing",
        20,
        Figure(tuple(taken)),
        "ms",
        {"first call": f"{taken[0]:.2f} ms"},
    )
