"""
The gate of a broker: a real controller says who sent each request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lib.access_fixture import client_of, secret_of
from lib.controller.controller_server import Running, running
from lib.free_ports import free_port
from lib.remoting.virtual_time_loop import run, until

from pystore.access.key_file import KeyFile, new_key
from pystore.access.remote_gate import RemoteGate
from pystore.access.roles import ROLES_OF_CODE, UserRole
from pystore.access.signer import RequestSigner
from pystore.access.user_codec import UserAction, UserChange, seal_change
from pystore.broker.config import NodeConfig
from pystore.broker.node import BrokerNode
from pystore.controller.client.client import ControllerClient
from pystore.controller.protocol.calls import SendHeartbeat
from pystore.controller.protocol.client_codec import command_of
from pystore.controller.server.config import ControllerConfig
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.controller_headers import (
    ApplyBrokerIdRequest,
    ElectMasterRequest,
    RegisterBrokerToControllerRequest,
)
from pystore.remoting.fields import encode_fields
from pystore.remoting.operator_headers import ChangeUserRequest
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer
from pystore.remoting.signature import Credentials

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CODES = (
    RequestCode.GET_BROKER_EPOCH_CACHE,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
    RequestCode.HAND_OVER,
)
BROKER = RequestSigner(lambda: Credentials("broker", secret_of("broker")))


@dataclass
class GuardedBroker:
    """
    A broker's port, and the requests that passed.
    """

    controller: Running
    address: str = ""
    carried_out: list[RemotingCommand] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    async def take(self, request: RemotingCommand, _: Connection) -> Reply:
        """
        Answers any request.
        """
        self.carried_out.append(request)
        return Reply()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """
    A key file.
    """
    path = tmp_path / "cluster.key"
    path.write_text(new_key())
    path.chmod(0o600)
    return path


@asynccontextmanager
async def controller(key_file: Path, mode: str) -> AsyncIterator[Running]:
    """
    A controller with a user of each role; the broker's are bound.
    """
    config = ControllerConfig(listen="127.0.0.1:0", key_file=str(key_file))
    keys = KeyFile.read(key_file)
    async with running(None, config) as at:
        for role in UserRole:
            name, is_bound = role.value, role is not UserRole.READER
            one = UserChange(
                UserAction.ADD, name, 1, secret_of(name), frozenset({role}), is_bound
            )
            header, body = ChangeUserRequest(name), seal_change(one, keys)
            assert 0 == (await at.ask(RequestCode.CHANGE_USER, header, body)).code
        body = f"authentication={mode}\n".encode()
        code = RequestCode.UPDATE_CONTROLLER_CONFIG
        assert 0 == (await at.ask(code, body=body)).code
        yield at


@asynccontextmanager
async def broker(
    key_file: Path, mode: str = "enforcing"
) -> AsyncIterator[GuardedBroker]:
    """
    A port under such a controller.
    """
    async with (
        controller(key_file, mode) as at,
        ControllerClient((at.address,), signs=BROKER.sign) as client,
    ):
        made = GuardedBroker(at)
        gate = RemoteGate(client.verify, say=made.said.append)
        handlers = gate.guard(dict.fromkeys(CODES, made.take))
        async with RemotingServer(handlers) as server:
            host, port = await server.start()
            made.address = f"{host}:{port}"
            yield made


@pytest.mark.parametrize("role", list(UserRole), ids=lambda role: role.value)
def test_each_role_may_send_its_codes_to_a_broker(
    key_file: Path, role: UserRole
) -> None:
    """
    One-way, too.
    """

    async def main() -> None:
        async with broker(key_file) as at, client_of(role.value) as client:
            for code in CODES:
                is_allowed = role in ROLES_OF_CODE[code]
                request = RemotingCommand(code)
                await client.send(at.address, request)
                answer = await client.call(at.address, request)
                assert (0 if is_allowed else 16) == answer.code, code
                await until(lambda: len(at.carried_out) == 2 * is_allowed)  # noqa: B023
                assert all(one.user == role.value for one in at.carried_out)
                at.carried_out.clear()

    run(main())


def test_a_stranger_is_refused_by_a_broker(key_file: Path) -> None:
    """
    Unsigned, with another secret, and without a binding where one is needed.
    """
    own = Credentials("operator", secret_of("operator"))

    async def main() -> None:
        async with broker(key_file) as at:
            for client in (RemotingClient(), client_of("operator", "not the secret")):
                async with client:
                    for code in CODES:
                        answer = await client.call(at.address, RemotingCommand(code))
                        assert (16, "the request is refused") == (
                            answer.code,
                            answer.remark,
                        )
            unbound = RequestSigner(lambda: own)
            signs = lambda request, _: unbound.sign(request, _Unbound())  # type: ignore[arg-type]  # noqa: E731
            async with RemotingClient(signs=signs) as client:
                request = RemotingCommand(RequestCode.HAND_OVER)
                answer = await client.call(at.address, request)
                assert ResponseCode.NO_PERMISSION == answer.code
                assert "the request is refused" == answer.remark
            (line,) = at.said
            assert "127.0.0.1 is refused: it is not bound" in line
            assert [] == at.carried_out

    run(main())


class _Unbound:
    """
    A connection that no challenge binds.
    """

    binding = None


def test_the_notices_of_a_controller_that_enforces_are_signed(key_file: Path) -> None:
    """
    A broker hears of its master at once, not with its next question.
    """

    async def main() -> None:
        async with broker(key_file) as at, client_of("broker") as client:

            async def ask(code: RequestCode, header: DataclassInstance) -> None:
                request = RemotingCommand(code, ext_fields=encode_fields(header))
                answer = await client.call(at.controller.address, request)
                assert ResponseCode.SUCCESS == answer.code, answer

            apply = ApplyBrokerIdRequest("c", "b", 1, f"{at.address};1")
            register = RegisterBrokerToControllerRequest("c", "b", 1, at.address)
            await ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, apply)
            await ask(RequestCode.CONTROLLER_REGISTER_BROKER, register)
            beat = command_of(SendHeartbeat("c", "b", 1, at.address), 0)
            assert 0 == (await client.call(at.controller.address, beat)).code
            elect = ElectMasterRequest("c", "b", 1)
            await ask(RequestCode.CONTROLLER_ELECT_MASTER, elect)
            await until(lambda: at.carried_out)
            notice = at.carried_out[0]
            assert RequestCode.NOTIFY_BROKER_ROLE_CHANGED == notice.code
            assert "pystore-controller" == notice.user

    run(main())


@pytest.mark.parametrize("mode", ["off", "permissive"])
def test_the_mode_of_the_controllers_holds_for_brokers(
    key_file: Path, mode: str
) -> None:
    """
    What they do not refuse, a broker does not refuse.
    """

    async def main() -> None:
        async with broker(key_file, mode) as at, RemotingClient() as client:
            for code in CODES:
                assert 0 == (await client.call(at.address, RemotingCommand(code))).code
            assert ["", "", ""] == [one.user for one in at.carried_out]

    run(main())


def test_without_a_controller_a_request_is_refused() -> None:
    """
    Nothing is done for an unknown sender.
    """

    async def main() -> None:
        address = f"127.0.0.1:{free_port()}"
        async with ControllerClient((address,), signs=BROKER.sign) as client:
            done: list[RemotingCommand] = []

            async def take(request: RemotingCommand, _: Connection) -> Reply:
                done.append(request)
                return Reply()

            said: list[str] = []
            gate = RemoteGate(client.verify, say=said.append)
            handlers = gate.guard({RequestCode.HAND_OVER: take})
            async with RemotingServer(handlers) as server, client_of("operator") as one:
                host, port = await server.start()
                request = RemotingCommand(RequestCode.HAND_OVER)
                answer = await one.call(f"{host}:{port}", request, 20_000)
                assert ResponseCode.SERVICE_NOT_AVAILABLE == answer.code
                assert address not in (answer.remark or "")
                assert [] == done
            (line,) = said
            assert address in line

    run(main())


def test_a_node_with_credentials_registers_and_guards_its_port(
    key_file: Path, tmp_path: Path
) -> None:
    """
    The node itself; the controller's own question about its process is answered.
    """

    async def main() -> None:
        async with controller(key_file, "enforcing") as at:
            config = NodeConfig(
                "c",
                "b",
                f"127.0.0.1:{free_port()}",
                tmp_path / "store",
                (at.address,),
                ha_port=free_port(),
                signs=BROKER.sign,
            )
            async with BrokerNode(config, segment_size=1 << 20) as node:
                await node.registered()
                request = RemotingCommand(RequestCode.GET_BROKER_EPOCH_CACHE)
                async with RemotingClient() as stranger, client_of("reader") as reader:
                    answer = await stranger.call(config.address, request)
                    assert ResponseCode.NO_PERMISSION == answer.code
                    assert {} == dict(answer.ext_fields)
                    assert await _told_of_all(stranger, config.address) == {
                        (ResponseCode.NO_PERMISSION, "the request is refused")
                    }
                    answer = await reader.call(config.address, request)
                    assert ResponseCode.SUCCESS == answer.code
                own = at.controller.users.own()
                assert own is not None
                signer = RequestSigner(lambda: own)
                async with RemotingClient(signs=signer.sign) as asking:
                    answer = await asking.call(config.address, request)
                    assert ResponseCode.SUCCESS == answer.code

    run(main())


async def _told_of_all(client: RemotingClient, address: str) -> set[object]:
    """
    The answers to every code, and to those that no server has.
    """
    codes = {*RequestCode, 0, 9_999} - {RequestCode.GET_CHALLENGE}
    answers = [await client.call(address, RemotingCommand(int(code))) for code in codes]
    return {(one.code, one.remark) for one in answers}
