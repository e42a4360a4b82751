"""
What a signature costs a heartbeat and a request with 1 KiB, in time of the processor.

A heartbeat is verified without being decoded (`RequestForm`): the rows are what the
signature adds to that, at the server, and what it adds to sending one, at the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest
from contest import Figure
from table import Table

from pystore.access.gate import Gate
from pystore.access.mode import AccessMode
from pystore.access.roles import UserRole
from pystore.access.signer import RequestSigner
from pystore.access.users import User
from pystore.remoting.binding import RequestBinding
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.framing import CommandReader, encode_frame
from pystore.remoting.repeated_request import RequestForm
from pystore.remoting.signature import Credentials, is_signed_by, signed

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

ROUNDS = 21
OWN = Credentials("brokers", "a secret of a usual length")
USER = User("brokers", (OWN.secret_key,), frozenset({UserRole.BROKER}))
FIELDS = {
    "clusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerAddr": "10.0.0.11:10911",
    "brokerId": "1",
    "epoch": "7",
    "maxOffset": "123456789",
    "confirmOffset": "123456789",
    "heartbeatTimeoutMills": "10000",
    "electionPriority": "0",
    "pystoreIncarnation": "5-0123456789abcdef0123456789abcdef",
    "pystoreFlushed": "123456789",
}
ENDS = ("maxOffset", "confirmOffset", "pystoreFlushed")
BEAT = RemotingCommand(904, 5, ext_fields=FIELDS, version=479)


class Peer:
    """
    What a gate needs of a connection.
    """

    def __init__(self) -> None:
        self.host = "10.0.0.11"
        self.binding = RequestBinding("0123456789abcdef0123456789abcdef")


def form_of(frame: bytes) -> RequestForm:
    """
    The form of a heartbeat.
    """
    reader = CommandReader()
    reader.feed(frame)
    request = reader.take()
    assert request is not None
    form = RequestForm.of(frame, request, ENDS)
    assert form is not None
    return form


def micros(work: Callable[[], object], count: int) -> float:
    """
    Microseconds of the processor for one call.
    """
    begun = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - begun) / count * 1e6


def added(
    without: Callable[[], object], with_it: Callable[[], object], count: int
) -> Figure:
    """
    What the second adds to the first, in pairs.
    """
    return Figure(
        tuple(micros(with_it, count) - micros(without, count) for _ in range(ROUNDS))
    )


@pytest.mark.benchmark(group="signatures")
def test_a_signature_costs_little(
    benchmark: BenchmarkFixture, is_smoke: bool, table: Table
) -> None:
    """
    At both ends of a heartbeat, and of a request with a body of 1 KiB.
    """
    count = 20 if is_smoke else 3_000
    peer, sender = Peer(), Peer()
    gate = Gate(
        lambda: AccessMode.ENFORCING, lambda: {USER.name: USER}, bool, time.monotonic
    )
    sign = RequestSigner(lambda: OWN).sign
    plain = encode_frame(BEAT)
    safe = encode_frame(sign(BEAT, cast("Connection", sender)))
    form, signed_form = form_of(plain), form_of(safe)

    def verified() -> None:
        found = signed_form.read(safe)
        assert found is not None
        assert gate.admits_repeat(found, cast("Connection", peer))

    body = replace(BEAT, code=310, body=bytes(1024))
    signed_body = signed(body, OWN)
    benchmark.pedantic(verified, rounds=1)
    rows = {
        "signature on a heartbeat, verified": added(
            lambda: form.read(plain), verified, count
        ),
        "signature on a heartbeat, made": added(
            lambda: encode_frame(BEAT),
            lambda: encode_frame(sign(BEAT, cast("Connection", sender))),
            count,
        ),
        "signature on a send of 1 KiB, verified": added(
            bool, lambda: is_signed_by(signed_body, OWN.secret_key), count
        ),
        "signature on a send of 1 KiB, made": added(
            bool, lambda: signed(body, OWN), count
        ),
    }
    for what, figure in rows.items():
        table.at_most(what, 10, figure, "us", {})
