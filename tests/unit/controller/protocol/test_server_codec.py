"""
Requests of brokers and administrators as commands.
"""

from __future__ import annotations

import pytest
from lib.controller.broker_set_driver import start

from pystore.controller.model.commands import (
    AlterSet,
    ApplyId,
    ChangeBroker,
    Clean,
    Elect,
    GetNextId,
    Register,
    Trigger,
)
from pystore.controller.protocol.extensions import recovery_fields
from pystore.controller.protocol.server_codec import COMMANDS, SetCommand
from pystore.controller.protocol.set_extensions import seen_version_fields
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.fields import MissingField
from pystore.replicaset import Member

SET = {"clusterName": "c", "brokerName": "b"}


def asked(code: RequestCode, fields: dict[str, str], body: bytes = b"") -> SetCommand:
    """
    Returns the command of a request.
    """
    return COMMANDS[code](RemotingCommand(code, ext_fields=fields, body=body))


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        ({"brokerId": "-1"}, Elect(Trigger.CONTROLLER)),
        ({"brokerId": "2"}, Elect(Trigger.BROKER, 2)),
        ({"brokerId": "2", "designateElect": "true"}, Elect(Trigger.OPERATOR, 2)),
    ],
)
def test_elections_have_three_origins(fields: dict[str, str], command: Elect) -> None:
    """A scan, a broker, an operator (RMQ-R51 to RMQ-R53)."""
    assert SetCommand("c", "b", command) == asked(
        RequestCode.CONTROLLER_ELECT_MASTER, SET | fields
    )


def test_the_registration_of_an_old_broker_is_refused_with_the_reason() -> None:
    """One before 5.1.1 is known by its address, and registers without an id (H)."""
    fields = SET | {"brokerAddress": "h:1"}

    with pytest.raises(MissingField, match=r"since 5\.1\.1: upgrade it"):
        asked(RequestCode.CONTROLLER_REGISTER_BROKER, fields)


def test_brokers_of_java_and_of_pystore_register() -> None:
    """Only brokers of pystore report their recovery."""
    fields = SET | {"brokerId": "3", "brokerAddress": "h:1"}
    recovery = start(4, end=5, epoch=6)

    for added, told in (({}, None), (recovery_fields(recovery), recovery)):
        assert SetCommand("c", "b", Register(3, "h:1", told), creates=True) == asked(
            RequestCode.CONTROLLER_REGISTER_BROKER, fields | added
        )


def test_requests_for_ids_are_decoded() -> None:
    """The set may be new, so its cluster counts."""
    assert SetCommand("c", "b", GetNextId(), creates=True) == asked(
        RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, SET
    )
    fields = SET | {"appliedBrokerId": "1", "registerCheckCode": "h:1;2"}
    assert SetCommand("c", "b", ApplyId(1, "h:1;2"), creates=True) == asked(
        RequestCode.CONTROLLER_APPLY_BROKER_ID, fields
    )


def test_a_java_master_names_its_set_without_a_cluster() -> None:
    """The handler finds the set (RMQ-R37)."""
    fields = {"brokerName": "b", "masterBrokerId": "1", "masterEpoch": "2"}
    body = b'{"syncStateSet":[1,2],"syncStateSetEpoch":3}'
    command = AlterSet(Member(1), 2, 3, frozenset({Member(1), Member(2)}))

    assert SetCommand("", "b", command) == asked(
        RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, fields, body
    )


def test_ids_to_clean_are_numbers() -> None:
    """Blank ones count for nothing; anything else is 2009 (RMQ-R251)."""
    fields = SET | {
        "brokerControllerIdsToClean": "1; 2;;",
        "isCleanLivingBroker": "true",
    }
    command = Clean(frozenset({1, 2}), with_living=True)

    assert SetCommand("c", "b", command) == asked(RequestCode.CLEAN_BROKER_DATA, fields)
    with pytest.raises(MissingField) as refusal:
        asked(
            RequestCode.CLEAN_BROKER_DATA, SET | {"brokerControllerIdsToClean": "1,2"}
        )
    assert ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA == refusal.value.code


@pytest.mark.parametrize("text", ["", " ", ";", " ; ;"])
def test_a_list_of_ids_to_clean_without_an_id_is_refused(text: str) -> None:
    """It does not mean all brokers, as a request without the list does."""
    fields = SET | {"brokerControllerIdsToClean": text, "isCleanLivingBroker": "true"}

    with pytest.raises(MissingField, match="names no broker") as refusal:
        asked(RequestCode.CLEAN_BROKER_DATA, fields)
    assert ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA == refusal.value.code
    everything = Clean(frozenset(), with_living=True)
    del fields["brokerControllerIdsToClean"]
    assert everything == asked(RequestCode.CLEAN_BROKER_DATA, fields).command


def test_a_change_may_name_the_version_of_the_set_that_was_seen() -> None:
    """Requests of RocketMQ's tools name none."""
    added = {"brokerControllerIdsToClean": "2", "brokerId": "2", "learner": "true"}
    for seen in (None, 0, 1 << 40):
        fields = SET | added | seen_version_fields(seen)
        cleaned = asked(RequestCode.CLEAN_BROKER_DATA, fields)
        assert Clean(frozenset({2}), seen_version=seen) == cleaned.command
        changed = asked(RequestCode.CHANGE_BROKER, fields)
        assert isinstance(changed.command, ChangeBroker)
        assert seen == changed.command.seen_version
    for text in ("", "x", "-1", "1" * 20):
        fields = SET | added | {"pystoreSeenVersion": text}
        with pytest.raises(MissingField, match="is no version of a set"):
            asked(RequestCode.CLEAN_BROKER_DATA, fields)
