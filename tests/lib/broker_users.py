"""
Brokers with credentials under a controller with users.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lib.access_fixture import client_of, secret_of
from lib.controller.controller_server import Running, running
from pystore.access.key_file import KeyFile
from pystore.access.roles import UserRole
from pystore.access.signer import RequestSigner
from pystore.access.user_codec import UserAction, UserChange, seal_change
from pystore.controller.server.config import ControllerConfig
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.operator_headers import ChangeUserRequest
from pystore.remoting.signature import Credentials

__all__ = ["BROKER", "change", "known", "switch", "with_users"]

BROKER = UserRole.BROKER.value


@asynccontextmanager
async def with_users(key_file: Path, mode: str = "off") -> AsyncIterator[Running]:
    """
    A controller with a user of each role.
    """
    config = ControllerConfig(listen="127.0.0.1:0", key_file=str(key_file))
    async with running(None, config) as at:
        for role in UserRole:
            await change(at, key_file, UserAction.ADD, role.value, 1)
        await switch(at, mode)
        yield at


async def change(
    at: Running, key_file: Path, action: UserAction, name: str, version: int
) -> None:
    """
    Changes a user as an operator's command does.
    """
    secret = secret_of(f"{name}{'' if version == 1 else version}")
    one = UserChange(action, name, version, secret, frozenset({UserRole(name)}))
    sealed = seal_change(one, KeyFile.read(key_file))
    answer = await at.ask(RequestCode.CHANGE_USER, ChangeUserRequest(name), sealed)
    assert answer.code == 0, answer


async def switch(at: Running, mode: str) -> None:
    """
    Sets the mode, as an operator.
    """
    body = f"authentication={mode}\n".encode()
    request = RemotingCommand(RequestCode.UPDATE_CONTROLLER_CONFIG, body=body)
    async with client_of(UserRole.OPERATOR.value) as operator:
        answer = await operator.call(at.address, request, 5_000)
    assert answer.code == 0, answer


def known(secret: str = secret_of(BROKER)) -> dict[str, Any]:
    """
    The settings of a broker with credentials.
    """
    own = Credentials(BROKER, secret)
    return {"credentials": lambda: own, "signs": RequestSigner(lambda: own).sign}
