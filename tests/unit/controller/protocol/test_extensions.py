"""
pystore's extensions of RocketMQ's headers, and peers without them.
"""

from __future__ import annotations

import pytest
from lib.controller.broker_set_driver import incarnation

from pystore.controller.model.commands import Recovery
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.controller.protocol.extensions import (
    HeartbeatExtension,
    LeaseGrant,
    ha_address_fields,
    ha_address_of,
    heartbeat_extension_fields,
    heartbeat_extension_of,
    lease_fields,
    lease_of,
    process_fields,
    process_of,
    recovery_fields,
    recovery_of,
    standing_fields,
    standing_of,
)
from pystore.remoting.codes import ResponseCode
from pystore.remoting.fields import MissingField
from pystore.replicaset import Incarnation

START = Incarnation(7, bytes(range(16)))


def test_the_extension_of_a_heartbeat_describes_the_process() -> None:
    """Issue 6: incarnation, boot id, disk health, flushed offset, a mastership left."""
    extension = HeartbeatExtension(
        START, "boot", 4711, "EIO at 7", 3, disk_used_percent=50
    )

    assert extension == heartbeat_extension_of(heartbeat_extension_fields(extension))
    assert (
        "7-000102030405060708090a0b0c0d0e0f"
        == (heartbeat_extension_fields(extension)["pystoreIncarnation"])
    )


def test_the_extension_of_a_registration_is_the_recovery() -> None:
    """B2, B4, A15: each of the facts by itself."""
    told = [
        Recovery(START),
        Recovery(START, "boot", LogEnd(2, 4711), 4700),
        Recovery(START, is_clean=True),
        Recovery(START, keeps_pages=True),
        Recovery(START, acks_flushed=True),
        Recovery(START, is_lossy=True),
        Recovery(START, is_copy=True),
        Recovery(START, starts=(Incarnation(3, bytes(16)), START)),
    ]

    assert told == [recovery_of(recovery_fields(one)) for one in told]


@pytest.mark.parametrize("standing", LogStanding)
def test_the_answer_to_a_registration_has_the_standing(standing: LogStanding) -> None:
    """B2: the broker reports why it may not be elected."""
    assert standing is standing_of(standing_fields(standing))


def test_a_lease_of_0_ms_differs_from_a_controller_without_leases() -> None:
    """C1: one ends what a master decides alone; a controller of Java's grants none."""
    for grant in (LeaseGrant(10_000, 3), LeaseGrant()):
        assert grant == lease_of(lease_fields(grant))
    assert None is lease_of({})
    assert LeaseGrant() == lease_of({"pystoreLeaseMs": "-5"})


def test_a_peer_without_extensions_is_a_java_peer() -> None:
    """It sends no incarnation and no standing."""
    assert (None, None, None) == (
        heartbeat_extension_of({}),
        recovery_of({}),
        standing_of({}),
    )


@pytest.mark.parametrize(
    "text", ["", "7", "-00", "x-" + "0" * 32, "7-" + "0" * 31, "7-" + "0" * 32 + "\n"]
)
def test_a_broken_incarnation_is_not_a_java_peer(text: str) -> None:
    """B1: it would pass for the process before; 2005 is answered."""
    for read in (heartbeat_extension_of, recovery_of):
        with pytest.raises(MissingField, match="is not an incarnation") as caught:
            read({"pystoreIncarnation": text})
        assert ResponseCode.CONTROLLER_INVALID_REQUEST == caught.value.code


def test_a_registration_tells_where_the_broker_serves_slaves() -> None:
    """A Java broker does not; a text that is no address is refused."""
    assert "h:7" == ha_address_of(ha_address_fields("h:7"))
    assert "" == ha_address_of(ha_address_fields(""))
    with pytest.raises(MissingField, match="pystoreHaAddress: 'h'"):
        ha_address_of(ha_address_fields("h"))


def test_an_answer_names_its_process() -> None:
    """A Java broker does not."""
    assert incarnation(3) == process_of(process_fields(incarnation(3)))
    assert process_of({}) is None
    with pytest.raises(MissingField):
        process_of({"pystoreIncarnation": "3"})


def test_an_unknown_standing_is_refused() -> None:
    """A later controller may have more; guessing would elect the wrong one."""
    with pytest.raises(MissingField, match="unknown standing 'fine'"):
        standing_of({"pystoreStanding": "fine"})
