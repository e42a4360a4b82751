"""
A set of three brokers and its controller as processes, as an operator has them: orders,
lost disks, and a check in the end that no acknowledged record is missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lib.broker_process import BrokerProcess, node_text, until
from lib.command_line import run_json
from lib.controller.controller_process import ControllerProcess
from lib.free_ports import free_port

__all__ = ["NAMES", "BrokerSet", "broker_set"]

NAMES = ("1", "2", "3")
BODIES = 20


class BrokerSet:
    """
    A set of three brokers, of which `all` needs two, and its controller.

    Attributes:
        folder: of stores and configurations.
        records: the directory of the controller.
        controller: the process.
        brokers: by name.
        acked: the bodies that `all` acknowledged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = folder / "records"
        # Below the ephemeral ports: the address stays free while no controller runs.
        listen = f"127.0.0.1:{free_port()}"
        self.controller = ControllerProcess("--store", self.records, listen=listen)
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
        Kills all processes.
        """
        for broker in self.brokers.values():
            broker.kill()
        self.controller.kill()

    def stop_controller(self) -> None:
        """
        Kills the controller; its address stays.
        """
        self.controller.kill()

    def start_controller(self, *words: str) -> None:
        """
        Starts the controller again, over the records that are there.
        """
        self.controller = ControllerProcess(
            "--store", self.records, *words, listen=self.controller.address
        )
        self.controller.await_lead()

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
        brokers = BrokerSet(folder)
        stack.callback(brokers.close)
        for name in NAMES:
            brokers.start(name)
        brokers.await_set(3)
        brokers.append()
        yield brokers
