"""
Brokers of RocketMQ change from its controller to that of pystore, with their own files;
the operator forgets to rebuild the records first.
"""

from __future__ import annotations

from pathlib import Path

from interop.controlled_set import ControlledSet, until
from lib.command_line import run, run_json


def test_brokers_of_rocketmq_keep_ids_and_epochs_under_our_controller(
    compiled_tool: None,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    """
    The empty record store begins no cluster while they are there, and says what to do;
    then everything that they acknowledged is consumed.
    """
    records = tmp_path / "records"
    it = ControlledSet(tmp_path / "set", [["--store", str(records)]], 2)
    (address,) = it.controllers
    try:
        it.start_javas_controller("jraft")
        it.start(has_controller=True)
        before = it.await_master()
        it.produce(100)
        it.kill_javas_controller()

        it.start_controller(address)
        until(
            lambda: "no cluster begins: the record store is empty" in it.said() or None
        )
        assert it.info() is None
        stores = [word for one in it.stores() for word in ("--from", one)]
        found = run_json("admin", "rebuildSet", "-a", address, *stores)
        (row,) = found["sets"]
        assert ([1, 2], 3, None) == (
            row["brokerIds"],
            row["nextBrokerId"],
            row["refusal"],
        )
        assert row["masterEpoch"] >= (before.master_epoch or 0)
        for broker in it.brokers:
            it.kill_broker(broker)
            it.begin_restart(broker)

        after = it.await_master()
        assert (after.master_epoch or 0) > (before.master_epoch or 0)
        assert after.master_address is not None
        it.await_role(after.master_address, "master")
        it.await_set(2)
        it.produce(20, first=100)
        it.consume(120)
        told = run("admin", "events", "-a", address, "broker-a").stdout
        assert "the record was imported: brokers 1, 2" in told
    finally:
        it.stop()
