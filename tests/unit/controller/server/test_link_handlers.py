"""
Who gets the secrets of links, from a running controller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lib.access_fixture import client_of, secret_of
from lib.controller.controller_server import Running, running
from lib.remoting.virtual_time_loop import run

from pystore.access.key_file import KeyFile, new_key
from pystore.access.link_secrets import LinkQuestion, open_answer
from pystore.access.mode import AccessMode
from pystore.access.roles import UserRole
from pystore.access.user_codec import UserAction, UserChange, seal_change
from pystore.controller.model.commands import Recovery
from pystore.controller.protocol.calls import ApplyBrokerId, RegisterBroker
from pystore.controller.protocol.client_codec import command_of
from pystore.controller.server.config import ControllerConfig
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.fields import encode_fields
from pystore.remoting.operator_headers import ChangeUserRequest, LinkSecretsRequest
from pystore.replicaset import Incarnation

START = Incarnation(5, bytes(range(16)))
BROKER = UserRole.BROKER.value
ASKED = LinkQuestion("c", "b", 1, START, "nonce")


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """A key file."""
    path = tmp_path / "cluster.key"
    path.write_text(new_key())
    path.chmod(0o600)
    return path


@asynccontextmanager
async def with_broker(key_file: Path) -> AsyncIterator[Running]:
    """A controller with a user of each role, and one registered broker."""
    config = ControllerConfig(listen="127.0.0.1:0", key_file=str(key_file))
    async with running(None, config) as at:
        for role in UserRole:
            one = UserChange(
                UserAction.ADD, role.value, 1, secret_of(role.value), frozenset({role})
            )
            sealed = seal_change(one, KeyFile.read(key_file))
            header = ChangeUserRequest(one.name)
            assert (await at.ask(RequestCode.CHANGE_USER, header, sealed)).code == 0
        async with client_of(BROKER) as client:
            for call in (
                ApplyBrokerId("c", "b", 1, "code"),
                RegisterBroker("c", "b", 1, "127.0.0.1:10911", Recovery(START)),
            ):
                answer = await client.call(at.address, command_of(call, 0))
                assert answer.code == 0, answer
        yield at


async def ask(at: Running, user: str = BROKER, **changes: Any) -> RemotingCommand:
    """Asks for secrets as a user."""
    given = {
        "cluster_name": "c",
        "broker_name": "b",
        "broker_id": 1,
        "incarnation": START.text,
        "nonce": "nonce",
        **changes,
    }
    fields = encode_fields(LinkSecretsRequest(**given))
    request = RemotingCommand(RequestCode.GET_LINK_SECRETS, ext_fields=fields)
    async with client_of(user) as client:
        return await client.call(at.address, request)


def test_a_registered_broker_gets_its_secrets_in_each_mode(key_file: Path) -> None:
    """Also while nothing is enforced: its links are proven before that."""

    async def main() -> None:
        async with with_broker(key_file) as at:
            answer = await ask(at)
            assert answer.code == 0, answer
            sealed = answer.body.decode().split("\n")
            found = open_answer(sealed, ASKED, secret_of(BROKER))
            assert found.mode is AccessMode.OFF

    run(main())


@pytest.mark.parametrize(
    ("user", "changes", "code"),
    [
        (UserRole.OPERATOR.value, {}, ResponseCode.NO_PERMISSION),
        (UserRole.READER.value, {}, ResponseCode.NO_PERMISSION),
        ("stranger", {}, ResponseCode.NO_PERMISSION),
        (BROKER, {"broker_id": 2}, ResponseCode.CONTROLLER_INVALID_REQUEST),
        (BROKER, {"broker_name": "x"}, ResponseCode.CONTROLLER_INVALID_REQUEST),
        (
            BROKER,
            {"incarnation": Incarnation(6, bytes(16)).text},
            ResponseCode.CONTROLLER_INVALID_REQUEST,
        ),
        (BROKER, {"incarnation": "5"}, ResponseCode.CONTROLLER_INVALID_REQUEST),
    ],
)
def test_others_get_none(
    key_file: Path, user: str, changes: dict[str, Any], code: ResponseCode
) -> None:
    """Neither another user nor a process that is not registered."""

    async def main() -> None:
        async with with_broker(key_file) as at:
            answer = await ask(at, user, **changes)
            assert (answer.code, answer.body) == (code, b"")

    run(main())
