"""
Bytes that no peer sends, in every state of a link, to a real master and a real slave.

Each test spoils one frame after the other: the handshake, the epochs or their query,
the agreement, and one while bytes flow. The link ends, with a line that says why;
no other link notices; and the next link works.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cluster.proxy import TO_MASTER, TO_SLAVE
from cluster.tamperer import Spoil, Tamperer
from lib.ha.master_fixture import WAIT_MS, Clock, MasterStage, Slave, data_of
from lib.store.stores import fill, message

from pystore.ha.insync.ack import Ack, AckOutcome

STATES = [0, 1, 2, 3]
"""Frames of one side that come before: so far the link has got."""

AT_ONCE = [
    (state, spoil)
    for spoil in (Spoil.GARBAGE, Spoil.TRUNCATED, Spoil.OVERSIZED)
    for state in STATES
]
ENDLESS = [(state, Spoil.ENDLESS) for state in STATES]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[MasterStage]:
    """
    A master with something to send.
    """
    with MasterStage(tmp_path / "master") as made:
        fill(made.log, 500)
        yield made


def check_in_sync(stage: MasterStage, *broker_ids: int) -> None:
    """
    An append is acknowledged on the disk of exactly these.
    """
    stage.controller.wait_for(set(broker_ids))
    end = stage.log.append(message(1)).end
    settled = stage.service.wait(Ack.ALL_SYNCED, end, WAIT_MS)
    assert AckOutcome.REACHED is settled.outcome
    assert frozenset(broker_ids) == settled.flushed_by


@pytest.mark.parametrize("direction", [TO_MASTER, TO_SLAVE], ids=["master", "slave"])
def test_what_no_peer_sends_ends_that_link_and_nothing_else(
    stage: MasterStage, tmp_path: Path, direction: int
) -> None:
    """
    Garbage, half a frame, a length that none has, at once and in each state: a second
    slave keeps its link, and its acks count.
    """
    address = stage.service.address
    with (
        Slave(address, tmp_path / "other", 3, may_wipe=False) as other,
        Tamperer(address, direction, AT_ONCE) as tamperer,
    ):
        check_in_sync(stage, 1, 3)
        with Slave(tamperer.address, tmp_path / "slave", may_wipe=False) as slave:
            for part in AT_ONCE:
                assert part == tamperer.done.get(timeout=WAIT_MS / 1000)
            check_in_sync_with(stage, 3)
            check_in_sync(stage, 1, 2, 3)
            assert len(AT_ONCE) + 1 == slave.status().links
        assert 1 == other.status().links
    said = slave.said if direction == TO_SLAVE else stage.said
    assert said
    assert all("\n" not in line for line in [*slave.said, *stage.said])
    assert data_of(stage.log.path) == data_of(tmp_path / "slave")
    assert data_of(stage.log.path) == data_of(tmp_path / "other")


def check_in_sync_with(stage: MasterStage, broker_id: int) -> None:
    """
    An append is acknowledged on the disk of this slave at least.
    """
    end = stage.log.append(message(1)).end
    settled = stage.service.wait(Ack.ALL_SYNCED, end, WAIT_MS)
    assert AckOutcome.REACHED is settled.outcome
    assert broker_id in settled.flushed_by


@pytest.mark.parametrize("direction", [TO_MASTER, TO_SLAVE], ids=["master", "slave"])
def test_a_frame_that_never_ends_is_silence(
    stage: MasterStage, tmp_path: Path, direction: int
) -> None:
    """
    Half a frame proves no living peer: the receiver closes the link when a whole
    one was due, in each state.
    """
    clock = Clock()
    skip = clock.skip if direction == TO_SLAVE else stage.skip
    with (
        Tamperer(stage.service.address, direction, ENDLESS) as tamperer,
        Slave(
            tamperer.address, tmp_path / "slave", now_ms=clock.now_ms, may_wipe=False
        ) as slave,
    ):
        for part in ENDLESS:
            assert part == tamperer.done.get(timeout=WAIT_MS / 1000)
            links = slave.status().links
            # The waiting end may not have it yet: time passes until it has.
            while slave.status().links == links:
                skip(30_000)
                stage.service.monitor.rest(10)
        check_in_sync(stage, 1, 2)
    assert data_of(stage.log.path) == data_of(tmp_path / "slave")
    if direction == TO_MASTER:
        silences = [line for line in stage.said if "sent nothing for" in line]
        assert len(ENDLESS) <= len(silences), stage.said


def test_a_slave_older_than_5_1_1_is_turned_away_by_that_name(
    stage: MasterStage,
) -> None:
    """
    It says an address of 50 bytes where the id of a later one begins; its protocol
    has no way to tell it why.
    """
    address = b"127.0.0.1:10912"
    hello = struct.pack(">ihhi50s", 1, 0, 0, len(address), address)
    with stage.dial() as link:
        link.sendall(hello)
        with suppress(ConnectionError):  # closed with unread bytes: closed all the same
            assert b"" == link.recv(1)
    stage.wait_for_links(0)
    (line,) = stage.said
    assert "a slave older than RocketMQ 5.1.1" in line
