"""
``pystore broker -c`` with a host port and no node, to which nodes are added: a process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lib.broker_process import BrokerProcess
from lib.command_line import run
from lib.spare_hosts import SHORT_PERIODS, node_conf, spare_text
from pystore.broker.settings import host_of_toml

__all__ = ["HostProcess"]


class HostProcess(BrokerProcess):
    """
    A host that began without a node.

    Attributes:
        address: of its port.
        root: of its stores.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        controller: str,
        *,
        periods: str = SHORT_PERIODS,
        **more: str,
    ) -> None:
        self.root = folder / name
        text = spare_text(self.root, controller, periods=periods, **more)
        port = host_of_toml(text, name).port
        assert port is not None
        self.address = port.address
        self.conf = folder / f"{name}-node.conf"
        config = folder / f"{name}.toml"
        config.write_text(text, "utf-8")
        super().__init__(config, folder / f"{name}.sock")
        assert [f"pystore broker host listens on {self.address}"] == self.ready

    def __enter__(self) -> HostProcess:
        return self

    def add(self, *words: str, **more: str) -> Any:
        """
        Adds a node of the set `b`; returns the result of the command.
        """
        self.conf.write_text(node_conf(**more))
        line = ("-c", self.address, "--file", str(self.conf), *words)
        return run("admin", "addBroker", *line)

    def remove(self, broker_id: int, *words: str) -> Any:
        """
        Removes the node.
        """
        line = ("-c", self.address, "-b", f"c:b:{broker_id}", *words)
        return run("admin", "removeBroker", *line)

    def roles(self) -> dict[str, str]:
        """
        The roles of its nodes.
        """
        with self.client() as client:
            return {one["node"]: one["role"] for one in client.status()}
