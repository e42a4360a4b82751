"""
A host port: nodes that come and go at run time, under a real controller.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lib.access_fixture import client_of, secret_of
from lib.controller.controller_server import Running, running
from lib.free_ports import free_port
from lib.hosted_nodes import WAIT_S, holds
from lib.spare_hosts import node_conf, spare_text

from pystore.access.key_file import KeyFile, new_key
from pystore.access.roles import UserRole
from pystore.access.signer import RequestSigner
from pystore.access.user_codec import UserAction, UserChange, seal_change
from pystore.broker import host_port
from pystore.broker.host import BrokerHost
from pystore.broker.settings import host_of_toml
from pystore.controller.client.client import ControllerClient
from pystore.controller.client.host_descriptions import describe_hosts
from pystore.controller.protocol.host_descriptions import (
    HostDescription,
    HostedReplica,
    decode_hosts,
)
from pystore.controller.server.config import ControllerConfig
from pystore.ha.insync.ack import Ack
from pystore.ha.role import Role
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.message.message import Message
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.fields import encode_fields
from pystore.remoting.host_headers import AddBrokerRequest, RemoveBrokerRequest
from pystore.remoting.json_body import parse_body
from pystore.remoting.operator_headers import ChangeUserRequest
from pystore.remoting.signature import Credentials
from pystore.store.commit_log import CommitLog

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Spare:
    """
    A host at work, which began without a node.

    Attributes:
        host: the host.
        address: of its port.
        root: of its stores.
        said: its lines.
        client: an operator.
    """

    def __init__(self, text: str, root: Path) -> None:
        self.root = root
        self.said: list[str] = []
        config = host_of_toml(text, "f")
        assert config.port is not None
        self.address = config.port.address
        self.host = BrokerHost(config, self.said.append)
        self.client = RemotingClient()
        self._ready: list[str] = []
        self._task = asyncio.create_task(
            self.host.run(host_ready=self._ready.append),
        )

    async def listens(self) -> None:
        """
        Waits until it does.
        """
        await holds(lambda: self._ready or self._task.done())
        assert self._ready, self._task.exception()

    async def ask(
        self,
        code: RequestCode,
        header: DataclassInstance | None = None,
        body: str = "",
        client: RemotingClient | None = None,
    ) -> RemotingCommand:
        """
        Returns the answer to a request.
        """
        request = RemotingCommand(
            code,
            ext_fields={} if header is None else encode_fields(header),
            body=body.encode(),
        )
        return await (client or self.client).call(self.address, request, 10_000)

    async def add(self, name: str = "b", **more: str | int) -> RemotingCommand:
        """
        Adds a node.
        """
        return await self.ask(
            RequestCode.ADD_BROKER, AddBrokerRequest(), node_conf(name, **more)
        )

    async def remove(
        self, broker_id: int, name: str = "b", **more: bool
    ) -> RemotingCommand:
        """
        Removes a node.
        """
        header = RemoveBrokerRequest(name, "c", broker_id, **more)
        return await self.ask(RequestCode.REMOVE_BROKER, header)

    async def described(self) -> HostDescription:
        """
        Returns what it says of itself.
        """
        (one,) = decode_hosts((await self.ask(RequestCode.DESCRIBE_HOST)).body)
        return one

    async def await_role(self, role: Role, name: str = "b", members: int = 1) -> Any:
        """
        Waits until a node has this role in a set of so many; returns its replica.
        """

        def is_so() -> bool:
            hosted = self.host.nodes.get(name)
            replica = None if hosted is None else hosted.node.replica
            if replica is None:
                return False
            now = replica.standing()
            return now.role is role and len(now.agreed.members) == members

        await holds(is_so)
        return self.host.nodes[name].node.replica

    async def end(self) -> None:
        """
        Ends it as a signal does.
        """
        await self.client.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def spare(folder: Path, controller: str, **more: str) -> AsyncIterator[Spare]:
    """
    A host without a node; its stores are in ``folder``.
    """
    text = spare_text(folder, controller, **more)
    folder.with_suffix(".toml").write_text(text)
    found = Spare(text, folder)
    try:
        await found.listens()
        yield found
    finally:
        await found.end()


def with_spares(
    folder: Path, count: int, test: Callable[..., Any], **more: str
) -> None:
    """
    Runs a test with a controller and so many hosts.
    """

    async def main() -> None:
        async with AsyncExitStack() as stack:
            at = await stack.enter_async_context(running())
            hosts = [
                await stack.enter_async_context(
                    spare(folder / f"h{number}", at.address, **more)
                )
                for number in range(count)
            ]
            await test(at, *hosts)

    asyncio.run(main())


def test_a_spare_takes_a_node_and_has_it_after_a_restart(tmp_path: Path) -> None:
    """
    It tells controllers what it is and what it carries.
    """

    async def main() -> None:
        async with running() as at, ControllerClient([at.address]) as client:
            text = spare_text(tmp_path / "h", at.address, rack="r1")
            for _ in range(2):
                one = Spare(text, tmp_path / "h")
                await one.listens()
                answer = await one.add()
                if answer.code == ResponseCode.SUCCESS:
                    done = parse_body(answer.body)
                    assert isinstance(done, dict)
                    assert str(tmp_path / "h" / "b") == done["store"]
                else:
                    assert "this host has a replica of b of c" in str(answer.remark)
                await one.await_role(Role.MASTER)
                address = one.host.nodes["b"].settings.config.address
                carried = HostedReplica("c", "b", 1, address, "master")

                async def told() -> list[HostDescription]:
                    return [
                        each async for page in describe_hosts(client)
                        for each in page.hosts
                    ]  # fmt: skip

                async with asyncio.timeout(WAIT_S):
                    while [(carried,)] != [each.replicas for each in await told()]:
                        await asyncio.sleep(0.05)
                (known,) = await told()
                assert (one.address, "r1") == (known.address, known.rack)
                assert 0 < known.free_bytes <= known.total_bytes
                assert (carried,) == (await one.described()).replicas
                await one.end()

    asyncio.run(main())


def test_two_requests_for_one_set_at_once_make_one_replica(tmp_path: Path) -> None:
    """
    Whichever comes first; the other one says which node there is. Other sets get ports
    of their own.
    """

    async def test(_: Running, one: Spare) -> None:
        answers = await asyncio.gather(*(one.add() for _ in range(5)), one.add("x"))
        assert [0, 1, 1, 1, 1] == sorted(each.code for each in answers[:5])
        assert 0 == answers[5].code
        for each in answers[:5]:
            assert each.code == 0 or str(each.remark).startswith(
                "this host has a replica of b of c: its node b at 127.0.0.1:"
            )
        ports = [
            each.settings.config.address.rpartition(":")[2]
            for each in one.host.nodes.values()
        ]
        assert 2 == len(set(ports))

    with_spares(tmp_path, 1, test)


def test_a_master_hands_over_before_it_is_removed(tmp_path: Path) -> None:
    """
    What was acknowledged as `leader` is on the next master; the store's files stay.
    """

    async def test(_: Running, one: Spare, two: Spare) -> None:
        assert 0 == (await one.add()).code
        await one.await_role(Role.MASTER)
        assert 0 == (await two.add()).code
        replica = await one.await_role(Role.MASTER, members=2)
        await holds(lambda: replica.standing().lease_left_ms > 0)
        result = await asyncio.to_thread(
            replica.append, [Message("t", b"x")], Ack.LEADER
        )
        answer = await one.remove(1, is_dry_run=True)
        assert (0, {"b"}) == (answer.code, set(one.host.nodes))
        answer = await one.remove(1)
        assert (0, "") == (answer.code, answer.remark or "")
        assert {} == one.host.nodes
        heir = await two.await_role(Role.MASTER)
        assert result.appended.end <= heir.log.log().end_offset
        with CommitLog(one.root / "b") as log:
            assert log.recovery.is_clean
        assert () == (await one.described()).replicas
        answer = await one.remove(1)
        assert ResponseCode.BROKER_NOT_EXIST == answer.code

    with_spares(tmp_path, 2, test)


def test_the_only_member_is_removed_by_force_alone(tmp_path: Path) -> None:
    """
    After it nothing would serve the set. With its store, if the operator wants that.
    """

    async def test(_: Running, one: Spare) -> None:
        assert 0 == (await one.add()).code
        await one.await_role(Role.MASTER)
        answer = await one.remove(1)
        assert ResponseCode.SYSTEM_ERROR == answer.code
        assert "no other broker of its set is in sync" in str(answer.remark)
        answer = await one.remove(2, is_forced=True)
        assert ResponseCode.BROKER_NOT_EXIST == answer.code
        assert "its id is 1" in str(answer.remark)
        answer = await one.remove(0, is_forced=True, deletes_store=True)
        assert 0 == answer.code
        assert not (one.root / "b").exists()
        # The set can be added again: its id is another one.
        assert 0 == (await one.add()).code

    with_spares(tmp_path, 1, test)


def test_a_node_that_cannot_start_is_not_kept(tmp_path: Path) -> None:
    """
    Its port is in use: the host goes on without it, and takes it at another one.
    """

    async def test(_: Running, one: Spare) -> None:
        port = free_port()
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
        answer = await one.add(listenPort=port)
        assert ResponseCode.SYSTEM_ERROR == answer.code
        assert "remoting cannot listen" in str(answer.remark)
        assert {} == one.host.nodes
        assert [] == list((one.root / "nodes").glob("*.conf"))
        assert 0 == (await one.add()).code
        server.close()

    with_spares(tmp_path, 1, test)


def test_a_port_that_another_program_uses_is_passed_over(tmp_path: Path) -> None:
    """
    Otherwise the same request would fail again and again.
    """

    async def test(_: Running, one: Spare) -> None:
        config = host_of_toml((tmp_path / "h0.toml").read_text(), "f")
        assert config.port is not None
        assert config.port.ports is not None
        first, _last = config.port.ports
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", first + 1)
        answer = await one.add()
        done = parse_body(answer.body)
        assert isinstance(done, dict)
        assert f"127.0.0.1:{first + 2}" == done["address"]
        server.close()

    with_spares(tmp_path, 1, test)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("", "brokerName is missing"),
        (node_conf(store="/elsewhere"), "stores of added nodes are in"),
        (node_conf(brokerIP1="10.0.0.9"), "have the address of the host"),
        (node_conf(credentialsFile="/x"), "the host decides it"),
        ("brokerName=\\u00zz", "the request of"),
    ],
)
def test_what_the_host_does_not_allow_changes_nothing(
    tmp_path: Path, body: str, error: str
) -> None:
    """
    One line, which the operator gets.
    """

    async def test(_: Running, one: Spare) -> None:
        answer = await one.ask(RequestCode.ADD_BROKER, AddBrokerRequest(), body)
        assert ResponseCode.SYSTEM_ERROR == answer.code
        assert error in str(answer.remark)
        assert "\n" not in str(answer.remark)
        assert {} == one.host.nodes

    with_spares(tmp_path, 1, test)


def test_a_file_of_the_host_names_the_settings(tmp_path: Path) -> None:
    """
    As RocketMQ's mqadmin asks; only below the store root.
    """

    async def test(_: Running, one: Spare) -> None:
        for folder in (tmp_path, one.root):
            (folder / "b.conf").write_text(node_conf())
        answers = [
            await one.ask(RequestCode.ADD_BROKER, AddBrokerRequest(str(place)))
            for place in (tmp_path / "b.conf", one.root / "x", one.root / "b.conf")
        ]
        assert [1, 1, 0] == [each.code for each in answers]
        assert "this host reads such files below" in str(answers[0].remark)
        assert "No such file" in str(answers[1].remark)

    with_spares(tmp_path, 1, test)


def test_an_order_that_takes_long_is_carried_out_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The answer says so; the next order waits for it, and meets what it did.
    """
    init = ReplicaLog.__init__

    def slow(*words: Any, **options: Any) -> None:
        while not opens:
            time.sleep(0.01)
        init(*words, **options)

    opens: list[str] = []
    monkeypatch.setattr(ReplicaLog, "__init__", slow)
    monkeypatch.setattr(host_port, "_ANSWER_S", 0.2)

    async def test(_: Running, one: Spare) -> None:
        answer = await one.add()
        assert (0, b"") == (answer.code, answer.body)
        assert "the node is still being started" == answer.remark
        asked = asyncio.create_task(one.add())
        await asyncio.sleep(0)
        opens.append("now")
        await asked
        await one.await_role(Role.MASTER)
        assert ["b.conf"] == [each.name for each in (one.root / "nodes").glob("*.*")]
        assert "has a replica of b" in str((await one.add()).remark)

    with_spares(tmp_path, 1, test)


