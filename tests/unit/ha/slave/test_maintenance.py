"""
Queues rest while a replica catches up, for a bounded time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.store.stores import fill

from pystore.ha.slave.maintenance import RESTS_MAX, ReplicaMaintenance
from pystore.store.store import Store

RUSH = 1000
"""Less than ten messages."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """
    An empty one.
    """
    with Store(tmp_path / "store", lock=threading.RLock()) as store:
        yield store


def test_a_log_that_grows_slowly_gets_its_queues_each_time(store: Store) -> None:
    """
    Below the limit nothing rests.
    """
    keeping = ReplicaMaintenance(store)
    for first in (0, 10):
        fill(store.log, 10, first)
        keeping.keep()
        assert store.queues.dispatched_end == store.log.end_offset


def test_queues_rest_while_the_log_rushes_and_are_built_after_it(store: Store) -> None:
    """
    The first call that sees a slower log builds all that is missing.
    """
    keeping = ReplicaMaintenance(store, RUSH)
    fill(store.log, 10)
    keeping.keep()
    assert store.queues.dispatched_end == 0
    keeping.keep()

    assert store.queues.dispatched_end == store.log.end_offset


def test_queues_rest_only_so_many_times_in_a_row(store: Store) -> None:
    """
    However long the rush is.
    """
    keeping = ReplicaMaintenance(store, RUSH)
    ends = []
    for number in range(2 * RESTS_MAX + 2):
        fill(store.log, 10, 10 * number)
        keeping.keep()
        ends.append(store.queues.dispatched_end == store.log.end_offset)

    assert ends == ([False] * RESTS_MAX + [True]) * 2


def test_bounds_do_not_rest(store: Store) -> None:
    """
    A5: what was synced is below the bound a second later, whatever the queues do.
    """
    keeping = ReplicaMaintenance(store, RUSH)
    fill(store.log, 10)
    store.log.sync()

    assert keeping.keep()
    assert not store.log.keep()
    assert store.queues.dispatched_end == 0
