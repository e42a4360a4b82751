"""
Brokers of RocketMQ under a controller and a name server of pystore that enforce.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from interop.controlled_set import until
from interop.mqadmin import MqAdmin
from interop.rig import READY_S, Rig, free_ports
from lib.certificates import Authority
from lib.command_line import run
from lib.controller.controller_process import ControllerProcess

__all__ = ["AUTHENTICATES", "SECRET", "GuardedSet", "guarded"]

SECRET = "a secret of {}"
"""Of the user with this name."""

_ROLES = {
    "broker": "broker",
    "operator": "operator",
    "reader": "reader",
    "guest": "reader",
}
_INNER_USER = json.dumps({"username": "broker", "password": SECRET.format("broker")})
_PROVIDER = (
    "authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider."
    "LocalAuthenticationMetadataProvider"
)
AUTHENTICATES = (
    "authenticationEnabled=true",
    "authenticationProvider=org.apache.rocketmq.auth.authentication.provider."
    "DefaultAuthenticationProvider",
    f"initAuthenticationUser={_INNER_USER}",
)
"""The settings of brokers that authenticate their own clients."""

_FAST = (
    "checkSyncStateSetPeriod=500",
    "syncBrokerMetadataPeriod=500",
    "syncControllerMetadataPeriod=500",
)


class GuardedSet:
    """
    Two brokers of RocketMQ, a controller with its name server, a user of each role, and
    the user ``guest``, another reader.

    Args:
        folder: the working directory of all processes.
        controller: the process.
        port: of the name server.
        version: of RocketMQ.
        settings: of each broker, beside those that all of them need.
        tls: how `pystore admin` speaks TLS.
        options: of Java.

    Attributes:
        controller: the process.
        address: of the controller.
        names: the address of the name server.
        ports: of each broker, by its number.
        spare: an address that none of them has, nor the port above.
        admin: mqadmin, as the user ``operator``.
        inner: mqadmin, as the user of the brokers.
        stranger: mqadmin, as a user that does not exist.
    """

    def __init__(
        self,
        folder: Path,
        controller: ControllerProcess,
        port: int,
        version: str,
        *,
        settings: tuple[str, ...],
        tls: tuple[str, ...],
        options: str,
    ) -> None:
        self._folder, self._settings, self._tls = folder, settings, tls
        self._rig = Rig(folder, options, version)
        self.controller = controller
        self.address = controller.address
        self.names = f"127.0.0.1:{port}"
        self.spare = f"127.0.0.1:{port + 3}"
        self.ports = {1: port + 8, 2: port + 13, 3: port + 18}
        self.admin, self.inner, self.stranger = self._admins = [
            MqAdmin(self._home(user), options, version)
            for user in ("operator", "broker", "stranger")
        ]

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
        for one in (*_FAST, _PROVIDER, *self._settings, secret):
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

    def client(self, *words: str) -> int:
        """
        Runs a producer or a consumer as the user ``reader``; returns its exit code.
        """
        command = self._begin(words, "reader", SECRET.format("reader"))
        try:
            return command.wait(READY_S)
        finally:
            # It may hang; a process that has ended is not touched.
            command.kill()
            command.wait()

    def await_refusal(
        self, text: str, *words: str, user: str, secret: str = ""
    ) -> None:
        """
        Runs a producer or a consumer until it prints this text, and no longer: threads
        of RocketMQ's client outlive an error. One that ended without the text runs
        again: on a busy machine its call may time out before it has an answer.

        Args:
            text: of a line.
            words: of the client.
            user: its name.
            secret: of the user, if not its own one.
        """
        path = self._folder / "refused-client.txt"
        with path.open("wb") as output:
            known = secret or SECRET.format(user)
            command = self._begin(words, user, known, output)

            def is_printed() -> bool | None:
                nonlocal command
                if text in path.read_text():
                    return True
                if command.poll() is not None:
                    command = self._begin(words, user, known, output)
                return None

            try:
                until(is_printed)
            finally:
                command.kill()
                command.wait()

    def _begin(
        self,
        words: tuple[str, ...],
        user: str,
        secret: str,
        output: IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:
        keys = (f"accessKey={user}", f"secretKey={secret}")
        more = (f"namesrv={self.names}", *keys)
        return self._rig.begin(*words, *more, output=output)

    def log_of(self, number: int, name: str) -> str:
        """
        Returns what a broker has said in one of its logs.
        """
        logs = self._folder / f"broker-{number}" / "logs" / "rocketmqlogs"
        return (logs / f"{name}.log").read_text(errors="replace")

    def stop(self) -> None:
        """
        Stops all processes of RocketMQ.
        """
        self._rig.stop()
        for one in self._admins:
            one.close()


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


@contextmanager
def guarded(
    folder: Path, version: str, *, has_tls: bool = False, settings: tuple[str, ...] = ()
) -> Iterator[GuardedSet]:
    """
    A set whose controller enforces, for the duration of the block: users, and TLS if
    that is wanted. No broker runs yet.

    Args:
        folder: the working directory of all processes.
        version: of RocketMQ; it was fetched with its processes.
        has_tls: whether all of them speak TLS only.
        settings: of each broker, beside those that all of them need.
    """
    key, file = folder / "cluster.key", folder / "controller.toml"
    assert 0 == run("admin", "user", "newKey", key).exit_code
    port = free_ports()
    lines = f'keyFile = "{key}"\nnameserver = "127.0.0.1:{port}"\n'
    options, tls = "", tuple[str, ...]()
    if has_tls:
        authority = Authority(folder)
        certificate, private = authority.issue("server")
        options = java_options(authority, certificate, private)
        tls = ("--tls-authorities", str(authority.path))
        lines += (
            f'tlsMode = "enforcing"\ntlsCertificate = "{certificate}"\n'
            f'tlsKey = "{private}"\ntlsAuthorities = "{authority.path}"\n'
            "tlsClient = true\n"
        )
    file.write_text(lines)
    words = ("-c", file, "--store", folder / "records")
    listen = f"127.0.0.1:{port + 1}"
    with ControllerProcess(*words, listen=listen) as controller:
        controller.wait_for("this controller leads")
        admin = ("admin", *tls)
        for user, role in _ROLES.items():
            own = folder / f"{user}.yml"
            own.write_text(f"accessKey: {user}\nsecretKey: {SECRET.format(user)}\n")
            own.chmod(0o600)
            more = (f"--role={role}", "--from", own, "--key-file", key)
            added = run(*admin, "user", "add", user, *more, "-a", controller.address)
            assert 0 == added.exit_code, added.output
        mode = ("-k", "authentication", "-v", "enforcing")
        at = ("-a", controller.address)
        assert 0 == run(*admin, "updateControllerConfig", *at, *mode).exit_code
        made = GuardedSet(
            folder,
            controller,
            port,
            version,
            settings=settings,
            tls=tls,
            options=options,
        )
        try:
            yield made
        finally:
            made.stop()
