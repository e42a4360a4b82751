"""
The processes of the demo of AutoRecovery: a controller, hosts that carry replicas of
many sets, and the daemons that repair, as an operator starts them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pystore.demo.set_processes import (
    ControllerProgram,
    DemoProcess,
    free_port,
    set_programs,
    toml_text,
)
from pystore.errors import UnavailableError

__all__ = [
    "CLUSTER",
    "HostProgram",
    "HostedCluster",
    "RecoveryProgram",
    "ask",
    "ask_json",
    "hosted_cluster",
]

CLUSTER = "demo"

_HOST = "127.0.0.1"
_NODE_PORTS = 24
"""Of one host: two for each replica; a removed one may hold its own for a moment."""
_COMMAND_S = 120.0


class HostProgram(DemoProcess):
    """
    A host that begins without a replica.

    Args:
        number: of the host, from 1.
        port: where it takes orders; its replicas listen on the next ones.
        folder: for its files.
        socket: its control socket, whose path has to be short.
        controller: the address of the controller.
        segment_size: of the logs, in bytes.

    Attributes:
        number: of the host.
        address: where it takes orders.
        socket: its control socket.
        root: of its stores.
    """

    def __init__(
        self,
        number: int,
        port: int,
        folder: Path,
        *,
        socket: Path,
        controller: str,
        segment_size: int,
    ) -> None:
        self.number = number
        self.socket = socket
        name = f"host-{number}"
        self.address = f"{_HOST}:{port}"
        self.root = folder / name
        config = folder / f"{name}.toml"
        host = {
            "hostAddress": self.address,
            "controllerAddr": controller,
            "storeRoot": os.fspath(self.root),
            "nodePorts": f"{port + 1}-{port + _NODE_PORTS}",
            "rack": f"rack-{number}",
            "socket": os.fspath(socket),
        }
        replicas = {"mappedFileSizeCommitLog": segment_size, "minInSyncReplicas": 2}
        text = f"[host]\n{toml_text(host)}[defaults]\n{toml_text(replicas)}"
        config.write_text(text, "utf-8")
        words = ("broker", "-c", os.fspath(config))
        super().__init__(f"host {number}", words, folder / f"{name}.log")

    def store(self, set_name: str) -> Path:
        """
        Returns the directory of its replica of a set.
        """
        return self.root / set_name


class RecoveryProgram(DemoProcess):
    """
    A daemon of AutoRecovery.

    Args:
        number: of the daemon, from 1.
        folder: for its lines.
        words: which say where controllers and records are.
    """

    def __init__(self, number: int, folder: Path, words: Sequence[str]) -> None:
        log = folder / f"recovery-{number}.log"
        super().__init__(f"daemon {number}", ("recovery", "daemon", *words), log)


class HostedCluster:
    """
    All programs of one run, not started yet.

    Attributes:
        controller: the only one; its records are in LMDB.
        records: the directory of these records.
        hosts: by their numbers, from 1.
        daemons: of AutoRecovery.
    """

    def __init__(
        self,
        folder: Path,
        controller: ControllerProgram,
        hosts: Sequence[HostProgram],
        daemons: int,
    ) -> None:
        self.controller = controller
        self.records = folder / "records"
        self.hosts = {one.number: one for one in hosts}
        words = (*self.controller_words, *self.record_words)
        self.daemons = [
            RecoveryProgram(number + 1, folder, words) for number in range(daemons)
        ]

    @property
    def controller_words(self) -> tuple[str, str]:
        """
        What says where the controller is.
        """
        return "-a", self.controller.address

    @property
    def record_words(self) -> tuple[str, str]:
        """
        What says where the records are.
        """
        return "--records", os.fspath(self.records)

    def programs(self) -> list[DemoProcess]:
        """
        Returns all programs: daemons, hosts, the controller.
        """
        return [*self.daemons, *self.hosts.values(), self.controller]


def hosted_cluster(
    folder: Path, sockets: Path, counts: tuple[int, int], segment_size: int
) -> HostedCluster:
    """
    Returns the programs of a cluster.

    Args:
        folder: for their files.
        sockets: for the control sockets; a short path.
        counts: of the hosts and of the daemons.
        segment_size: of the logs, in bytes.

    Raises:
        UnavailableError: there are not enough free ports in a row.
    """
    hosts, daemons = counts
    records: dict[str, str | int] = {"store": os.fspath(folder / "records")}
    (controller,), _, _ = set_programs(folder, sockets, records, (1, 0), segment_size)
    first = free_port(hosts * (1 + _NODE_PORTS))
    programs = [
        HostProgram(
            number,
            first + (number - 1) * (1 + _NODE_PORTS),
            folder,
            socket=sockets / f"host-{number}.sock",
            controller=controller.address,
            segment_size=segment_size,
        )
        for number in range(1, hosts + 1)
    ]
    return HostedCluster(folder, controller, programs, daemons)


def ask(*words: str, codes: Sequence[int] = (0,)) -> str:
    """
    Runs a command of ``pystore`` and returns what it prints.

    Args:
        *words: the command line after ``pystore``.
        codes: the exit codes that are fine.

    Raises:
        UnavailableError: it ended with another code, or not in time.
    """
    command = [sys.executable, "-m", "pystore", *words]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        # What it waits for is not known here.
        text = f"pystore {' '.join(words[:2])} did not end within {_COMMAND_S:.0f} s"
        raise UnavailableError(text) from error
    if done.returncode not in codes:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        why = lines[-1] if lines else "it printed nothing"
        raise UnavailableError(
            f"pystore {' '.join(words[:2])} ended with code {done.returncode}: {why}"
        )
    return done.stdout


def ask_json(*words: str, codes: Sequence[int] = (0,)) -> dict[str, Any]:
    """
    Runs a command of ``pystore`` with ``--json`` and returns its object; as `ask`.
    """
    found: dict[str, Any] = json.loads(ask(*words, "--json", codes=codes))
    return found
