"""
A master of pystore and its controller while ZooKeeper is unreachable.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.pystore_broker import PystoreBroker, Setting
from interop.rig import free_ports
from lib.controller.controller_process import ControllerProcess
from lib.remoting.zookeeper_server import ZookeeperServer
from lib.store.stores import SEGMENT

from pystore.ha.insync.ack import Ack
from pystore.remoting.codes import ResponseCode

SESSION_MS = 4000
PATIENCE_S = 120


@pytest.fixture
def controller(
    tmp_path: Path, zookeeper: ZookeeperServer
) -> Iterator[ControllerProcess]:
    """
    The leading controller, with a name server on the same port.
    """
    config = tmp_path / "controller.toml"
    config.write_text(f"zookeeperSessionTimeout = {SESSION_MS}\n")
    words = ("-c", config, "--zookeeper", zookeeper.hosts, "--nameserver")
    with ControllerProcess(*words) as controller:
        controller.await_lead()
        yield controller


@pytest.fixture
def master(tmp_path: Path, controller: ControllerProcess) -> Iterator[PystoreBroker]:
    """
    The only broker of its set.
    """
    address, asked = f"127.0.0.1:{free_ports()}", controller.address
    store = str(tmp_path / "store")
    broker = PystoreBroker(Setting("c", "b", address, asked, asked, store, SEGMENT))
    try:
        yield broker
    finally:
        broker.kill()


def append_until(master: PystoreBroker, outcome: str) -> None:
    """
    Appends with ack `leader` repeatedly, until the result is this one.
    """
    end_s = time.monotonic() + PATIENCE_S
    while (found := master.append(1, 1, Ack.LEADER)["outcomes"]) != [outcome]:
        assert time.monotonic() < end_s, found
        time.sleep(0.05)


def test_a_master_continues_for_its_lease_and_when_zookeeper_is_back(
    zookeeper: ZookeeperServer, controller: ControllerProcess, master: PystoreBroker
) -> None:
    """
    RMQ-R9, RMQ-R80, C2: during its lease the master acknowledges `leader`, later only
    `all`, which needs no lease. ZooKeeper is unreachable for longer than a session;
    when it is back, no operator has to act, and the epoch is the same.
    """
    append_until(master, "REACHED")
    epochs = master.standing()["epochs"]
    zookeeper.pause()
    gone_s = time.monotonic() + 1.5 * SESSION_MS / 1000
    assert ["REACHED"] == master.append(1, 2, Ack.LEADER)["outcomes"]

    append_until(master, "FENCED")
    # A lease that the controller shortens is measured from its request, so it ends
    # shortly before the time of the controller.
    while controller.apply(9).code != ResponseCode.CONTROLLER_NOT_LEADER:
        assert time.monotonic() < gone_s
    fenced = master.standing()
    assert ("master", "") == (fenced["role"], fenced["problem"] or "")
    assert ["FENCED"] == master.append(1, 3, Ack.LEADER_SYNCED)["outcomes"]
    assert fenced["end"] == master.standing()["end"]
    assert ["REACHED"] == master.append(1, 4, Ack.ALL)["outcomes"]
    while time.monotonic() < gone_s:
        assert ["FENCED"] == master.append(1, 5, Ack.LEADER)["outcomes"]
        time.sleep(0.1)

    zookeeper.go_on()
    append_until(master, "REACHED")
    assert epochs == master.standing()["epochs"]
    controller.await_lead()
