"""
What operators do with a set, each story to its happy end: brokers, a controller and the
commands are processes, and no record that `all` acknowledged is missing in the end.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lib.broker_process import BrokerProcess, node_text, until
from lib.command_line import run, run_json
from lib.controller.controller_process import ControllerProcess
from lib.free_ports import free_port

NAMES = ("1", "2", "3")
BODIES = 20


class BrokerSet:
    """
    A set of three brokers, of which `all` needs two, and its controller.

    Attributes:
        folder: of stores and configurations.
        controller: the process.
        brokers: by name.
        acked: the bodies that `all` acknowledged.
    """

    def __init__(self, folder: Path, controller: ControllerProcess) -> None:
        self.folder = folder
        self.controller = controller
        self.brokers: dict[str, BrokerProcess] = {}
        self.acked: list[str] = []

    def start(self, name: str, **more: str | int) -> BrokerProcess:
        """
        Starts a broker with a configuration of its own.
        """
        text = node_text(
            self.folder / name,
            self.controller.address,
            minInSyncReplicas=2,
            haMaxTimeSlaveNotCatchup=1_000,
            **more,
        )
        broker = BrokerProcess.of(self.folder, name, text)
        self.brokers[name] = broker
        return broker

    def end(self, name: str) -> None:
        """
        Kills a broker for good.
        """
        self.brokers.pop(name).kill()

    def close(self) -> None:
        """
        Kills all brokers.
        """
        for broker in self.brokers.values():
            broker.kill()

    def lose(self, name: str) -> int:
        """
        Kills a broker, and its disk is gone; returns the id that it had.
        """
        broker_id: int = self.brokers[name].status()["brokerId"]
        self.end(name)
        shutil.rmtree(self.folder / name)
        return broker_id

    def master(self) -> BrokerProcess:
        """
        Waits for a master, and returns it.
        """
        return until(  # type: ignore[no-any-return]
            lambda: next(
                (
                    one
                    for one in self.brokers.values()
                    if one.status()["role"] == "master"
                ),
                None,
            )
        )

    def await_set(self, size: int) -> BrokerProcess:
        """
        Waits for a master with a set of this size; returns it.
        """
        return until(  # type: ignore[no-any-return]
            lambda: next(
                (
                    one
                    for one in self.brokers.values()
                    if (now := one.status())["role"] == "master"
                    and len(now["syncStateSet"]) == size
                ),
                None,
            )
        )

    def append(self) -> None:
        """
        Appends records with the ack `all`.
        """
        bodies = [f"body {len(self.acked) + one}" for one in range(BODIES)]

        def is_appended() -> bool:
            with self.master().client() as client:
                client.append("t", [one.encode() for one in bodies], timeout_ms=20_000)
            return True

        until(is_appended)
        self.acked += bodies

    def order(self, command: str, *words: str) -> dict[str, Any]:
        """
        An operator gives an order for the set.
        """
        at = ("-a", self.controller.address, "-bn", "b")
        return run_json("admin", command, *at, *words)

    def check(self) -> None:
        """
        All members have every record that was acknowledged.
        """
        end = self.await_set(len(self.brokers)).status()["endOffset"]
        for broker in self.brokers.values():
            until(lambda: broker.status()["confirmOffset"] == end)  # noqa: B023
            with broker.client() as client:
                found = {one["body"] for one in client.records()}
            assert set(self.acked) <= found


@contextmanager
def broker_set(folder: Path) -> Iterator[BrokerSet]:
    """
    A complete set with some records.
    """
    with ExitStack() as stack:
        words = ("--store", folder / "records")
        controller = stack.enter_context(ControllerProcess(*words))
        brokers = BrokerSet(folder, controller)
        stack.callback(brokers.close)
        for name in NAMES:
            brokers.start(name)
        brokers.await_set(3)
        brokers.append()
        yield brokers


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
