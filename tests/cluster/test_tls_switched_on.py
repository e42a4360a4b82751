"""
A running set begins to speak TLS, step by step as docs/security.md says: processes all,
restarted one after another.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from lib.broker_process import BrokerProcess, node_text, until
from lib.certificates import Authority
from lib.controller.controller_process import ControllerProcess
from lib.free_ports import free_port
from lib.store.stores import bodies

from pystore.store.commit_log import CommitLog

STEPS = (
    {"tlsMode": "permissive"},
    {"tlsMode": "permissive", "tlsClient": "true"},
    {"tlsMode": "enforcing", "tlsClient": "true"},
)
COUNT = 3


class SwitchedSet:
    """
    A controller and three brokers, with TLS or without.

    Args:
        folder: of their files.
        stack: ends the processes.

    Attributes:
        names: of the brokers, and of the folders of their stores.
        brokers: the processes.
        acknowledged: the bodies of all records.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        authority = Authority(folder)
        certificate, key = authority.issue("server")
        self._files = {
            "tlsCertificate": str(certificate),
            "tlsKey": str(key),
            "tlsAuthorities": str(authority.path),
        }
        self._at = f"127.0.0.1:{free_port()}"
        self._places = {
            f"b{one}": f"127.0.0.1:{free_port()}" for one in range(1, COUNT + 1)
        }
        self._controller = self._started({})
        self.brokers = [
            stack.enter_context(BrokerProcess.of(folder, one, self._text(one, {})))
            for one in self._places
        ]
        self.names = list(self._places)
        self.acknowledged: list[bytes] = []

    def _started(self, step: dict[str, str]) -> ControllerProcess:
        file = self._folder / "controller.toml"
        more = {**self._files, **step} if step else {}
        file.write_text("".join(f'{name} = "{one}"\n' for name, one in more.items()))
        words = ("-c", file, "--store", self._folder / "records")
        found = self._stack.enter_context(ControllerProcess(*words, listen=self._at))
        found.wait_for("this controller leads")
        return found

    def _text(self, name: str, step: dict[str, str]) -> str:
        more = {**self._files, **step} if step else {}
        return node_text(
            self._folder / name, self._at, name=name, address=self._places[name], **more
        )

    def take(self, step: dict[str, str]) -> None:
        """
        Restarts each process with the settings of a step; appends between any two.
        """
        self._controller.kill()
        self._controller = self._started(step)
        self.append()
        for one, name in zip(self.brokers, self._places, strict=True):
            one.config.write_text(self._text(name, step))
            assert 0 == one.stop()
            one.restart()
            self.append()

    def append(self) -> None:
        """
        Appends some records with the ack `all`, once the set is whole.
        """
        new = [b"%d" % (len(self.acknowledged) + one) for one in range(5)]

        def is_done() -> bool:
            for one in self.brokers:
                status = one.status()
                if status["role"] == "master" and len(status["syncStateSet"]) == COUNT:
                    with one.client() as client:
                        client.append("t", new, ack="all", timeout_ms=20_000)
                    return True
            return False

        until(is_done)
        self.acknowledged += new

    def ports(self) -> Iterator[int]:
        """
        Every port of the set: of requests, and that of the master's links.
        """
        for place in (self._at, *self._places.values()):
            yield int(place.rpartition(":")[2])
        for name, one in zip(self._places, self.brokers, strict=True):
            if one.status()["role"] == "master":
                yield int(self._places[name].rpartition(":")[2]) + 1


@pytest.mark.timeout(900)
def test_a_running_set_is_switched_to_tls_and_loses_nothing(tmp_path: Path) -> None:
    """
    In the end no port takes plain bytes.
    """
    with ExitStack() as stack:
        made = SwitchedSet(tmp_path, stack)
        made.append()
        for step in STEPS:
            made.take(step)
        for port in made.ports():
            with socket.create_connection(("127.0.0.1", port), timeout=20) as one:
                one.sendall(bytes(100))
                with suppress(ConnectionResetError):  # bytes were left unread
                    assert b"" == one.recv(1)
        for broker in made.brokers:
            assert 0 == broker.stop()
    for name in made.names:
        with CommitLog(tmp_path / name, mode="r") as log:
            assert set(made.acknowledged) <= set(bodies(log))
