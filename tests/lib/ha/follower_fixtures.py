"""
What tests of followers begin with: a master of two epochs, an empty replica, and
sockets without a waiting thread. A test module imports the fixtures that it uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lib.ha.follower_fixture import SLICE_MS, make_master
from lib.ha.legacy_master_server import LegacyMaster
from lib.store.stores import SEGMENT
from pystore.ha.slave import follower
from pystore.ha.slave.replica_log import ReplicaLog

__all__ = ["empty_replica", "short_slices", "two_epochs"]


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    No thread waits for a silent socket.
    """
    monkeypatch.setattr(follower, "SLICE_MS", SLICE_MS)


@pytest.fixture(name="master")
def two_epochs(tmp_path: Path) -> LegacyMaster:
    """
    A master of two epochs.
    """
    return make_master(tmp_path / "master")


@pytest.fixture(name="log")
def empty_replica(tmp_path: Path) -> Iterator[ReplicaLog]:
    """
    An empty replica with the master's segment size.
    """
    with ReplicaLog(tmp_path / "slave", segment_size=SEGMENT) as opened:
        yield opened
