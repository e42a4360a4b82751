"""
What operators do with a set, each story to its happy end: brokers, a controller and the
commands are processes, and no record that `all` acknowledged is missing in the end.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from cluster.operated_set import NAMES, broker_set
from lib.broker_process import until
from lib.command_line import run
from lib.free_ports import free_port


def test_the_disk_of_a_slave_is_replaced(tmp_path: Path) -> None:
    """
    It comes back as another broker, and the old id is removed.
    """
    with broker_set(tmp_path) as brokers:
        master = brokers.master()
        name = next(
            one for one, broker in brokers.brokers.items() if broker is not master
        )
        lost = brokers.lose(name)
        brokers.append()
        brokers.start(name)
        brokers.await_set(3)
        brokers.order("cleanBrokerMetadata", "-c", "DefaultCluster", "-b", str(lost))
        known = brokers.order("describeBrokerSet")["brokers"]
        assert lost not in {one["brokerId"] for one in known}
        brokers.append()
        brokers.check()


def test_the_disk_of_the_master_is_replaced(tmp_path: Path) -> None:
    """
    Another broker has every record, and the new disk is filled from it.
    """
    with broker_set(tmp_path) as brokers:
        master = brokers.master()
        name = next(one for one, broker in brokers.brokers.items() if broker is master)
        lost = brokers.lose(name)
        brokers.append()
        brokers.start(name)
        brokers.await_set(3)
        brokers.order("cleanBrokerMetadata", "-c", "DefaultCluster", "-b", str(lost))
        brokers.append()
        brokers.check()


def test_a_store_is_restored_from_an_older_copy(tmp_path: Path) -> None:
    """
    It is no member until an operator lets the master fill it.
    """
    with broker_set(tmp_path) as brokers:
        slave = next(
            one for one in NAMES if brokers.brokers[one] is not brokers.master()
        )
        broker_id = brokers.brokers[slave].status()["brokerId"]
        brokers.end(slave)
        shutil.copytree(tmp_path / slave, tmp_path / "backup")
        brokers.start(slave)
        brokers.await_set(3)
        brokers.append()
        brokers.lose(slave)
        shutil.move(tmp_path / "backup", tmp_path / slave)
        restored = brokers.start(slave)
        until(lambda: "readmitBroker" in restored.status()["problem"])
        assert brokers.order("readmitBroker", "-b", str(broker_id))["readmitted"]
        brokers.append()
        brokers.check()


def test_two_of_three_brokers_are_lost(tmp_path: Path) -> None:
    """
    The third has every record: it leads, and new brokers are filled from it.
    """
    with broker_set(tmp_path) as brokers:
        lost = [brokers.lose(name) for name in NAMES[:2]]
        assert brokers.master() is brokers.brokers["3"]
        for name in NAMES[:2]:
            brokers.start(name)
        brokers.await_set(3)
        ids = ";".join(map(str, lost))
        brokers.order("cleanBrokerMetadata", "-c", "DefaultCluster", "-b", ids)
        brokers.append()
        brokers.check()


def test_a_broker_moves_to_another_address(tmp_path: Path) -> None:
    """
    Master and slave in turn: each keeps its id.
    """
    with broker_set(tmp_path) as brokers:
        for name in NAMES:
            before = brokers.brokers[name].status()
            address = f"127.0.0.1:{free_port()}"
            assert 0 == brokers.brokers.pop(name).stop()
            moved = brokers.start(name, address=address)
            brokers.await_set(3)
            now = moved.status()
            assert (before["brokerId"], address) == (now["brokerId"], now["address"])
            brokers.append()
        brokers.check()


def test_a_typo_in_the_name_of_a_set_is_undone(tmp_path: Path) -> None:
    """
    The broker made a set of its own: its record is deleted, and the broker comes back
    with an empty store under the right name.
    """
    with broker_set(tmp_path) as brokers:
        typo = brokers.start("4", brokerName="bb")
        typo.await_role("master")
        brokers.end("4")
        at = ("-a", brokers.controller.address, "-bn", "bb", "-c", "DefaultCluster")
        until(lambda: 0 == run("admin", "deleteBrokerSet", *at).exit_code)
        assert 0 != run("admin", "describeBrokerSet", *at).exit_code
        shutil.rmtree(tmp_path / "4")
        brokers.start("4")
        brokers.await_set(4)
        brokers.append()
        brokers.check()


def test_a_living_slave_is_cleaned_and_brought_back(tmp_path: Path) -> None:
    """
    Its log is whole, so it needs nothing but the word of the operator.
    """
    with broker_set(tmp_path) as brokers:
        slave = next(
            one for one in NAMES if brokers.brokers[one] is not brokers.master()
        )
        broker_id = str(brokers.brokers[slave].status()["brokerId"])
        clean = ("-c", "DefaultCluster", "-b", broker_id, "-l")
        brokers.order("cleanBrokerMetadata", *clean)
        brokers.await_set(2)
        brokers.append()
        until(lambda: brokers.order("readmitBroker", "-b", broker_id).get("readmitted"))
        brokers.await_set(3)
        brokers.append()
        brokers.check()


def test_a_rack_is_drained(tmp_path: Path) -> None:
    """
    The master hands over, its broker ends cleanly, and no append waits for it.
    """
    with broker_set(tmp_path) as brokers:
        master = brokers.master()
        name = next(one for one, broker in brokers.brokers.items() if broker is master)
        target = next(one for one in brokers.brokers.values() if one is not master)
        broker_id = target.status()["brokerId"]
        brokers.order("switchMaster", "-b", str(broker_id))
        target.await_role("master")
        brokers.append()
        assert 0 == brokers.brokers.pop(name).stop()
        brokers.await_set(2)
        brokers.append()
        brokers.check()
        brokers.start(name)
        brokers.await_set(3)
        brokers.check()
