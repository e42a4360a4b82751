"""
A new cluster, from the files of one command: real processes that enforce.
"""

from __future__ import annotations

import json
import os
import ssl
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lib.command_line import PYSTORE, run
from lib.free_ports import free_port

WAIT_S = 60


@contextmanager
def started(folder: Path, *words: str) -> Iterator[Path]:
    """
    A process in its folder; yields the file of its lines.
    """
    said = folder / "stderr"
    with said.open("wb") as file:
        child = subprocess.Popen(
            [*PYSTORE, *words],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=os.environ | {"PYTHONPATH": os.getcwd()},
        )
    try:
        yield said
    finally:
        child.terminate()
        assert 0 == child.wait(WAIT_S), said.read_text()


def free_ports(count: int) -> list[int]:
    """
    Ports that are free now, and so are the ones above.
    """
    found: list[int] = []
    while len(found) < count:
        one = free_port()
        if one < 60_000 and all(abs(one - other) > 1 for other in found):
            found.append(one)
    return found


def test_a_new_cluster_enforces_from_its_first_request_on(tmp_path: Path) -> None:
    """
    A controller and two brokers, started as the command says.
    """
    controller, first, second = (f"127.0.0.1:{one}" for one in free_ports(3))
    folder = tmp_path / "secure"
    brokers = [f"--broker=broker-a={one}" for one in (first, second)]
    made = run("init-cluster", folder, "--controller", controller, *brokers)
    assert 0 == made.exit_code, made.output
    assert "pystore broker -c broker.toml" in made.stdout
    names = folder / "controller-1" / "controller.toml"
    port = free_port()
    names.write_text(names.read_text().replace(":9876", f":{port}"))
    for one in (1, 2):
        file = folder / f"broker-{one}" / "broker.toml"
        file.write_text(file.read_text().replace(":9876", f":{port}"))
    known = ("--tls-authorities", folder / "ca.pem")
    operator = ("admin", *known, "--credentials", folder / "operator.yml")
    clients = ("admin", *known, "--credentials", folder / "clients.yml")
    show = ("getSyncStateSet", "-a", controller, "-b", "broker-a", "--json")
    with (
        started(folder / "controller-1", "controller", "-c", "controller.toml") as said,
        started(folder / "broker-1", "broker", "-c", "broker.toml"),
        started(folder / "broker-2", "broker", "-c", "broker.toml"),
    ):
        end_s = time.monotonic() + WAIT_S
        while True:
            found = run(*operator, *show)
            if found.exit_code == 0:
                (one,) = json.loads(found.stdout)["sets"]
                if len(one["inSync"]) == 2:
                    break
            assert time.monotonic() < end_s, said.read_text()
            time.sleep(0.1)
        users = run(*operator, "user", "list", "--json", "-a", controller)
        assert ["brokers", "clients", "operator"] == [
            one["name"] for one in json.loads(users.stdout)["users"]
        ]
        # A client asks, and orders nothing; who has no secret does neither.
        assert 0 == run(*clients, *show).exit_code
        order = ("transferController", "-a", controller)
        assert "no role for request 7105" in run(*clients, *order).stderr
        assert "the request is refused" in run("admin", *known, *show).stderr
        assert 3 == run("admin", *show).exit_code


def test_secrets_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    """
    And nothing is written over: the folder must be new.
    """
    folder = tmp_path / "secure"
    words = ("--controller", "h:9878", "--broker", "b=g:10911", "--name", "c")
    assert 0 == run("init-cluster", folder, *words).exit_code
    public = {"ca.pem", "certificate.pem", "tls.properties"}
    for path in folder.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_dir():
            assert 0o700 == mode, path
        else:
            assert (0o644 if path.name in public else 0o600) == mode, path
    again = run("init-cluster", folder, *words)
    assert 3 == again.exit_code
    assert str(folder) in again.stderr


def test_a_certificate_is_for_its_host_and_both_sides(tmp_path: Path) -> None:
    """
    A name or an IP address, of either version.
    """
    folder = tmp_path / "secure"
    hosts = ["h.example", "10.1.2.3", "::1"]
    brokers = [
        f"--broker=b=[{one}]:10911" if ":" in one else f"--broker=b={one}:10911"
        for one in hosts
    ]
    made = run("init-cluster", folder, "--controller", "h.example:9878", *brokers)
    assert 0 == made.exit_code
    for number, host in enumerate(hosts, 1):
        place = folder / f"broker-{number}"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(place / "certificate.pem", place / "certificate.key")
        context.load_verify_locations(place / "ca.pem")
        decoded = ssl._ssl._test_decode_cert(  # type: ignore[attr-defined]
            str(place / "certificate.pem")
        )
        ((kind, name),) = decoded["subjectAltName"]
        is_name = host == "h.example"
        assert ("DNS" if is_name else "IP Address") == kind
        assert name == host or (kind == "IP Address" and name.endswith(":1"))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "Missing option '--controller'"),
        (("--controller", "nowhere"), "no HOST:PORT"),
        (("--controller", "a:1", "--controller", "b:1"), "give --zookeeper HOSTS"),
        (("--controller", "a:1", "--broker", "b:1"), "is no NAME=HOST:PORT"),
        (("--controller", "a:1", "--broker", "b=a:1"), "have the same address"),
    ],
)
def test_a_plan_that_cannot_work_writes_nothing(
    tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    """
    With the reason.
    """
    folder = tmp_path / "secure"
    found = run("init-cluster", folder, *words)
    assert 2 == found.exit_code
    assert reason in found.stderr
    assert not folder.exists()
