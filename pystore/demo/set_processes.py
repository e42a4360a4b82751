"""
The processes of the replicated part: controllers and brokers as an operator starts
them, on ports of this machine only.

Each process gets a configuration file and writes its lines into a file beside it. A
signal goes to one process by its id.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from pystore.demo.secured_set import OpenSet, Settings
from pystore.errors import UnavailableError

__all__ = [
    "SET_NAME",
    "BrokerProgram",
    "ControllerProgram",
    "DemoProcess",
    "free_port",
    "set_programs",
    "toml_text",
]

SET_NAME = "demo"
"""The broker set."""

Secure = Callable[[list[str], list[str]], OpenSet]

_HOST = "127.0.0.1"
_LOWEST, _ABOVE = 20_000, 32_000
# Below the range from which systems take the ports of outgoing connections: a broker
# that is not master does not listen for slaves yet, and any connection could take
# the port meanwhile.
_TRIES = 1_000
_END_S = 30.0


def free_port(count: int) -> int:
    """
    Returns the first of so many free ports in a row.

    Raises:
        UnavailableError: none was found.
    """
    for _ in range(_TRIES):
        port = random.SystemRandom().randrange(_LOWEST, _ABOVE)
        with ExitStack() as stack:
            try:
                for number in range(count):
                    at = _HOST, port + number
                    stack.enter_context(socket.create_server(at))
            except OSError:
                # One is taken: others.
                continue
            return port
    raise UnavailableError(f"no free port from {_LOWEST} to {_ABOVE} on {_HOST}")


class DemoProcess:
    """
    A process of `python -m pystore`, which may be started several times. One thread.

    Args:
        name: for people.
        words: its command line, after ``pystore``.
        log: takes what it writes on stdout and stderr.
    """

    def __init__(self, name: str, words: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._words = words
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """
        Of the process.
        """
        return self._started.pid

    def start(self) -> None:
        """
        Starts it. The one before has ended.
        """
        command = [sys.executable, "-m", "pystore", *self._words]
        with self.log.open("ab") as log:
            # In its own session it gets no Ctrl-C; the demo ends it then.
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def check(self) -> None:
        """
        Makes sure that it has not ended by itself.

        Raises:
            UnavailableError: it has; the error has its last line.
        """
        code = None if self._child is None else self._child.poll()
        if code is not None:
            raise UnavailableError(
                f"{self.name} ended with code {code}: {self.last_line()}",
                path=os.fspath(self.log),
            )

    def last_line(self) -> str:
        """
        Returns the last line that it wrote.
        """
        lines = self.log.read_text("utf-8", "replace").splitlines()
        return lines[-1] if lines else "it wrote nothing"

    def send(self, number: signal.Signals) -> None:
        """
        Sends it a signal, such as SIGSTOP.
        """
        self._started.send_signal(number)

    def kill(self) -> None:
        """
        Ends it by SIGKILL, and waits. Idempotent.
        """
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def stop(self) -> None:
        """
        Ends it by SIGTERM.

        Raises:
            UnavailableError: it does not end in time, or with another code than 0.
        """
        self.send(signal.SIGTERM)
        try:
            code = self._started.wait(_END_S)
        except subprocess.TimeoutExpired as error:
            # The caller kills it.
            text = f"{self.name} did not end within {_END_S:.0f} s after SIGTERM"
            raise UnavailableError(text, path=os.fspath(self.log)) from error
        if code:
            text = f"{self.name} ended with code {code}: {self.last_line()}"
            raise UnavailableError(text, path=os.fspath(self.log))

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        assert self._child is not None, f"{self.name} was not started"
        return self._child


class ControllerProgram(DemoProcess):
    """
    A controller.

    Args:
        number: of the controller, from 1.
        port: where it listens.
        folder: for its files.
        records: settings that say where its records are.

    Attributes:
        address: where it listens, also after a restart.
    """

    def __init__(self, number: int, port: int, folder: Path, records: Settings) -> None:
        self.address = f"{_HOST}:{port}"
        name = f"controller-{number}"
        config = folder / f"{name}.toml"
        config.write_text(toml_text({"listen": self.address, **records}), "utf-8")
        words = ("controller", "-c", os.fspath(config))
        super().__init__(f"controller {number}", words, folder / f"{name}.log")


class BrokerProgram(DemoProcess):
    """
    A broker.

    Args:
        number: of the broker, from 1; the controller gives the id in the order of
            registrations.
        port: where it listens; slaves connect to the next one.
        folder: for its files.
        socket: its control socket, whose path has to be short.
        settings: more of them.

    Attributes:
        number: of the broker.
        store: its directory.
        socket: its control socket.
    """

    def __init__(
        self,
        number: int,
        port: int,
        folder: Path,
        socket: Path,
        settings: Settings,
    ) -> None:
        self.number = number
        self.socket = socket
        name = f"broker-{number}"
        self.store = folder / name
        config = folder / f"{name}.toml"
        own = {
            "brokerName": SET_NAME,
            "name": name,
            "address": f"{_HOST}:{port}",
            "store": os.fspath(self.store),
        }
        host = {"socket": os.fspath(socket)}
        config.write_text(
            f"{toml_text({**own, **settings})}[host]\n{toml_text(host)}", "utf-8"
        )
        words = ("broker", "-c", os.fspath(config))
        super().__init__(f"broker {number}", words, folder / f"{name}.log")


def set_programs(
    folder: Path,
    sockets: Path,
    records: Mapping[str, str | int],
    counts: tuple[int, int],
    segment_size: int,
    *,
    secured: Secure | None = None,
) -> tuple[list[ControllerProgram], list[BrokerProgram], OpenSet]:
    """
    Returns the programs of a broker set, not started yet, and what their peers need.

    Args:
        folder: for their files.
        sockets: for the control sockets; a short path.
        records: settings of the controllers that say where their records are.
        counts: of the controllers and of the brokers.
        segment_size: of the logs, in bytes.
        secured: makes users and TLS of the addresses of controllers and brokers;
            ``None``: there are none.

    Raises:
        UnavailableError: there are not enough free ports in a row.
    """
    leading, brokers = counts
    first = free_port(leading + 3 * brokers)
    places = [f"{_HOST}:{first + number}" for number in range(leading)]
    ports = [first + leading + 3 * number for number in range(brokers)]
    access = OpenSet()
    if secured is not None:
        access = secured(places, [f"{_HOST}:{port}" for port in ports])
    controllers = [
        ControllerProgram(
            number + 1,
            first + number,
            folder,
            {**records, **access.controller(number + 1)},
        )
        for number in range(leading)
    ]
    settings: Settings = {
        "controllerAddr": ";".join(one.address for one in controllers),
        "minInSyncReplicas": 2,
        "mappedFileSizeCommitLog": segment_size,
    }
    return (
        controllers,
        [
            BrokerProgram(
                number,
                port,
                folder,
                sockets / f"broker-{number}.sock",
                {**settings, **access.broker(number)},
            )
            for number, port in enumerate(ports, 1)
        ],
        access,
    )


def toml_text(settings: Mapping[str, str | int]) -> str:
    """
    Returns settings as the lines of a table.
    """
    lines = (
        f"{name} = {json.dumps(value, ensure_ascii=False)}"
        for name, value in settings.items()
    )
    # Texts and numbers of JSON are those of TOML.
    return "\n".join(lines) + "\n"
