"""
``pystore broker -c`` as an operator starts it: a process that is asked over its socket.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from lib.command_line import PYSTORE
from lib.free_ports import free_port
from pystore.broker.control_client import ControlClient
from pystore.errors import PystoreError

__all__ = ["PATIENCE_S", "BrokerProcess", "node_text", "until"]

PATIENCE_S = 60
SEGMENT = 1 << 20


def node_text(store: Path, controller: str, **more: str | int) -> str:
    """
    Returns the TOML of one node of the set ``b``, with short periods.

    Args:
        store: of the node.
        controller: its address.
        **more: settings that are added or replaced.
    """
    settings: dict[str, str | int] = {
        "brokerName": "b",
        "address": f"127.0.0.1:{free_port()}",
        "store": str(store),
        "controllerAddr": controller,
        "mappedFileSizeCommitLog": SEGMENT,
        "brokerHeartbeatInterval": 100,
        "syncBrokerMetadataPeriod": 100,
        "checkSyncStateSetPeriod": 300,
    }
    lines = (
        f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}"
        for name, value in {**settings, **more}.items()
    )
    return "\n".join(lines) + "\n"


def until(found: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """
    Returns the first true result; errors of pystore count as none.
    """
    end_s = time.monotonic() + patience_s
    last: object = None
    while time.monotonic() < end_s:
        try:
            if last := found():
                return last
        except PystoreError as error:
            # The broker starts, or changes its role.
            last = error
        time.sleep(0.02)
    raise AssertionError(f"not in time; the last result: {last}")


class BrokerProcess:
    """
    A context manager, which kills the process if it still runs.

    Args:
        config: the file; its folder takes the lines of the process, too.
        path: the control socket.
        before: the beginning of the command line, for a process that starts it.

    Attributes:
        child: the process.
        ready: its lines on stdout so far.
    """

    def __init__(self, config: Path, path: Path, before: tuple[str, ...] = ()) -> None:
        self.config, self.path = config, path
        self._before = before
        self._said = config.with_suffix(".log")
        self.child = self._started()
        self.ready = [self._line()]

    @classmethod
    def of(
        cls, folder: Path, name: str, text: str, before: tuple[str, ...] = ()
    ) -> BrokerProcess:
        """
        Starts one with this configuration, whose store is ``folder/name``.
        """
        config = folder / f"{name}.toml"
        config.write_text(text, "utf-8")
        return cls(config, folder / f"{name}.sock", before)

    def __enter__(self) -> BrokerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def said(self) -> str:
        """
        What it wrote on stderr.
        """
        return self._said.read_text("utf-8")

    def restart(self) -> None:
        """
        Starts it again.
        """
        self.child = self._started()
        self.ready = [self._line()]

    def kill(self) -> None:
        """
        Kills it by SIGKILL. Idempotent.
        """
        self.child.kill()
        self._end()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """
        Ends it by a signal, and returns the exit code.
        """
        self.child.send_signal(number)
        code = self._end()
        assert "Traceback" not in self.said, self.said
        return code

    def wait(self) -> int:
        """
        Waits until it ends by itself, and returns the exit code.
        """
        return self._end()

    @contextmanager
    def client(self, node: str = "") -> Iterator[ControlClient]:
        """
        A connection to its socket.
        """
        with ControlClient(self.path, node) as client:
            yield client

    def status(self) -> dict[str, Any]:
        """
        Returns the status of its first node.
        """
        with self.client() as client:
            return client.status()[0]

    def await_role(self, role: str, **more: object) -> dict[str, Any]:
        """
        Waits until it has this role, and these values of its status.
        """

        def found() -> dict[str, Any] | None:
            now = self.status()
            wanted = {"role": role, **more}
            return now if all(now[key] == one for key, one in wanted.items()) else None

        status: dict[str, Any] = until(found)
        return status

    def _started(self) -> subprocess.Popen[str]:
        with self._said.open("a") as said:
            return subprocess.Popen(
                # Machines of a test are other machines to each other.
                [*self._before, *PYSTORE, "broker", "-c", self.config, "--insecure"],
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )

    def _line(self) -> str:
        assert self.child.stdout is not None
        return self.child.stdout.readline().rstrip("\n")

    def _end(self) -> int:
        code = self.child.wait(PATIENCE_S)
        if self.child.stdout is not None:
            self.child.stdout.close()
        return code
