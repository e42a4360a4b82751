"""
A real ZooKeeper on loopback, of the jars that PySpark brings along.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

from lib.free_ports import free_port

__all__ = ["ZookeeperServer", "free_ports", "missing"]

START_S = 120
TICK_MS = 200
JARS = ("zookeeper*", "netty*", "slf4j-api*", "metrics-core*", "snappy*", "commons-*")


def missing() -> str | None:
    """
    Returns what this machine lacks for a server and its client.
    """
    lacking = [name for name in ("pyspark", "kazoo") if find_spec(name) is None]
    if shutil.which("java") is None:
        lacking.append("java")
    return f"not installed: {', '.join(lacking)}" if lacking else None


def free_ports(count: int) -> list[int]:
    """
    Returns ports without a listener.
    """
    first = free_port(count)
    return list(range(first, first + count))


class ZookeeperServer:
    """
    One server, alone or of an ensemble.

    Args:
        folder: for its data.
        port: for clients.
        number: its own, from 1 on.
        ensemble: the two ports of each server of the ensemble; empty: alone.
        address: where it listens.
        before: the beginning of the command line, for a process that starts it.
        more: more lines of its configuration.
        options: more words for Java.
    """

    def __init__(
        self,
        folder: Path,
        port: int,
        number: int = 1,
        ensemble: tuple[tuple[int, int], ...] = (),
        *,
        address: str = "127.0.0.1",
        before: tuple[str, ...] = (),
        more: tuple[str, ...] = (),
        options: tuple[str, ...] = (),
    ) -> None:
        self.port = port
        self.hosts = f"{address}:{port}"
        folder.mkdir(parents=True)
        (folder / "myid").write_text(str(number))
        lines = [
            f"dataDir={folder}",
            f"clientPort={port}",
            f"clientPortAddress={address}",
            f"tickTime={TICK_MS}",
            "initLimit=50",
            "syncLimit=25",
            "admin.enableServer=false",
            "4lw.commands.whitelist=srvr",
            "maxClientCnxns=0",
            *more,
        ]
        for index, (peer, election) in enumerate(ensemble, 1):
            lines.append(f"server.{index}=127.0.0.1:{peer}:{election}")
        settings = folder / "zoo.cfg"
        settings.write_text("\n".join(lines))
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        jars = Path(spec.origin).parent / "jars"
        paths = [str(path) for name in JARS for path in jars.glob(f"{name}.jar")]
        command = [
            *before,
            "java",
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *options,
        ]
        command += ["-Xshare:auto", "-Dzookeeper.forceSync=no", "-cp", ":".join(paths)]
        command.append("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, str(settings)], stdout=log, stderr=subprocess.STDOUT
            )

    def mode(self) -> str | None:
        """
        Returns ``standalone``, ``leader`` or ``follower``, once it serves.
        """
        try:
            with socket.create_connection(("127.0.0.1", self.port), 2) as link:
                link.sendall(b"srvr")
                said = link.makefile("r").read()
        except OSError:
            # Not yet, or no more.
            return None
        modes = [line[6:] for line in said.splitlines() if line.startswith("Mode: ")]
        return modes[0] if modes else None

    def await_mode(self) -> str:
        """
        Blocks until it serves.
        """
        end_s = time.monotonic() + START_S
        while time.monotonic() < end_s:
            if mode := self.mode():
                return mode
            assert self.process.poll() is None, self._log.read_text()
            time.sleep(0.02)
        raise AssertionError(f"ZooKeeper does not serve: {self._log.read_text()}")

    def pause(self) -> None:
        """
        Pauses the server, until `go_on`.
        """
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """
        It serves again, and finds that sessions have expired.
        """
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """
        Ends it at once. Again is fine.
        """
        self.process.kill()
        self.process.wait()

    def __repr__(self) -> str:
        return f"ZooKeeper {self.process.pid} at {self.hosts} (test {os.getpid()})"
