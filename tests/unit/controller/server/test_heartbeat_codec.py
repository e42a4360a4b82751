"""
The decoding of heartbeats (RMQ-R238, RMQ-R239).
"""

from __future__ import annotations

import pytest
from lib.controller.broker_set_driver import incarnation

from pystore.controller.liveness.heartbeats import Heartbeat
from pystore.controller.model.log_end import LogBegin, LogEnd
from pystore.controller.protocol.cluster_id import cluster_id_fields
from pystore.controller.protocol.extensions import (
    HeartbeatExtension,
    heartbeat_extension_fields,
)
from pystore.controller.server.heartbeat_codec import BrokerBeat, heartbeat_of
from pystore.remoting.codes import ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.fields import MissingField

FIELDS = {"clusterName": "c", "brokerName": "b", "brokerId": "7"}


def test_the_heartbeat_of_a_java_broker_has_its_log_end() -> None:
    """What is missing has RocketMQ's defaults."""
    fields = FIELDS | {"epoch": "2", "maxOffset": "30", "electionPriority": "4"}
    heartbeat = Heartbeat(7, 9, position=LogEnd(2, 30), priority=4)

    assert BrokerBeat(("c", "b"), heartbeat, 2) == heartbeat_of(
        RemotingCommand(904, ext_fields=fields), 9
    )


def test_the_heartbeat_of_pystore_has_process_and_disk() -> None:
    """Process, machine, disk, and the resigned mastership."""
    extension = HeartbeatExtension(
        incarnation(3), "boot", 20, "write-back\nfailed", 5, disk_used_percent=93
    )
    beat = heartbeat_of(
        RemotingCommand(904, ext_fields=FIELDS | heartbeat_extension_fields(extension)),
        1,
    )

    assert 5 == beat.resigned_epoch
    assert (
        Heartbeat(
            7,
            1,
            incarnation(3),
            "boot",
            flushed=20,
            disk_problem="write-back failed",
            disk_used_percent=93,
        )
        == beat.heartbeat
    )


@pytest.mark.parametrize(("told", "kept"), [(-7, -1), (101, 100), (0, 0)])
def test_what_a_broker_tells_of_its_disk_has_bounds(told: int, kept: int) -> None:
    """Any sender can send it; it is kept as long as the broker is heard."""
    extension = HeartbeatExtension(
        incarnation(3), disk_problem="x" * 4_000, disk_used_percent=told
    )
    fields = FIELDS | heartbeat_extension_fields(extension)
    beat = heartbeat_of(RemotingCommand(904, ext_fields=fields), 1).heartbeat

    assert (kept, "x" * 200) == (beat.disk_used_percent, beat.disk_problem)


def test_the_heartbeat_of_pystore_tells_what_it_knows() -> None:
    """Its newest decision, and whether it belongs to this record store."""
    extension = HeartbeatExtension(
        incarnation(3), known_epoch=7, known_set_epoch=9, promised_epoch=6
    )
    fields = FIELDS | heartbeat_extension_fields(extension)
    request = RemotingCommand(904, ext_fields=fields | cluster_id_fields("a" * 32))
    for own, is_ours in (("a" * 32, True), ("b" * 32, False), ("", False)):
        beat = heartbeat_of(request, 1, own).heartbeat
        assert (7, 9, 6, is_ours) == (
            beat.known_epoch,
            beat.known_set_epoch,
            beat.promised_epoch,
            beat.is_of_cluster,
        )


def test_no_more_of_an_address_is_kept_than_an_address_has() -> None:
    """Any sender can send one; it is kept as long as the broker is heard."""
    fields = FIELDS | {"brokerAddr": "a" * 10_000}
    beat = heartbeat_of(RemotingCommand(904, ext_fields=fields), 1)
    assert "a" * 300 == beat.heartbeat.address


def test_a_heartbeat_without_an_id_is_refused() -> None:
    """With 2005 (RMQ-R238)."""
    with pytest.raises(MissingField) as refusal:
        heartbeat_of(RemotingCommand(904, ext_fields={"brokerName": "b"}), 1)
    assert ResponseCode.CONTROLLER_INVALID_REQUEST == refusal.value.code


@pytest.mark.parametrize("broker_id", [0, -1, -7, -(2**63)])
def test_a_heartbeat_of_no_possible_id_is_refused(broker_id: int) -> None:
    """It would be kept as a broker that no set has."""
    with pytest.raises(MissingField, match=f"broker id {broker_id} is none"):
        heartbeat_of(
            RemotingCommand(904, ext_fields=FIELDS | {"brokerId": str(broker_id)}), 1
        )


@pytest.mark.parametrize("asked", [60_000, 60_001, 2**31, 2**62])
def test_no_heartbeat_is_valid_for_longer_than_a_minute(asked: int) -> None:
    """A host that lost its power counts as alive for as long."""
    fields = FIELDS | {"heartbeatTimeoutMills": str(asked)}
    beat = heartbeat_of(RemotingCommand(904, ext_fields=fields), 1)
    assert 60_000 == beat.heartbeat.timeout_ms


@pytest.mark.parametrize(
    "extension",
    [
        None,
        HeartbeatExtension(incarnation(3), "boot", begin=LogBegin(5, is_filling=True)),
        HeartbeatExtension(
            incarnation(3), "boot", 20, "ill", 5, known_epoch=7, disk_used_percent=4
        ),
        HeartbeatExtension(incarnation(3), "boot", is_ill=True, promised_epoch=8),
    ],
)
def test_the_next_heartbeat_of_a_process_has_other_ends(
    extension: HeartbeatExtension | None,
) -> None:
    """And is what would be decoded with them, where the ends are told."""
    fields = FIELDS | {"epoch": "2", "maxOffset": "30", "confirmOffset": "20"}
    if extension is not None:
        fields |= heartbeat_extension_fields(extension) | cluster_id_fields("a" * 32)
    beat = heartbeat_of(RemotingCommand(904, ext_fields=fields), 9, "a" * 32)
    ends = [100, 90, 80][: len(beat.ends)]
    fields |= dict(zip(beat.ends, map(str, ends), strict=True))
    next_ = heartbeat_of(RemotingCommand(904, ext_fields=fields), 9, "a" * 32)

    assert next_.heartbeat == beat.again(ends)
