"""
What many unit tests may use: a space of records on each backend.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lib.remoting.record_stores import BACKENDS, Space
from lib.remoting.zookeeper_server import ZookeeperServer, free_ports, missing

from pystore.records.record_store import RecordStore


@pytest.fixture(scope="session")
def zookeeper(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ZookeeperServer]:
    """
    One server for all tests, each of which has a root of its own in it.
    """
    if reason := missing():
        pytest.skip(f"{reason} (ZooKeeper is in PySpark's jars)")
    server = ZookeeperServer(
        tmp_path_factory.mktemp("zookeeper") / "1", free_ports(1)[0]
    )
    try:
        server.await_mode()
        yield server
    finally:
        server.kill()


@pytest.fixture(params=BACKENDS)
def space(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Space]:
    """
    An empty space on each backend in turn.
    """
    made = BACKENDS[request.param](request, tmp_path_factory)
    yield made
    made.close()


@pytest.fixture
def store(space: Space) -> RecordStore:
    """
    One store over it.
    """
    return space.open()
