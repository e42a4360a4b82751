"""
Headers to and from a name server: names as in formats 3.8.
"""

from __future__ import annotations

from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.name_server_headers import (
    GetRouteInfoRequest,
    RegisterBrokerRequest,
)


def test_a_registration_leaves_out_what_is_none() -> None:
    """
    Flags and numbers are always sent, as Java sends them.
    """
    header = RegisterBrokerRequest("broker-a", "10.0.0.1:10911", "c", 0)

    assert {
        "brokerName": "broker-a",
        "brokerAddr": "10.0.0.1:10911",
        "clusterName": "c",
        "brokerId": "0",
        "compressed": "false",
        "bodyCrc32": "0",
    } == encode_fields(header)


def test_a_client_that_is_not_in_java_asks_for_real_json() -> None:
    """
    Client protocol 1.1.
    """
    fields = {"topic": "T", "acceptStandardJsonOnly": "true"}

    assert GetRouteInfoRequest("T", accept_standard_json_only=True) == decode_fields(
        GetRouteInfoRequest, fields
    )
