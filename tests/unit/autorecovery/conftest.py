"""
What the tests of the Auditor share, and those of a worker: replicas of one log, each
over each backend.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.autorecovery.audits import ToldCluster, WatchedAuditor, a_set
from lib.autorecovery.local_set import LocalSet
from lib.autorecovery.marks import Clock
from lib.autorecovery.recoveries import RECORDS, Recovery
from lib.remoting.record_stores import Space
from lib.store.late import follow_from
from lib.store.pairs import fill, seal

from pystore.records.record_store import RecordStore

_DAY = 1_700_000_000_000


@pytest.fixture
def wall() -> Clock:
    """
    The clock of the day, that the test sets.
    """
    return Clock(_DAY)


@pytest.fixture
def cluster(wall: Clock) -> ToldCluster:
    """
    One set of three.
    """
    return ToldCluster(wall, a_set())


@pytest.fixture
def one(store: RecordStore, cluster: ToldCluster, wall: Clock) -> WatchedAuditor:
    """
    One process.
    """
    return WatchedAuditor(store, cluster, wall)


@pytest.fixture
def two(space: Space, cluster: ToldCluster, wall: Clock) -> WatchedAuditor:
    """
    Another process, with a session of its own.
    """
    return WatchedAuditor(space.open(), cluster, wall, name="two")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A sealed store of several segments.
    """
    root = tmp_path_factory.mktemp("made") / "store"
    fill(root, RECORDS)
    seal(root)
    return root


@pytest.fixture
def replicas(made: Path, tmp_path: Path) -> LocalSet:
    """
    Three replicas of one log.
    """
    roots = [tmp_path / f"broker-{one}" for one in (1, 2, 3)]
    for root in roots:
        follow_from(made, root, 0)
    return LocalSet(*roots)


@pytest.fixture
def recovery(store: RecordStore, replicas: LocalSet) -> Recovery:
    """
    With a worker of its own.
    """
    return Recovery(store, replicas)
