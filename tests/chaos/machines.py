"""
Machines in one: each has a network and disks of its own, in namespaces of Linux.

A holder process keeps the namespaces of a machine, and ends with this process: then
nothing is left. All machines are linked to a router, which drops what a cut link would
lose. Control sockets in a folder that machines share are seen by all.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

__all__ = ["SILENT", "Machine", "Network", "missing"]

SILENT = "192.0.2.1"
"""What is sent there is lost without a word."""

_HELD = b"held\n"


def missing() -> str | None:
    """
    Returns what this machine lacks; ``None``: nothing.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        return "namespaces need Linux and root"
    lacking = [
        one
        for one in ("ip", "tc", "unshare", "nsenter", "setpriv")
        if not shutil.which(one)
    ]
    return f"not installed: {', '.join(lacking)}" if lacking else None


class Machine:
    """
    Namespaces for a network and for mounts. A context manager.

    Attributes:
        inside: the beginning of a command that runs on this machine.
        address: its IP address; empty for the router.
    """

    def __init__(self, address: str = "") -> None:
        self.address = address
        self._holder = subprocess.Popen(
            [
                "unshare",
                "-m",
                "-n",
                "sh",
                "-c",
                "ip link set lo up && echo held && exec cat",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == _HELD
        self.pid = self._holder.pid
        self.inside = (
            # A process ends with this one, however that ends.
            "setpriv",
            "--pdeathsig=KILL",
            "nsenter",
            f"--net=/proc/{self.pid}/ns/net",
            f"--mount=/proc/{self.pid}/ns/mnt",
        )

    def __enter__(self) -> Machine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.wait()
        self._holder.stdout.close()

    def run(self, *words: str | Path) -> str:
        """
        Runs a command on this machine, and returns its output.
        """
        command = [*self.inside, *map(str, words)]
        return subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    def mount(self, folder: Path, mebibytes: int) -> None:
        """
        Mounts a disk of this size, in memory, that only this machine has.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.run("mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "none", folder)

    def names(self, hosts: Path, resolver: Path) -> None:
        """
        Names are looked up in these files, in place of those below ``/etc``.
        """
        self.run("mount", "--bind", hosts, "/etc/hosts")
        self.run("mount", "--bind", resolver, "/etc/resolv.conf")

    def seen(self, path: Path) -> Path:
        """
        Returns where this process sees what processes of the machine call *path*.
        """
        return Path(f"/proc/{self.pid}/root") / path.absolute().relative_to("/")


class Network:
    """
    Machines and the links between them. A context manager.

    Args:
        names: of the machines.

    Attributes:
        machines: by name.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._router = Machine()
        self._router.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        # A server of names that never answers.
        self._router.run("ip", "route", "add", "blackhole", f"{SILENT}/32")
        self._rules = itertools.count(100)
        self._links: dict[str, str] = {}
        self.machines: dict[str, Machine] = {}
        for number, name in enumerate(names, 1):
            self._join(name, number)

    def _join(self, name: str, number: int) -> None:
        machine = self.machines[name] = Machine(f"10.77.{number}.2")
        link = self._links[name] = f"link{number}"
        router, run = f"10.77.{number}.1", self._router.run
        pid = str(machine.pid)
        run(
            "ip",
            "link",
            "add",
            link,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            pid,
        )
        run("ip", "addr", "add", f"{router}/24", "dev", link)
        run("ip", "link", "set", link, "up")
        machine.run("ip", "addr", "add", f"{machine.address}/24", "dev", "eth0")
        machine.run("ip", "link", "set", "eth0", "up")
        machine.run("ip", "route", "add", "default", "via", router)

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for machine in (*self.machines.values(), self._router):
            machine.__exit__(kind, error, trace)

    def cut(self, sender: str, receiver: str) -> int:
        """
        What the sender sends to the receiver does not arrive any more, without a word.
        Returns the number of the cut, for `heal`.
        """
        number = next(self._rules)
        ends = self.machines[sender].address, self.machines[receiver].address
        words = ("from", ends[0], "to", ends[1], "blackhole", "pref", str(number))
        self._router.run("ip", "rule", "add", *words)
        return number

    def heal(self, cut: int) -> None:
        """
        Ends a cut.
        """
        self._router.run("ip", "rule", "del", "pref", str(cut))

    def slow(self, receiver: str, kilobits: int) -> None:
        """
        So many kilobits a second arrive at this machine, and no more.
        """
        rate = ("rate", f"{kilobits}kbit", "burst", "4kb", "latency", "2000ms")
        words = ("dev", self._links[receiver], "root", "tbf", *rate)
        self._router.run("tc", "qdisc", "add", *words)

    def full_speed(self, receiver: str) -> None:
        """
        Ends `slow`.
        """
        self._router.run("tc", "qdisc", "del", "dev", self._links[receiver], "root")
