"""
Brokers, clients and mqadmin of RocketMQ under a controller and a name server of
pystore that enforce: they take part with the settings that they have.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.controlled_set import until
from interop.mqadmin import MqAdmin
from interop.rig import Rig, free_ports
from lib.certificates import Authority
from lib.command_line import run
from lib.controller.controller_process import ControllerProcess

SECRET = "a secret of {}"
_PROVIDER = (
    "authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider."
    "LocalAuthenticationMetadataProvider"
)
_FAST = (
    "checkSyncStateSetPeriod=500",
    "syncBrokerMetadataPeriod=500",
    "syncControllerMetadataPeriod=500",
)


class GuardedSet:
    """
    Two brokers of RocketMQ, a controller with its name server, and a user of each role.
    """

    def __init__(
        self,
        folder: Path,
        controller: ControllerProcess,
        port: int,
        tls: tuple[str, ...],
        options: str,
    ) -> None:
        self._folder, self._rig, self._tls = folder, Rig(folder, options), tls
        self.controller = controller
        self.address = controller.address
        self.names = f"127.0.0.1:{port}"
        self.ports = {1: port + 8, 2: port + 13, 3: port + 18}
        self.admin = MqAdmin(self._home("operator"), options)
        self.stranger = MqAdmin(self._home("stranger"), options)

    def _home(self, user: str) -> Path:
        home = self._folder / f"home-{user}"
        (home / "conf").mkdir(parents=True)
        (home / "conf" / "tools.yml").write_text(
            f"accessKey: {user}\nsecretKey: {SECRET.format(user)}\n"
        )
        return home

    def start_broker(self, number: int, secret: str = SECRET.format("broker")) -> None:
        """
        Starts or restarts a broker; its role comes later.
        """
        own = json.dumps({"accessKey": "broker", "secretKey": secret})
        words = [
            "--namesrv",
            self.names,
            "--all-ack",
            "--name",
            "broker-a",
            "--no-wait",
        ]
        words += ["--controllers", self.address]
        secret = f"innerClientAuthenticationCredentials={own}"
        for one in (*_FAST, _PROVIDER, secret):
            words += ["--set", one]
        folder = ("--dir", self._folder / f"broker-{number}")
        place = (*folder, "--port", str(self.ports[number]))
        self._rig.run("start", "broker", *place, *words)

    def kill_broker(self, number: int) -> None:
        """
        Kills it with SIGKILL.
        """
        self._rig.run("stop", "--kill", self._folder / f"broker-{number}")

    def state(self) -> tuple[int, int]:
        """
        The port of the master, 0 for none, and the number of members.
        """
        own = str(self._folder / "operator.yml")
        signed = ("admin", *self._tls, "--credentials", own)
        words = ("getSyncStateSet", "-a", self.address, "-b", "broker-a", "--json")
        found = run(*signed, *words)
        if found.exit_code != 0:
            return 0, 0
        (one,) = json.loads(found.stdout)["sets"]
        address = one["masterAddress"] or ":0"
        return int(address.rpartition(":")[2]), len(one["inSync"])

    def await_master(self, members: int, *, other_than: int = 0) -> int:
        """
        Returns the number of the master of a set of this size.
        """

        def found() -> int | None:
            port, count = self.state()
            numbers = [one for one, its in self.ports.items() if its == port]
            is_it = count == members and numbers and numbers[0] != other_than
            return numbers[0] if is_it else None

        return until(found)

    def client(self, *words: str, user: str = "reader", patience_s: float = 180) -> int:
        """
        Runs a producer or a consumer as a user; returns its exit code, or -1 if it has
        not ended: threads of RocketMQ's client outlive an error.
        """
        keys = (f"accessKey={user}", f"secretKey={SECRET.format(user)}")
        command = self._rig.begin(*words, f"namesrv={self.names}", *keys, "quiet")
        try:
            return command.wait(patience_s)
        except subprocess.TimeoutExpired:
            command.kill()
            command.wait()
            return -1

    def stop(self) -> None:
        """
        Stops all processes of RocketMQ.
        """
        self._rig.stop()
        self.admin.close()
        self.stranger.close()


def java_options(authority: Authority, certificate: Path, key: Path) -> str:
    """
    Returns what makes each process of RocketMQ speak TLS, as client and server.
    """
    properties = {
        "tls.enable": "true",
        "tls.test.mode.enable": "false",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": authority.path,
        "tls.server.mode": "permissive",
        "tls.server.certPath": certificate,
        "tls.server.keyPath": key,
    }
    return " ".join(f"-D{name}={value}" for name, value in properties.items())


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def brokers(
    compiled_tool: None,  # noqa: ARG001
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[GuardedSet]:
    """
    A set whose controller enforces: users, and in the second case TLS.
    """
    key, file = tmp_path / "cluster.key", tmp_path / "controller.toml"
    assert 0 == run("admin", "user", "newKey", key).exit_code
    port = free_ports()
    lines = f'keyFile = "{key}"\nnameserver = "127.0.0.1:{port}"\n'
    options, tls = "", tuple[str, ...]()
    if request.param:
        authority = Authority(tmp_path)
        certificate, private = authority.issue("server")
        options = java_options(authority, certificate, private)
        tls = ("--tls-authorities", str(authority.path))
        lines += (
            f'tlsMode = "enforcing"\ntlsCertificate = "{certificate}"\n'
            f'tlsKey = "{private}"\ntlsAuthorities = "{authority.path}"\n'
            "tlsClient = true\n"
        )
    file.write_text(lines)
    words = ("-c", file, "--store", tmp_path / "records")
    listen = f"127.0.0.1:{port + 1}"
    with ControllerProcess(*words, listen=listen) as controller:
        controller.wait_for("this controller leads")
        admin = ("admin", *tls)
        for role in ("broker", "operator", "reader"):
            own = tmp_path / f"{role}.yml"
            own.write_text(f"accessKey: {role}\nsecretKey: {SECRET.format(role)}\n")
            own.chmod(0o600)
            more = (f"--role={role}", "--from", own, "--key-file", key)
            added = run(*admin, "user", "add", role, *more, "-a", controller.address)
            assert 0 == added.exit_code, added.output
        mode = ("-k", "authentication", "-v", "enforcing")
        at = ("-a", controller.address)
        assert 0 == run(*admin, "updateControllerConfig", *at, *mode).exit_code
        made = GuardedSet(tmp_path, controller, port, tls, options)
        try:
            yield made
        finally:
            made.stop()


def test_rocketmqs_brokers_clients_and_mqadmin_take_part_with_their_settings(
    brokers: GuardedSet,
) -> None:
    """
    Through a failover; who has no secret, or a wrong one, does not.
    """
    for number in (1, 2):
        brokers.start_broker(number)
    first = brokers.await_master(2)
    assert 0 == brokers.client("produce", "count=50", "retry=1", "size=100")
    brokers.kill_broker(first)
    second = brokers.await_master(1, other_than=first)
    words = ("produce", "count=50", "from=50", "retry=1", "size=100", "poll=500")
    assert 0 == brokers.client(*words)
    brokers.start_broker(first)
    assert second == brokers.await_master(2)
    assert 0 == brokers.client("consume", "expect=100")

    # A stranger learns nothing from the name server, nor from the controller.
    assert 0 != brokers.client("consume", "expect=100", user="stranger", patience_s=10)
    told = brokers.admin.run("getSyncStateSet", "-a", brokers.address, "-b", "broker-a")
    assert f"127.0.0.1:{brokers.ports[second]}" in told
    elect: tuple[str, ...] = ("electMaster", "-a", brokers.address, "-b", str(second))
    elect = (*elect, "-c", "rig", "-bn", "broker-a")
    refused = brokers.stranger.run(*elect)
    assert "the request is refused" in refused, refused
    said = brokers.controller.said
    assert any("its signature is not one of a known user" in one for one in said)
    assert not any("a secret of" in one for one in said)

    # A broker with another secret registers nowhere.
    brokers.start_broker(3, "not the secret")
    brokers.kill_broker(first)
    brokers.await_master(1)
    brokers.start_broker(first)
    assert second == brokers.await_master(2)
    found = brokers.admin.run(
        "getSyncStateSet", "-a", brokers.address, "-b", "broker-a"
    )
    assert str(brokers.ports[3]) not in found
