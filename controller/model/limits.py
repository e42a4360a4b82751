"""
The limits of what a controller takes from its peers: one table. Pure.

A controller keeps what its peers tell, in memory and in records, and nothing
authenticates them: so each text, list and number of names has a bound. What exceeds one
is refused with code 2005 and a line that names the bound.

Source: docs/controller.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from pystore.remoting.codes import ResponseCode
from pystore.remoting.fields import MissingField

__all__ = [
    "BROKERS_MAX",
    "CONNECTION_BROKERS_MAX",
    "FIELD_CHARS",
    "FIELD_CHARS_MAX",
    "HEARTBEAT_TIMEOUT_MAX_MS",
    "REQUEST_BYTES_MAX",
    "STRANGERS_MAX",
    "UNLED_BROKERS_MAX",
    "check_fields",
]

FIELD_CHARS_MAX = 128
"""Characters of a text that `FIELD_CHARS` does not bound otherwise."""

BROKERS_MAX = 64
"""Brokers of one set, alive or not: each is a part of its record."""

CONNECTION_BROKERS_MAX = 1024
"""Brokers whose heartbeats one connection carries: a process may host many."""

HEARTBEAT_TIMEOUT_MAX_MS = 60_000
"""The longest validity of a heartbeat: a host without power counts as alive for it."""

STRANGERS_MAX = 1024
"""Brokers without a record whose heartbeats a leader keeps: the last heard ones."""

UNLED_BROKERS_MAX = 1 << 16
"""Brokers whose heartbeats a controller keeps that does not lead: it has no records."""

REQUEST_BYTES_MAX = 1 << 20
"""Bytes of one request. The longest, a list of all sets for 1006, has some KiB. Only a
name server needs more: on the same port it takes 16 MiB, for the topics of a broker."""

_STARTS_CHARS = 1000
"""Of 16 incarnations."""

_ADDRESS_CHARS = 300
"""A name of DNS has at most 253 characters, and a port follows."""

FIELD_CHARS: Mapping[str, int] = {
    "afterCluster": FIELD_CHARS_MAX,
    "afterName": FIELD_CHARS_MAX,
    "brokerName": FIELD_CHARS_MAX,
    "clusterId": FIELD_CHARS_MAX,
    "clusterName": FIELD_CHARS_MAX,
    "onlyCluster": FIELD_CHARS_MAX,
    "onlyName": FIELD_CHARS_MAX,
    "pystoreBootId": FIELD_CHARS_MAX,
    "pystoreIncarnation": FIELD_CHARS_MAX,
    "pystoreStarts": _STARTS_CHARS,
    "afterHost": _ADDRESS_CHARS,
    "host": _ADDRESS_CHARS,
    "brokerAddr": _ADDRESS_CHARS,
    "brokerAddress": _ADDRESS_CHARS,
    "pystoreHaAddress": _ADDRESS_CHARS,
    # ADDRESS;MILLISECONDS
    "registerCheckCode": _ADDRESS_CHARS + 20,
    # ID;...
    "brokerControllerIdsToClean": 20 * BROKERS_MAX,
    "pystoreFillingIds": 20 * BROKERS_MAX,
    # ID@INCARNATION;...
    "pystoreCandidates": 72 * BROKERS_MAX,
    "pystoreMembers": 72 * BROKERS_MAX,
    # For people: a heartbeat must not be refused because an error names a long path.
    "pystoreDiskProblem": 4096,
}
"""Characters of each text that requests have. Other fields are ignored."""


def check_fields(fields: Mapping[str, str]) -> None:
    """
    Refuses a request with a text that is too long.

    Raises:
        MissingField: it names the field.
    """
    if max(map(len, fields.values()), default=0) <= FIELD_CHARS_MAX:
        return
    for name, text in fields.items():
        limit = FIELD_CHARS.get(name)
        if limit is not None and len(text) > limit:
            raise MissingField(
                f"{name} has {len(text)} characters: at most {limit} are allowed",
                ResponseCode.CONTROLLER_INVALID_REQUEST,
            )
