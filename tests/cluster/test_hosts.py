"""
Hosts as processes, to which ``pystore admin`` adds replicas, and from which it removes
them, while a writer waits for the ack `all`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from lib.broker_process import PATIENCE_S, until
from lib.command_line import run, run_json
from lib.controller.controller_process import ControllerProcess
from lib.host_process import HostProcess

from pystore.errors import PystoreError

DYING = """
import os, signal, sys
when = sys.argv.pop(1)
rename = os.rename

def dying(source, target):
    if str(target).endswith(".conf"):
        if when == "after":
            rename(source, target)
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)

os.rename = dying
from pystore.cli import main
main()
"""
"""A host that is killed before or after the settings of an added node are kept."""


class Writer:
    """
    A thread that appends to whichever host has the master, until it ends.

    Attributes:
        bodies: the acknowledged ones.
    """

    def __init__(self, hosts: list[HostProcess]) -> None:
        self.bodies: list[str] = []
        self._hosts = hosts
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def await_more(self, count: int) -> None:
        """
        Waits until so many more records are acknowledged.
        """
        wanted = len(self.bodies) + count
        until(lambda: len(self.bodies) >= wanted)

    def _run(self) -> None:
        number = 0
        while not self._ends.is_set():
            for one in self._hosts:
                body = f"body {number}"
                try:
                    with one.client() as client:
                        client.append("t", [body.encode()], ack="all", timeout_ms=5_000)
                except (PystoreError, OSError):
                    # Not the master, or not there: the next one.
                    continue
                self.bodies.append(body)
                number += 1


def members(host: HostProcess) -> list[int]:
    """
    The SyncStateSet, if its node is master.
    """
    now = host.status()
    found: list[int] = now["syncStateSet"] if now["role"] == "master" else []
    return found


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_host_that_is_killed_while_a_node_is_added_has_it_or_not(
    tmp_path: Path, when: str
) -> None:
    """
    SIGKILL before and after the settings are kept. The request has no answer, and is
    sent again: the node is there once.
    """
    with (
        ControllerProcess("--store", tmp_path / "records") as controller,
        HostProcess(tmp_path, "one", controller.address) as host,
    ):
        assert 0 == host.stop()
        config = ("broker", "-c", host.config, "--insecure")
        dying = subprocess.Popen(
            [sys.executable, "-c", DYING, when, *config],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert dying.stdout is not None
        assert "listens on" in dying.stdout.readline()
        asked = host.add()
        assert 3 == asked.exit_code
        assert "whether it is done, `pystore admin describeHosts` says" in (
            asked.output
        )
        assert -signal.SIGKILL == dying.wait(PATIENCE_S)
        dying.stdout.close()

        host.restart()
        again = host.add()
        if when == "before":
            assert 0 == again.exit_code
        else:
            assert 3 == again.exit_code
            assert "this host has a replica of b of c" in again.output
        host.await_role("master")
        assert {"b": "master"} == host.roles()
        assert 0 == host.stop()


def test_replicas_come_and_go_while_a_writer_appends(tmp_path: Path) -> None:
    """
    A host is lost, a spare takes a replica that begins with the last segment; the
    master is removed and hands over; a killed host comes back with its node. Every
    acknowledged record is on the last master.
    """
    with ExitStack() as stack:
        words = ("--store", tmp_path / "records")
        controller = stack.enter_context(ControllerProcess(*words))
        one, two, three = hosts = [
            stack.enter_context(
                HostProcess(tmp_path, name, controller.address, rack=f"r-{name}")
            )
            for name in ("one", "two", "three")
        ]
        listed = ("admin", "describeHosts", "-a", controller.address)
        until(lambda: len(run_json(*listed)["hosts"]) == 3)
        assert {"r-one", "r-two", "r-three"} == {
            each["rack"] for each in run_json(*listed)["hosts"]
        }
        assert 0 == one.add("--dry-run").exit_code
        assert {} == one.roles()
        assert 0 == one.add().exit_code
        one.await_role("master")
        assert 0 == two.add().exit_code
        until(lambda: members(one) == [1, 2])
        with Writer(hosts) as writer:
            writer.await_more(20)
            # For good: its replica is made anew on the spare.
            two.kill()
            assert 0 == three.add(syncFromLastFile="true").exit_code
            until(lambda: 3 in members(one))
            writer.await_more(20)
            removed = one.remove(1)
            assert 0 == removed.exit_code, removed.output
            assert "has removed b" in removed.output
            assert {} == one.roles()
            three.await_role("master")
            writer.await_more(20)
            two.restart()
            until(lambda: members(three) == [2, 3])
            three.kill()
            three.restart()
            until(lambda: members(two) == [2, 3] or members(three) == [2, 3])
            writer.await_more(20)
        last = two if members(two) else three
        with last.client() as client:
            found = [each["body"] for each in client.records()]
        assert set(writer.bodies) <= set(found)
        lines = run(*listed).output.splitlines()
        assert 3 == sum("127.0.0.1:" in line for line in lines)
        assert [0, 0, 0] == [each.stop() for each in hosts]


def test_a_spare_host_runs_until_it_is_stopped(tmp_path: Path) -> None:
    """
    Without a node, and without a controller that answers.
    """
    with HostProcess(tmp_path, "one", "127.0.0.1:1") as host:
        assert {} == host.roles()
        assert 0 == host.stop()
        assert not host.path.exists()
