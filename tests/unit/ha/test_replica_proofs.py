"""
Links of replicas with proofs: real stores, real links, one process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from lib.ha.replica_fixture import WAIT_MS, ReplicaStage
from lib.store.stores import message

from pystore.events.node_events import LinkOpened
from pystore.ha.insync.ack import Ack
from pystore.ha.replica import Replica
from pystore.ha.wire.proof import LinkGuard, LinkSecrets, slave_secret


@pytest.fixture
def stage(tmp_path: Path) -> ReplicaStage:
    """No replica has started yet."""
    return ReplicaStage(tmp_path)


class Secrets:
    """
    What each process of a set has of its controllers.
    """

    def __init__(self, *, is_required: bool = True) -> None:
        self.is_required = is_required
        self.epoch = 0
        self.master: Replica | None = None
        self.given: dict[int, Replica] = {}

    def guard_of(self, broker_id: int) -> Callable[[], LinkGuard]:
        """Returns the guard of one broker."""

        def guard() -> LinkGuard:
            own = self.given.get(broker_id)
            if own is None:
                return LinkGuard(is_required=self.is_required)
            secret = hashlib.sha256(b"secret %d" % self.epoch).digest()
            if own is self.master:
                return LinkGuard(self.is_required, LinkSecrets(self.epoch, secret))
            start = own.me.incarnation
            assert start is not None
            mine = slave_secret(secret, broker_id, start.counter, start.bits)
            return LinkGuard(self.is_required, LinkSecrets(self.epoch, of_slave=mine))

        return guard

    def give(self, epoch: int, master: Replica, *slaves: Replica) -> None:
        """Gives the secrets of an epoch."""
        self.epoch, self.master = epoch, master
        self.given = {one.me.broker_id: one for one in (master, *slaves)}
        for one in slaves:
            one.guard_changed()


def test_replicas_with_their_secrets_follow_and_others_do_not(
    stage: ReplicaStage,
) -> None:
    """B16: also after a failover, with the secrets of the next epoch."""
    secrets = Secrets()
    with stage:
        first, second, stranger = (
            stage.start(one, guard=secrets.guard_of(one)) for one in (1, 2, 3)
        )
        secrets.give(1, first, second)
        stage.elect(1, first)
        stage.controller.wait_for({1, 2})
        assert first.append(message(1), Ack.ALL, WAIT_MS).is_reached
        stage.wait_until(stranger, lambda it: "no controller has given" in it.problem)
        assert stranger.log.log().received_offset == 0

        secrets.give(2, second, first)
        stage.elect(2, second)
        stage.controller.wait_for({1, 2})
        assert second.append(message(2), Ack.ALL, WAIT_MS).is_reached


def test_links_that_proved_nothing_are_made_again_when_proofs_are_required(
    stage: ReplicaStage,
) -> None:
    """An append that waits for all meanwhile waits, and is reached."""
    secrets = Secrets(is_required=False)
    with stage:
        first, second = (
            stage.start(one, guard=secrets.guard_of(one), heartbeat_ms=50)
            for one in (1, 2)
        )
        stage.elect(1, first)
        stage.controller.wait_for({1, 2})
        assert first.append(message(1), Ack.ALL, WAIT_MS).is_reached
        secrets.is_required = True
        # The links end; the slave has no secret yet, so it cannot come back.
        stage.wait_until(second, lambda it: "no controller has given" in it.problem)
        future = first.submit(message(2), Ack.ALL)
        secrets.give(1, first, second)
        assert future.wait(WAIT_MS).is_reached
        assert first.append(message(3), Ack.ALL, WAIT_MS).is_reached


def test_a_master_says_which_slave_proved_nothing(stage: ReplicaStage) -> None:
    """While proofs are not required; and of one that did it says nothing."""
    secrets = Secrets(is_required=False)
    with stage:
        first, second, third = (
            stage.start(one, guard=secrets.guard_of(one)) for one in (1, 2, 3)
        )
        secrets.give(1, first, second)
        stage.elect(1, first)
        stage.controller.wait_for({1, 2, 3})
        opened = {
            one.peer_id: one.is_unproven
            for one in stage.events
            if isinstance(one, LinkOpened) and one.broker_id == 1
        }
        assert opened == {2: False, 3: True}
        assert third.standing().problem == ""
