"""
The records of a controller are restored from an older copy, under brokers that had more
masters since: nothing that `all` acknowledged is lost, and no epoch or id is given
twice.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from cluster.operated_set import BrokerSet, broker_set
from lib.broker_process import until
from lib.command_line import run

COPY = "older"


def copy_records(brokers: BrokerSet) -> None:
    """
    Copies the records, while no controller runs.
    """
    brokers.stop_controller()
    shutil.copytree(brokers.records, brokers.folder / COPY)
    brokers.start_controller()
    brokers.await_set(len(brokers.brokers))


def restore_records(brokers: BrokerSet) -> None:
    """
    Puts the copy in their place.
    """
    brokers.stop_controller()
    shutil.rmtree(brokers.records)
    shutil.copytree(brokers.folder / COPY, brokers.records)
    brokers.start_controller()


def other_master(brokers: BrokerSet) -> int:
    """
    Lets another broker be master; returns its epoch.
    """
    before = brokers.await_set(3).status()
    other = next(one for one in before["syncStateSet"] if one != before["brokerId"])
    at = ("-a", brokers.controller.address, "-bn", "b", "-b", str(other))
    until(lambda: 0 == run("admin", "switchMaster", *at).exit_code)
    epoch: int = until(
        lambda: (
            (now := brokers.await_set(3).status())["masterEpoch"]
            > before["masterEpoch"]
            and now["masterEpoch"]
        )
    )
    return epoch


def test_masters_after_a_restored_record_have_new_epochs(tmp_path: Path) -> None:
    """
    The brokers run on meanwhile.
    """
    with broker_set(tmp_path) as brokers:
        copy_records(brokers)
        epoch = [other_master(brokers) for _ in range(2)][-1]
        brokers.append()
        restore_records(brokers)
        until(lambda: brokers.await_set(3).status()["masterEpoch"] > epoch)
        brokers.append()
        brokers.check()


def test_brokers_that_restart_as_well_are_elected_again(tmp_path: Path) -> None:
    """
    The record knows none of their processes.
    """
    with broker_set(tmp_path) as brokers:
        copy_records(brokers)
        other_master(brokers)
        brokers.append()
        for broker in brokers.brokers.values():
            broker.stop()
            broker.restart()
        epoch = brokers.await_set(3).status()["masterEpoch"]
        brokers.append()
        restore_records(brokers)
        until(lambda: brokers.await_set(3).status()["masterEpoch"] > epoch)
        brokers.append()
        brokers.check()


def test_no_id_of_a_living_broker_is_given_again(tmp_path: Path) -> None:
    """
    A new broker waits, and is told which one the record lacks.
    """
    with broker_set(tmp_path) as brokers:
        copy_records(brokers)
        brokers.start("4")
        brokers.await_set(4)
        restore_records(brokers)
        brokers.start("5")
        problem = until(
            lambda: (
                "allocated no id" in (now := brokers.brokers["5"].status())["problem"]
                and now["problem"]
            )
        )
        assert "broker 4 of set b is heard" in problem
        assert brokers.brokers["5"].status()["brokerId"] is None
        brokers.end("5")
        brokers.end("4")
        brokers.append()
        brokers.check()
