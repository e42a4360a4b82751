"""
Brokers of RocketMQ with controllers of pystore, and mqadmin.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from interop.controlled_set import ControlledSet, controlled, until
from lib.remoting.zookeeper_server import ZookeeperServer

SET = ("-bn", "broker-a", "-c", "rig")


def test_brokers_elect_fail_over_and_come_back_and_mqadmin_sees_it(
    compiled_tool: None,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    """Two brokers, records in LMDB; no record is lost that all brokers acknowledged."""
    with controlled(tmp_path / "set", [["--store", str(tmp_path / "records")]]) as it:
        _live_on(it, lambda: None)


def test_the_next_controller_goes_on_where_the_killed_one_was(
    compiled_tool: None,  # noqa: ARG001
    tmp_path: Path,
    zookeeper: ZookeeperServer,
) -> None:
    """
    Three brokers, three controllers over ZooKeeper: the leader is killed before each
    event of the set.
    """
    config = tmp_path / "controller.toml"
    config.write_text("zookeeperSessionTimeout = 3000\n")
    words = ["-c", str(config), "--zookeeper", zookeeper.hosts]
    with controlled(tmp_path / "set", [words] * 3, count=3) as it:

        def kill_the_leader() -> None:
            before, leader = until(it.info), it.leader()
            it.kill_controller(leader)
            assert leader != it.leader()
            # On a busy machine a session can end, and with it the leadership.
            (master, members), (master_now, now) = before, until(it.info)
            assert master == master_now
            # A slave that caught up meanwhile is a member; nothing goes back.
            assert members == now or members.epoch < now.epoch
            it.start_controller(leader)

        _live_on(it, kill_the_leader)


def _live_on(it: ControlledSet, befall: Callable[[], None]) -> None:
    """
    Runs the events of a set: a planned switch, a killed master, and its return.
    """
    first = it.await_master()
    it.produce(200)
    _ask_all(it)
    befall()
    slave_id = 1 + (first.master_broker_id or 0) % len(it.brokers)
    elected = f"#MasterEpoch\t{(first.master_epoch or 0) + 1}"

    def switched() -> bool | None:
        output = it.admin("electMaster", "-b", str(slave_id), *SET)
        # A new leader replaces no master in its first ten seconds (C3).
        assert elected in output or "too short a time" in output, output
        return elected in output or None

    until(switched)
    second = it.await_master(other_than=first.master_address or "")
    assert slave_id == second.master_broker_id
    assert second.master_address is not None
    it.await_role(second.master_address, "master")
    # A Java master does not always readmit a slave while nothing is appended.
    it.produce(20, first=200)
    it.await_set(len(it.brokers))
    befall()
    it.kill_broker(second.master_address)
    third = it.await_master(other_than=second.master_address)
    assert (second.master_epoch or 0) < (third.master_epoch or 0)
    assert third.master_address is not None
    it.await_role(third.master_address, "master")
    it.produce(20, first=220)
    refused = it.admin("cleanBrokerMetadata", *SET, "-b", str(third.master_broker_id))
    assert "CODE: 2009" in refused
    assert "success" in it.admin("cleanBrokerMetadata", *SET, "-b", "7")
    befall()
    it.restart_broker(second.master_address)
    it.await_set(len(it.brokers))
    it.consume(240)


def _ask_all(it: ControlledSet) -> None:
    """
    Runs the queries of mqadmin that do not change a set.
    """
    count = len(it.brokers)
    leader, metadata = it.leader(), it.admin("getControllerMetaData")
    assert f"#ControllerLeaderAddress\t{leader}" in metadata
    agreed = it.admin("getSyncStateSet", "-b", "broker-a")
    assert f"#SyncStateSetNums\t{count}" in agreed
    for value in ("true", "false"):
        change = ("-k", "enableElectUncleanMaster", "-v", value)
        assert "success" in it.admin("updateControllerConfig", *change)
        shown = it.admin("getControllerConfig").split()
        assert value == shown[shown.index("enableElectUncleanMaster") + 2]
