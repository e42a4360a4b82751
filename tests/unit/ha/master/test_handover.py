"""
Handing a mastership over: what the next master needs, and what a failure leaves.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.ha.master_fixture import EPOCH, WAIT_MS, MasterStage, Slave
from lib.store.stores import fill, message

from pystore.errors import FencedError, InvalidError, UnavailableError
from pystore.ha.insync.ack import Ack
from pystore.ha.master.handover import ElectSuccessor, hand_over
from pystore.ha.master.lease import UNLEASED
from pystore.ha.master.write_authority import WriteAuthority


@pytest.fixture
def stage(tmp_path: Path) -> MasterStage:
    """A master with 100 records."""
    made = MasterStage(tmp_path / "master")
    fill(made.log, 100)
    return made


def authority_of(stage: MasterStage) -> WriteAuthority:
    """
    Returns the right to append of its mastership.
    """
    authority = WriteAuthority(stage.clock.now_ms)
    authority.begin(stage.log.writer.log, EPOCH, UNLEASED)
    return authority


def hand(stage: MasterStage, authority: WriteAuthority, elect: ElectSuccessor) -> None:
    """
    Hands over to broker 2.
    """
    hand_over(
        stage.service,
        authority,
        EPOCH,
        2,
        elect,
        now_ms=stage.clock.now_ms,
        timeout_ms=WAIT_MS,
    )


def test_the_next_master_has_every_record_when_it_is_elected(
    stage: MasterStage, tmp_path: Path
) -> None:
    """And no append is admitted from there on."""
    with stage, Slave(stage.service.address, tmp_path / "slave"):
        stage.controller.wait_for({1, 2})
        authority = authority_of(stage)
        seen: list[tuple[int, int, int | None]] = []

        def elect(broker_id: int, epoch: int) -> None:
            held = stage.service.received_by(broker_id)
            seen.append((broker_id, epoch, held))
            with pytest.raises(FencedError, match="handed over to broker 2"):
                authority.append([message(1)], Ack.ALL)

        end = authority.append([message(0)], Ack.LEADER).end
        hand(stage, authority, elect)
        assert [(2, EPOCH, end)] == seen
        with pytest.raises(FencedError, match="handed over"):
            authority.append([message(2)], Ack.LEADER)


def test_a_controller_that_refuses_leaves_the_master(
    stage: MasterStage, tmp_path: Path
) -> None:
    """It appends again."""
    with stage, Slave(stage.service.address, tmp_path / "slave"):
        stage.controller.wait_for({1, 2})
        authority = authority_of(stage)

        def elect(broker_id: int, epoch: int) -> None:
            raise UnavailableError(f"not {broker_id} in place of epoch {epoch}")

        with pytest.raises(UnavailableError, match="not 2 in place of epoch"):
            hand(stage, authority, elect)
        authority.append([message(1)], Ack.LEADER)


def test_only_a_member_becomes_the_next_master(
    stage: MasterStage, tmp_path: Path
) -> None:
    """Another one may lack acknowledged records; no append is refused for it."""
    with stage:
        authority = authority_of(stage)
        with pytest.raises(InvalidError, match="broker 2 is no member"):
            hand(stage, authority, lambda *_: pytest.fail("elected"))
        with Slave(stage.service.address, tmp_path / "slave"):
            stage.controller.wait_for({1, 2})
        # It is a member until the set has shrunk, and has no link.
        with pytest.raises((InvalidError, UnavailableError), match="broker 2"):
            hand(stage, authority, lambda *_: pytest.fail("elected"))
        authority.append([message(1)], Ack.LEADER)