def test_a_configured_node_stays_removed(tmp_path: Path) -> None:
    """
    Though the file has it: a line says so at each start.
    """

    async def main() -> None:
        async with running() as at:
            node = (
                f'[[node]]\nbrokerName = "b"\nbrokerClusterName = "c"\n'
                f'address = "127.0.0.1:{free_port()}"\nstore = "{tmp_path / "b"}"\n'
                f'controllerAddr = "{at.address}"\n'
            )
            text = spare_text(tmp_path / "h", at.address) + node
            one = Spare(text, tmp_path / "h")
            await one.listens()
            await one.await_role(Role.MASTER)
            assert 0 == (await one.remove(1, is_forced=True)).code
            await one.end()
            one = Spare(text, tmp_path / "h")
            await one.listens()
            assert {} == one.host.nodes
            assert "node b was removed from this host" in one.said[0]
            assert (tmp_path / "b").exists()
            assert 0 == (await one.add()).code
            await one.end()
            one = Spare(text, tmp_path / "h")
            await one.listens()
            store = one.host.nodes["b"].settings.config.store
            assert tmp_path / "h" / "b" == store
            await one.end()

    asyncio.run(main())


def test_only_an_operator_changes_a_host(tmp_path: Path) -> None:
    """
    Under controllers that enforce: the others read at most.
    """

    async def main() -> None:
        key = tmp_path / "cluster.key"
        key.write_text(new_key())
        key.chmod(0o600)
        own = tmp_path / "broker.yml"
        own.write_text(f"accessKey: broker\nsecretKey: {secret_of('broker')}\n")
        own.chmod(0o600)
        config = ControllerConfig(listen="127.0.0.1:0", key_file=str(key))
        keys = KeyFile.read(key)
        async with running(None, config) as at:
            for role in UserRole:
                name = role.value
                one = UserChange(
                    UserAction.ADD, name, 1, secret_of(name), frozenset({role})
                )
                header, body = ChangeUserRequest(name), seal_change(one, keys)
                await at.ask(RequestCode.CHANGE_USER, header, body)
            code = RequestCode.UPDATE_CONTROLLER_CONFIG
            await at.ask(code, body=b"authentication=enforcing\n")
            async with spare(
                tmp_path / "h", at.address, credentialsFile=str(own)
            ) as host:
                codes = {}
                for name in ("broker", "reader", "operator"):
                    async with client_of(name) as client:
                        asked = [
                            await host.ask(RequestCode.DESCRIBE_HOST, client=client),
                            await host.ask(
                                RequestCode.ADD_BROKER,
                                AddBrokerRequest(),
                                node_conf(name),
                                client,
                            ),
                        ]
                        codes[name] = [each.code for each in asked]
                refused = ResponseCode.NO_PERMISSION
                assert [refused, refused] == codes["broker"]
                assert [0, refused] == codes["reader"]
                assert [0, 0] == codes["operator"]
                assert refused == (await host.add("stranger")).code
                # An added node proves itself as its host does.
                await host.await_role(Role.MASTER, "operator")
                async with (
                    ControllerClient(
                        [at.address],
                        signs=RequestSigner(
                            lambda: Credentials("reader", secret_of("reader"))
                        ).sign,
                    ) as client,
                    asyncio.timeout(WAIT_S),
                ):
                    while not [
                        each
                        async for page in describe_hosts(client)
                        for each in page.hosts
                    ]:
                        await asyncio.sleep(0.05)

    asyncio.run(main())
