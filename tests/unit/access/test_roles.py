"""
The table of codes and roles.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.access.roles import ROLES_OF_CODE, UserRole, roles_of
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand

TEXT = (Path(__file__).parents[3] / "docs" / "security.md").read_text("utf-8")

# No server of pystore has a handler for them, or it is no request of a peer.
WITHOUT_ROW = {
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
    RequestCode.EXCHANGE_BROKER_HA_INFO,
    RequestCode.GET_BROKER_HA_STATUS,
    RequestCode.RESET_MASTER_FLUSH_OFFSET,
    RequestCode.GET_CHALLENGE,
}


def test_each_code_of_a_server_has_a_row() -> None:
    """
    And each row a role.
    """
    assert set(RequestCode) - WITHOUT_ROW == set(ROLES_OF_CODE)
    assert all(ROLES_OF_CODE.values())


def test_the_documentation_has_the_same_table() -> None:
    """
    Code by code.
    """
    rows = {}
    for line in TEXT.splitlines():
        cells = [one.strip() for one in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].isdigit():
            rows[int(cells[0])] = {role for role in UserRole if role.value in cells[3]}
    assert {int(code): set(roles) for code, roles in ROLES_OF_CODE.items()} == rows


@pytest.mark.parametrize("text", ["true", "TRUE", "yes", "1", "", " false"])
def test_who_is_elected_is_said_by_operators_only(text: str) -> None:
    """
    Any value but false: a gate must not read it more kindly than the handler.
    """
    code = RequestCode.CONTROLLER_ELECT_MASTER
    fields = {"designateElect": text}
    assert {UserRole.OPERATOR} == roles_of(RemotingCommand(code, ext_fields=fields))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"designateElect": "false"},
        {"designateElect": "true", "pystoreHandedOverEpoch": "4"},
    ],
)
def test_a_broker_asks_for_an_election(fields: dict[str, str]) -> None:
    """
    As RocketMQ's do; and a master for its own successor.
    """
    code = RequestCode.CONTROLLER_ELECT_MASTER
    assert UserRole.BROKER in roles_of(RemotingCommand(code, ext_fields=fields))


def test_an_unknown_code_is_allowed_to_no_role() -> None:
    """
    A request without a row is refused.
    """
    assert not roles_of(RemotingCommand(12345))
