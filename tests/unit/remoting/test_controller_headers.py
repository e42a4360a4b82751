"""
Headers between brokers and controller: names and defaults as in formats 4.
"""

from __future__ import annotations

from pystore.remoting.controller_headers import (
    AlterSyncStateSetRequest,
    BrokerHeartbeat,
    CleanBrokerDataRequest,
    ElectMasterRequest,
)
from pystore.remoting.fields import decode_fields, encode_fields


def test_a_proposal_is_what_was_observed() -> None:
    """
    Formats 3.7.
    """
    fields = {
        "masterBrokerId": "1",
        "invokeTime": "1700000000000",
        "brokerName": "broker-a",
        "masterEpoch": "2",
    }
    header = AlterSyncStateSetRequest("broker-a", 1, 2, 1700000000000)

    assert header == decode_fields(AlterSyncStateSetRequest, fields)
    assert fields == encode_fields(header)


def test_a_heartbeat_with_its_id_alone_has_the_defaults_of_the_controller() -> None:
    """
    RMQ-R239.
    """
    expected = BrokerHeartbeat(
        broker_id=1,
        epoch=-1,
        max_offset=-1,
        confirm_offset=-1,
        heartbeat_timeout_mills=10_000,
        election_priority=2_147_483_647,
    )

    assert expected == decode_fields(BrokerHeartbeat, {"brokerId": "1"})


def test_an_election_without_a_broker_id_is_the_controllers_own() -> None:
    """
    Formats 4.3.
    """
    header = decode_fields(ElectMasterRequest, {})

    assert (-1, False, "") == (
        header.broker_id,
        header.designate_elect,
        header.broker_name,
    )


def test_cleaning_spares_live_brokers_by_default() -> None:
    """
    Names that begin with "is" keep it.
    """
    fields = {"brokerName": "a", "isCleanLivingBroker": "TRUE"}

    assert decode_fields(CleanBrokerDataRequest, fields).is_clean_living_broker
    del fields["isCleanLivingBroker"]
    assert not decode_fields(CleanBrokerDataRequest, fields).is_clean_living_broker
