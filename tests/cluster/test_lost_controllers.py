"""
The disks of all controllers are lost: an operator rebuilds the records from the stores
of the brokers, or imports an export. Brokers go on, nothing that `all` acknowledged is
lost, and no epoch is given twice.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cluster.operated_set import BrokerSet, broker_set
from lib.broker_process import until
from lib.command_line import run, run_json

from pystore.metastore.database import MetaStore
from pystore.metastore.schema import CLUSTER


def lose_controllers(brokers: BrokerSet) -> None:
    """
    The disk of the controller is gone, and one with an empty disk starts.
    """
    brokers.stop_controller()
    shutil.rmtree(brokers.records)
    brokers.start_controller()


def cluster_id(brokers: BrokerSet) -> str:
    """
    Returns the UUID of the record store, as the controller tells it.
    """
    found = run_json("admin", "getControllerMetaData", "-a", brokers.controller.address)
    text: str = found["clusterId"]
    return text


def stores(brokers: BrokerSet) -> list[str]:
    """
    Returns the options that name each store.
    """
    return [
        word
        for one in brokers.brokers
        for word in ("--from", str(brokers.folder / one))
    ]


@pytest.mark.parametrize("runs_on", [True, False])
def test_records_are_rebuilt_from_the_stores(tmp_path: Path, *, runs_on: bool) -> None:
    """
    Whether the brokers run on meanwhile, or start again.
    """
    with broker_set(tmp_path) as brokers:
        before, known = (
            brokers.await_set(3).status()["masterEpoch"],
            cluster_id(brokers),
        )
        for name in brokers.brokers:
            with MetaStore.open_read_only(tmp_path / name / "meta") as metastore:
                assert known == metastore.read(CLUSTER)
        if not runs_on:
            for broker in brokers.brokers.values():
                broker.kill()
        lose_controllers(brokers)
        if runs_on:
            brokers.controller.wait_for("no cluster begins")
            for broker in brokers.brokers.values():
                until(lambda: "rebuildSet" in broker.status()["problem"])  # noqa: B023
        found = run_json(
            "admin", "rebuildSet", "-a", brokers.controller.address, *stores(brokers)
        )
        (row,) = found["sets"]
        assert (known, [1, 2, 3], 4) == (
            found["clusterId"],
            row["brokerIds"],
            row["nextBrokerId"],
        )
        assert row["masterEpoch"] >= before
        assert known == cluster_id(brokers)
        if not runs_on:
            for broker in brokers.brokers.values():
                broker.restart()
        after = until(
            lambda: (
                (now := brokers.await_set(3).status())["masterEpoch"] > before and now
            )
        )
        assert not after["problem"]
        brokers.append()
        brokers.start("4")
        brokers.await_set(4)
        assert 4 == brokers.brokers["4"].status()["brokerId"]
        brokers.check()


def test_an_export_is_imported_into_an_empty_record_store(tmp_path: Path) -> None:
    """
    And the brokers had another master since it was taken.
    """
    with broker_set(tmp_path) as brokers:
        at, file = ("-a", brokers.controller.address), str(tmp_path / "sets.txt")
        before, known = brokers.await_set(3).status(), cluster_id(brokers)
        assert {"clusterId": known, "sets": 1, "damaged": []} == {
            name: one
            for name, one in run_json("admin", "exportSets", *at, file).items()
            if name != "schemaVersion"
        }
        other = next(one for one in before["syncStateSet"] if one != before["brokerId"])
        switch = ("admin", "switchMaster", *at, "-bn", "b", "-b", str(other))
        until(lambda: 0 == run(*switch).exit_code)
        epoch = until(
            lambda: (
                (now := brokers.await_set(3).status())["masterEpoch"]
                > before["masterEpoch"]
                and now["masterEpoch"]
            )
        )
        brokers.append()
        lose_controllers(brokers)
        (row,) = run_json("admin", "importSets", *at, file)["sets"]
        assert row["refusal"] is None
        assert known == cluster_id(brokers)
        until(lambda: brokers.await_set(3).status()["masterEpoch"] > epoch)
        refused = run_json("admin", "importSets", *at, file, exit_code=1)
        assert "has brokers" in refused["sets"][0]["refusal"]
        brokers.append()
        brokers.check()


def test_a_rebuilt_set_waits_for_a_broker_until_it_is_cleaned(tmp_path: Path) -> None:
    """
    Its log might be the longest.
    """
    with broker_set(tmp_path) as brokers:
        before = brokers.await_set(3).status()["masterEpoch"]
        for broker in brokers.brokers.values():
            broker.kill()
        lose_controllers(brokers)
        at = ("-a", brokers.controller.address)
        assert 0 == run("admin", "rebuildSet", *at, *stores(brokers)).exit_code
        lost = brokers.brokers.pop("3")
        for broker in brokers.brokers.values():
            broker.restart()
        elect = ("admin", "electMaster", *at, "-bn", "b", "-b", "1")
        line = until(
            lambda: "rebuilt, and broker " in (said := run(*elect).stderr) and said
        )
        number = line.partition("rebuilt, and broker ")[2].partition(" ")[0]
        clean = ("-c", "DefaultCluster", "-b", number)
        brokers.order("cleanBrokerMetadata", *clean)
        until(lambda: brokers.await_set(2).status()["masterEpoch"] > before)
        brokers.append()
        brokers.check()
        lost.kill()
