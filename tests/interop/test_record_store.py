"""
The record store over a ZooKeeper ensemble of three, whose leader is killed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.remoting.zookeeper_server import ZookeeperServer, free_ports, missing

from pystore.errors import UnavailableError, UnknownOutcomeError

TIMEOUT_S = 120


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[list[ZookeeperServer]]:
    """
    Three running servers.
    """
    if reason := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(f"{reason} (ZooKeeper is in PySpark's jars)")
    ports = free_ports(9)
    peers = tuple(zip(ports[3:6], ports[6:], strict=True))
    servers = [
        ZookeeperServer(tmp_path / str(number), ports[number - 1], number, peers)
        for number in (1, 2, 3)
    ]
    try:
        for server in servers:
            server.await_mode()
        yield servers
    finally:
        for server in servers:
            server.kill()


def test_commits_survive_the_leader_and_continue(
    ensemble: list[ZookeeperServer],
) -> None:
    """
    The counter continues: no step is lost or done twice, because an unknown result is
    read. The term lasts as long as its session.
    """
    # Only here: kazoo is an extra.
    from pystore.records.ops import CheckVersion, Op, Put  # noqa: PLC0415
    from pystore.records.zookeeper_store import ZookeeperStore  # noqa: PLC0415

    hosts = ",".join(server.hosts for server in ensemble)
    store, other = ZookeeperStore(hosts), ZookeeperStore(hosts)
    term = store.campaign("leader", "1")
    counted = 0

    def count() -> None:
        nonlocal counted
        end_s = time.monotonic() + TIMEOUT_S
        while True:
            assert time.monotonic() < end_s
            try:
                found = store.get("n")
                value = int(found.value) if found else 0
                assert value in (counted, counted + 1)
                if value == counted + 1:
                    break  # the commit with the unknown result was done
                check = CheckVersion("n", found.version if found else 0)
                ops: list[Op] = [term.check, check, Put("n", b"%d" % (counted + 1))]
                assert store.commit(ops)
            except (UnavailableError, UnknownOutcomeError):
                # The servers elect a leader; the result is read in the next round.
                continue
            break
        counted += 1

    for _ in range(20):
        count()
    sent_ns = term.sent_ns
    (leader,) = [server for server in ensemble if server.mode() == "leader"]
    leader.kill()
    for _ in range(20):
        count()

    assert sent_ns < term.sent_ns
    assert counted == 40
    found = other.get("n")
    assert found is not None
    assert b"40" == found.value
    store.close()
    assert term.number < other.campaign("leader", "2").number
    assert other.commit([term.check]) is None
    other.close()
