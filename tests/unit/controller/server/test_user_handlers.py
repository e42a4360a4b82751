"""
Users at a running controller, over real sockets.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from lib.access_fixture import client_of, secret_of
from lib.controller.controller_server import Running, running
from lib.remoting.virtual_time_loop import move, run, until
from lib.values import replace

from pystore.access.key_file import KeyFile, new_key
from pystore.access.roles import UserRole
from pystore.access.user_codec import UserAction, UserChange, seal_change
from pystore.controller.server.config import ControllerConfig
from pystore.records.memory import MemorySpace
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_headers import GetReplicaInfoRequest
from pystore.remoting.operator_headers import ChangeUserRequest

LISTEN = "127.0.0.1:0"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """
    A key file.
    """
    path = tmp_path / "cluster.key"
    path.write_text(new_key())
    path.chmod(0o600)
    return path


def config(key_file: Path, mode: str = "off") -> ControllerConfig:
    """
    A controller with users.
    """
    return ControllerConfig(listen=LISTEN, key_file=str(key_file), authentication=mode)


def added(name: str) -> UserChange:
    """
    Adds the user of a role.
    """
    roles = frozenset({UserRole(name)})
    return UserChange(UserAction.ADD, name, 1, secret_of(name), roles)


async def change(at: Running, key_file: Path, one: UserChange) -> RemotingCommand:
    """
    Sends a change as an operator's command does.
    """
    sealed = seal_change(one, KeyFile.read(key_file))
    return await at.ask(RequestCode.CHANGE_USER, ChangeUserRequest(one.name), sealed)


@asynccontextmanager
async def enforcing(key_file: Path, space: MemorySpace) -> AsyncIterator[Running]:
    """
    A controller that enforces, with a user of each role.
    """
    async with running(space, config(key_file)) as at:
        for role in UserRole:
            assert 0 == (await change(at, key_file, added(role.value))).code
        body = b"authentication=enforcing\n"
        answer = await at.ask(RequestCode.UPDATE_CONTROLLER_CONFIG, body=body)
        assert 0 == answer.code, answer
        yield at


def test_a_mode_without_an_operator_is_refused(key_file: Path) -> None:
    """
    Else no one could change it back.
    """

    async def main() -> None:
        async with running(None, config(key_file)) as at:
            body = b"authentication=enforcing\n"
            code = RequestCode.UPDATE_CONTROLLER_CONFIG
            refused = await at.ask(code, body=body)
            assert ResponseCode.CONTROLLER_INVALID_REQUEST == refused.code
            assert "no user has the role operator" in (refused.remark or "")
            await change(at, key_file, added("broker"))
            assert 0 != (await at.ask(code, body=body)).code
            await change(at, key_file, added("operator"))
            assert 0 == (await at.ask(code, body=body)).code
            # From now on this one is a stranger.
            assert ResponseCode.NO_PERMISSION == (await at.ask(code, body=body)).code

    run(main())


def test_the_mode_and_the_users_outlive_the_controller(key_file: Path) -> None:
    """
    The next one enforces from its first request on.
    """
    space = MemorySpace()
    request = RemotingCommand(RequestCode.LIST_USERS)

    async def main() -> None:
        async with enforcing(key_file, space):
            pass
        async with running(space, config(key_file)) as at:
            assert (
                ResponseCode.NO_PERMISSION
                == (await at.client.call(at.address, request)).code
            )
            async with client_of("operator") as operator:
                answer = await operator.call(at.address, request)
        found = json.loads(answer.body)["users"]
        assert [one.value for one in UserRole] == [one["name"] for one in found]
        assert [["broker"], ["operator"], ["reader"]] == [one["roles"] for one in found]
        assert b"secret of" not in answer.body

    run(main())


def test_a_controller_that_waits_for_the_leadership_knows_the_users(
    key_file: Path,
) -> None:
    """
    Those of the leader, after its next look at the records.
    """
    space = MemorySpace()
    request = RemotingCommand(RequestCode.CONTROLLER_GET_METADATA_INFO)

    async def main() -> None:
        async with (
            enforcing(key_file, space) as leader,
            running(space, config(key_file), leads=False) as at,
            client_of("reader") as reader,
            client_of("stranger") as stranger,
        ):
            await until(lambda: at.controller.users.now)
            move(6_000)
            await until(
                lambda: at.controller.context.settings.now.authentication == "enforcing"
            )
            assert 0 == (await reader.call(at.address, request)).code
            refused = await stranger.call(at.address, request)
            assert ResponseCode.NO_PERMISSION == refused.code
            assert leader.controller.leads

    run(main())


def test_a_controller_that_cannot_verify_does_not_lead_those_that_do(
    key_file: Path,
) -> None:
    """
    It has no key file, and says so; one that has it leads.
    """
    space = MemorySpace()

    async def main() -> None:
        async with enforcing(key_file, space):
            pass
        bare = ControllerConfig(listen=LISTEN)
        async with running(space, bare, leads=False) as at:
            await until(lambda: any("needs keyFile" in one for one in at.said))
            await until(lambda: any("does not lead" in one for one in at.said))
            assert not at.controller.leads
            async with running(space, config(key_file), leads=False) as other:
                move(5_000)
                await until(lambda: other.controller.leads)
                assert not at.controller.leads

    run(main())


def test_an_accepted_change_names_its_user(key_file: Path) -> None:
    """
    In the events of the controller; a stranger's line has no name of a user.
    """

    async def main() -> None:
        async with (
            enforcing(key_file, MemorySpace()) as at,
            client_of("operator") as operator,
        ):
            sealed = seal_change(
                UserChange(UserAction.DELETE, "reader", 2), KeyFile.read(key_file)
            )
            fields = {"name": "reader"}
            request = RemotingCommand(
                RequestCode.CHANGE_USER, ext_fields=fields, body=sealed
            )
            assert 0 == (await operator.call(at.address, request)).code
            assert at.told[-1].text.startswith("operator at 127.0.0.1:")
            assert at.told[-1].text.endswith(" deleted user reader")

    run(main())


def test_a_stale_change_is_told_the_version(key_file: Path) -> None:
    """
    So a command can try again.
    """

    async def main() -> None:
        async with running(None, config(key_file)) as at:
            await change(at, key_file, added("broker"))
            again = replace(added("broker"), action=UserAction.RETIRE)
            answer = await change(at, key_file, again)
            assert ResponseCode.CONTROLLER_INVALID_REQUEST == answer.code
            assert {"version": "1"} == dict(answer.ext_fields)
            assert 0 == (await change(at, key_file, replace(again, version=2))).code

    run(main())


@pytest.mark.parametrize("body", [b"", b"rubbish", b"\x01" + bytes(100)])
def test_a_change_that_the_key_does_not_open_is_refused(
    key_file: Path, body: bytes
) -> None:
    """
    It tells no version.
    """

    async def main() -> None:
        async with running(None, config(key_file)) as at:
            header = ChangeUserRequest("broker")
            answer = await at.ask(RequestCode.CHANGE_USER, header, body)
            assert ResponseCode.CONTROLLER_INVALID_REQUEST == answer.code
            assert {} == dict(answer.ext_fields)

    run(main())


def test_a_set_is_served_to_each_role_as_the_table_says(key_file: Path) -> None:
    """
    A reader may ask for a set, and not change it.
    """

    async def main() -> None:
        async with (
            enforcing(key_file, MemorySpace()) as at,
            client_of("reader") as reader,
        ):
            header = GetReplicaInfoRequest("set")
            code = RequestCode.CONTROLLER_GET_REPLICA_INFO
            answer = await at.ask(code, header, client=reader)
            assert ResponseCode.NO_PERMISSION != answer.code
            code = RequestCode.TRANSFER_CONTROLLER
            refused = await at.ask(code, client=reader)
            assert ResponseCode.NO_PERMISSION == refused.code
            assert "user reader has no role for request 7105" == refused.remark

    run(main())
