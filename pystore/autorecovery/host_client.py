"""
The hosts as the leading controller tells them, and requests to their ports, from the
threads of AutoRecovery.

It implements `pystore.autorecovery.host_peers.HostPeers`. A host is known by the
address of its port, which no other one has, and which it keeps.

Source: AR-R6; docs/autorecovery.md, *Replacing a replica*; docs/controller.md, *Hosts*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pystore.autorecovery.controllers import LeadingControllers
from pystore.autorecovery.host_peers import CarriedReplica, NewReplica, RecoveryHost
from pystore.controller.client.client import ControllerClient
from pystore.controller.client.host_descriptions import describe_hosts, forget_host
from pystore.controller.protocol.host_descriptions import HostDescription, decode_hosts
from pystore.errors import ClosedError, InvalidError, UnavailableError
from pystore.net.tls import ClientTls
from pystore.remoting.admission import Signs
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.fields import encode_fields
from pystore.remoting.host_headers import AddBrokerRequest, RemoveBrokerRequest

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["RemoteHosts"]

_TIMEOUT_MS = 8_000  # a host answers an order after 4 s, done or not


class RemoteHosts:
    """
    The hosts of the controllers; a context manager. Any thread.

    Args:
        controllers: tell of all hosts; open for longer than this.
        signs: signs each request; ``None``: nothing is signed.
        tls: of the connections; ``None``: plain bytes.
        timeout_ms: of a call.
        say: receives one line for people about each failed connection.

    Attributes:
        remoting: the connections; of the loop of the controllers.
    """

    def __init__(
        self,
        controllers: LeadingControllers,
        *,
        signs: Signs[Connection] | None = None,
        tls: ClientTls | None = None,
        timeout_ms: int = _TIMEOUT_MS,
        say: Callable[[str], object] = bool,
    ) -> None:
        self._controllers = controllers
        self._timeout_ms = timeout_ms
        self.remoting = RemotingClient(say=say, signs=signs, tls=tls)

    def __enter__(self) -> RemoteHosts:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """
        Closes all connections; pending calls fail. Idempotent.
        """
        self._controllers.call(lambda _: self.remoting.close())

    def all_hosts(self) -> Mapping[str, RecoveryHost]:
        """
        See `HostPeers.all_hosts`. A host that is silent is known as long as it has a
        record, or one controller leads that has heard of it.

        Raises:
            UnavailableError: the controllers do not answer, or the leading one has led
                for too short a time to know all hosts.
        """
        return self._controllers.call(_all_hosts)

    def told_hosts(self) -> Mapping[str, RecoveryHost]:
        """
        As `all_hosts`, for people: also from a controller that does not know all hosts
        yet. One that is told as not alive may be alive then.

        Raises:
            UnavailableError: the controllers do not answer.
        """
        return self._controllers.call(_told_hosts)

    def add(self, host: str, replica: NewReplica) -> None:
        """
        See `HostPeers.add`. The host chooses port and place of the store.

        Raises:
            InvalidError: it refused.
            UnavailableError: it gave no definite answer.
        """
        settings = {
            "brokerClusterName": replica.cluster,
            "brokerName": replica.set_name,
            "syncFromLastFile": str(replica.is_from_last_file).lower(),
        }
        body = "".join(f"{name}={value}\n" for name, value in settings.items())
        answer = self._ask(
            host,
            RemotingCommand(
                RequestCode.ADD_BROKER,
                ext_fields=encode_fields(AddBrokerRequest()),
                body=body.encode(),
            ),
        )
        if answer.code == ResponseCode.SUCCESS:
            return
        if not self._describe(host).carries(replica.cluster, replica.set_name):
            raise _refusal(host, RequestCode.ADD_BROKER, answer)

    def remove(
        self, host: str, cluster: str, set_name: str, *, deletes_store: bool
    ) -> None:
        """
        See `HostPeers.remove`. A master that no other member takes over from stays.

        Raises:
            InvalidError: it refused.
            UnavailableError: it gave no definite answer.
        """
        header = RemoveBrokerRequest(set_name, cluster, 0, deletes_store=deletes_store)
        request = RemotingCommand(
            RequestCode.REMOVE_BROKER, ext_fields=encode_fields(header)
        )
        answer = self._ask(host, request)
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.BROKER_NOT_EXIST):
            raise _refusal(host, RequestCode.REMOVE_BROKER, answer)

    def forget(self, host: str) -> None:
        """
        See `HostPeers.forget`. Its record goes, so that no later controller knows it.

        Raises:
            InvalidError: it still runs, or a set needs it.
            UnavailableError: as `all_hosts`.
        """
        known = self.all_hosts().get(host)
        if known is not None and known.is_alive:
            raise InvalidError(
                f"host {host} still runs: stop it, then do this again once the "
                "controllers know it as not alive"
            )
        self._controllers.call(lambda client: forget_host(client, host))

    def _describe(self, host: str) -> HostDescription:
        request = RemotingCommand(RequestCode.DESCRIBE_HOST)
        answer = self._ask(host, request)
        if answer.code != ResponseCode.SUCCESS:
            raise _refusal(host, RequestCode.DESCRIBE_HOST, answer)
        found = decode_hosts(answer.body)
        if len(found) != 1:
            raise UnavailableError(f"{host} describes {len(found)} hosts: expected one")
        return found[0]

    def _ask(self, host: str, request: RemotingCommand) -> RemotingCommand:
        try:
            return self._controllers.call(
                lambda _: self.remoting.call(host, request, self._timeout_ms)
            )
        except ClosedError as error:
            # By another thread.
            raise UnavailableError(f"{host}: no answer: {error}") from error


async def _all_hosts(client: ControllerClient) -> dict[str, RecoveryHost]:
    found: dict[str, RecoveryHost] = {}
    async for page in describe_hosts(client):
        if not page.may_replace:
            raise UnavailableError(
                f"the leading controller has led for {page.led_ms // 1000} s: it does "
                "not know all hosts yet"
            )
        found |= {one.address: _host(one) for one in page.hosts}
    return found


async def _told_hosts(client: ControllerClient) -> dict[str, RecoveryHost]:
    return {
        one.address: _host(one)
        async for page in describe_hosts(client)
        for one in page.hosts
    }


def _host(one: HostDescription) -> RecoveryHost:
    return RecoveryHost(
        one.address,
        one.rack,
        one.free_bytes,
        one.used_percent,
        tuple(
            CarriedReplica(it.cluster, it.set_name, it.broker_id or None)
            for it in one.replicas
        ),
        one.is_alive,
    )


def _refusal(
    host: str, code: RequestCode, answer: RemotingCommand
) -> InvalidError | UnavailableError:
    text = " ".join((answer.remark or f"code {answer.code}").split())[:300]
    line = f"host {host} refuses {code.name}: {text}"
    if answer.code in (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE):
        # It may do it later.
        return UnavailableError(line)
    return InvalidError(line)
