"""
Brokers of RocketMQ under controllers of pystore, and mqadmin beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.controlled_set import controlled
from zookeeper_server import ZookeeperServer, free_ports, missing

SET = ("-bn", "broker-a", "-c", "rig")


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZookeeperServer]:
    """
    One server.
    """
    if reason := missing():
        pytest.skip(reason)
    server = ZookeeperServer(tmp_path / "zookeeper", free_ports(1)[0])
    try:
        server.await_mode()
        yield server
    finally:
        server.kill()


def test_brokers_elect_fail_over_and_come_back_and_mqadmin_sees_it(
    compiled_tool: None,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    """With LMDB; nothing that all acknowledged is lost."""
    with controlled(tmp_path / "set", [["--store", str(tmp_path / "records")]]) as it:
        master = it.await_master()
        slave_id = 3 - (master.master_broker_id or 0)
        it.produce(200)
        metadata = it.admin("getControllerMetaData")
        assert f"#ControllerLeaderAddress\t{it.controllers[0]}" in metadata
        assert "#SyncStateSetNums\t2" in it.admin("getSyncStateSet", "-b", "broker-a")
        change = ("-k", "enableElectUncleanMaster", "-v", "true")
        assert "success" in it.admin("updateControllerConfig", *change)
        shown = it.admin("getControllerConfig").split()
        assert "true" == shown[shown.index("enableElectUncleanMaster") + 2]
        change = ("-k", "enableElectUncleanMaster", "-v", "false")
        assert "success" in it.admin("updateControllerConfig", *change)
        switched = it.admin("electMaster", "-b", str(slave_id), *SET)
        assert f"#MasterEpoch\t{(master.master_epoch or 0) + 1}" in switched, switched
        old = it.await_master(other_than=master.master_address or "")
        assert slave_id == old.master_broker_id
        assert old.master_address is not None
        it.await_set(2)
        it.kill_broker(old.master_address)
        new = it.await_master(other_than=old.master_address)
        assert master.master_address == new.master_address
        refused = it.admin("cleanBrokerMetadata", *SET, "-b", str(3 - slave_id))
        assert "CODE: 2009" in refused
        assert "success" in it.admin("cleanBrokerMetadata", *SET, "-b", "7")
        it.restart_broker(old.master_address)
        it.await_set(2)
        it.consume(200)


def test_the_next_controller_goes_on_where_the_killed_one_was(
    compiled_tool: None,  # noqa: ARG001
    tmp_path: Path,
    zookeeper: ZookeeperServer,
) -> None:
    """Three over ZooKeeper; the master is killed after the leading one was."""
    config = tmp_path / "controller.toml"
    config.write_text("zookeeperSessionTimeout = 1000\n")
    words = ["-c", str(config), "--zookeeper", zookeeper.hosts]
    with controlled(tmp_path / "set", [words] * 3) as it:
        master = it.await_master()
        assert master.master_address is not None
        first = it.leader()
        it.kill_controller(first)
        second = it.leader()
        assert first != second
        assert master == it.await_master()
        it.kill_broker(master.master_address)
        new = it.await_master(other_than=master.master_address)
        assert (master.master_epoch or 0) < (new.master_epoch or 0)
        assert new.master_address is not None
        it.await_role(new.master_address, "master")
        it.produce(20)
