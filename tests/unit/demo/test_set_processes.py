"""
The processes of the demo are the real ones, on ports of their own.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from lib.broker_process import until

from pystore.broker.settings import host_of_toml
from pystore.controller.server.config import parse_toml
from pystore.demo import set_processes
from pystore.demo.set_processes import DemoProcess, free_port, set_programs
from pystore.errors import UnavailableError


@pytest.fixture
def info(tmp_path: Path) -> Iterator[DemoProcess]:
    """
    A process that ends by itself with an error: its store is none.
    """
    process = DemoProcess("info", ["info", "/nowhere"], tmp_path / "log")
    yield process
    process.kill()


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[DemoProcess]:
    """
    A controller that is not started.
    """
    records = {"store": os.fspath(tmp_path / "records")}
    (found,), _, _ = set_programs(tmp_path, tmp_path, records, (1, 0), 1 << 20)
    yield found
    found.kill()


def led(controller: DemoProcess) -> int:
    """
    How often it has told that it leads.
    """
    return controller.log.read_text("utf-8").count("this controller leads")


def test_so_many_ports_in_a_row_are_free() -> None:
    """
    Until somebody takes them.
    """
    first = free_port(9)
    with ExitStack() as stack:
        for port in range(first, first + 9):
            stack.enter_context(socket.create_server(("127.0.0.1", port)))


def test_a_machine_without_free_ports_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    After some tries.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(set_processes, "_LOWEST", port)
        monkeypatch.setattr(set_processes, "_ABOVE", port + 1)
        with pytest.raises(UnavailableError, match="no free port"):
            free_port(1)


def test_the_programs_of_a_set_share_no_port_and_no_file(tmp_path: Path) -> None:
    """
    Their files are taken by the commands; a path may have any characters.
    """
    folder = tmp_path / 'a "b" \\ é'
    folder.mkdir()
    records = {"store": os.fspath(folder / "records")}
    controllers, brokers, _ = set_programs(folder, tmp_path, records, (3, 3), 1 << 20)

    addresses = [one.address for one in controllers]
    names = []
    for one in brokers:
        config = folder / f"broker-{one.number}.toml"
        found = host_of_toml(config.read_text("utf-8"), "x")
        assert one.socket == found.socket
        (node,) = found.nodes
        assert one.store == node.config.store
        assert tuple(addresses) == node.config.controllers
        assert 2 == node.config.rules.min_in_sync
        addresses_of = [node.config.address, node.config.ha_address]
        names += addresses_of
    assert len(set(addresses + names)) == 9
    for number, address in enumerate(addresses, 1):
        text = (folder / f"controller-{number}.toml").read_text("utf-8")
        assert {"listen": address, **records} == parse_toml(text, "x").texts


def test_a_process_that_ends_by_itself_is_an_error_with_its_last_line(
    info: DemoProcess,
) -> None:
    """
    One that was not started is none.
    """
    info.check()
    info.log.touch()
    assert "it wrote nothing" == info.last_line()
    info.start()

    def ended() -> str | None:
        try:
            info.check()
        except UnavailableError as error:
            return str(error)
        return None

    text = until(ended)
    assert text.startswith("info ended with code 3: ")
    assert "/nowhere" in text


def test_a_process_is_killed_and_started_again(controller: DemoProcess) -> None:
    """
    By SIGKILL to its id, at the same address.
    """
    for count in (1, 2):
        controller.start()
        until(lambda: led(controller) == count)  # noqa: B023
        pid = controller.pid
        controller.check()
        controller.kill()
        controller.kill()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_process_is_stopped_cleanly(controller: DemoProcess) -> None:
    """
    Also after a pause.
    """
    controller.start()
    until(lambda: led(controller))
    controller.send(signal.SIGSTOP)
    controller.send(signal.SIGCONT)
    controller.stop()


def test_a_process_that_does_not_end_well_is_an_error(
    controller: DemoProcess, info: DemoProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    By another code, or not in time.
    """
    info.start()
    with pytest.raises(UnavailableError, match="info ended with code"):
        info.stop()
    controller.start()
    until(lambda: led(controller))
    controller.send(signal.SIGSTOP)
    monkeypatch.setattr(set_processes, "_END_S", 0.01)
    with pytest.raises(UnavailableError, match="controller 1 did not end within"):
        controller.stop()
