"""
Losses as values: what a word of the controller changes, and when one is due.
"""

from __future__ import annotations

import pytest
from lib.autorecovery.audits import a_broker, a_replica, a_set
from lib.values import replace

from pystore.autorecovery.loss import (
    LossPhase,
    ReplicaLoss,
    decode_loss,
    encode_loss,
    loss_standing,
    losses_after,
)
from pystore.autorecovery.record_form import encode_form
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.settings import RecoverySettings
from pystore.errors import FormatError

NOW = 10_000_000


def a_view(since_ms: int, *, may_replace: bool = True) -> ClusterView:
    """Broker 2 is not alive since so long."""
    dead = replace(a_broker(2), is_alive=False, since_ms=since_ms)
    one = a_set("set", a_broker(1), dead)
    return ClusterView({("cluster", "set"): one}, (), 60_000, may_replace, NOW)


def test_the_time_of_a_loss_never_moves_forward() -> None:
    """A later controller knows of the death for a shorter time; an earlier time that
    is told later counts, but not by what an answer took.
    """
    first = losses_after({}, a_view(50_000), NOW)
    assert NOW - 50_000 == first[a_replica(2)].since_ms
    assert first == losses_after(first, a_view(1_000), NOW)
    assert first == losses_after(first, a_view(52_000), NOW)
    earlier = losses_after(first, a_view(90_000), NOW)

    assert NOW - 90_000 == earlier[a_replica(2)].since_ms


def test_a_controller_that_does_not_know_makes_and_ends_no_loss() -> None:
    """D5."""
    unknown = a_view(50_000, may_replace=False)
    known = {a_replica(2): ReplicaLoss(5)}

    assert {} == losses_after({}, unknown, NOW)
    assert known == losses_after(known, unknown, NOW)


def test_an_ill_replica_is_not_lost() -> None:
    """F4: it is there, and is repaired where it is; one that was lost has returned."""
    view = a_view(50_000)
    ill = replace(view.sets["cluster", "set"].brokers[1], is_ill=True)
    one = a_set("set", a_broker(1), ill)
    told = ClusterView({("cluster", "set"): one}, (), 60_000, may_replace=True, at_ms=0)

    assert {} == losses_after({a_replica(2): ReplicaLoss(5)}, told, NOW)


def test_names_that_fit_no_key_make_no_loss() -> None:
    """They would stop all other ones."""
    view = a_view(50_000)
    one = view.sets["cluster", "set"]
    long = ClusterView({("c" * 300, "set"): one}, (), 60_000, may_replace=True, at_ms=0)

    assert {} == losses_after({}, long, NOW)


@pytest.mark.parametrize(
    ("loss", "until_ms", "missing", "phase", "at_ms"),
    [
        (ReplicaLoss(NOW - 599_999), 0, 1, LossPhase.WAITING, NOW + 1),
        (ReplicaLoss(NOW - 600_000), 0, 1, LossPhase.DUE, NOW),
        (ReplicaLoss(NOW - 1), 0, 2, LossPhase.DUE, NOW - 1),
        (ReplicaLoss(1), NOW + 1, 2, LossPhase.MAINTENANCE, NOW + 1),
        (ReplicaLoss(1), NOW - 1, 1, LossPhase.WAITING, NOW + 599_999),
        (ReplicaLoss(NOW - 9, ended_ms=NOW - 3), 0, 1, LossPhase.DUE, NOW - 3),
        # An audit that was asked for during the maintenance is over with it.
        (ReplicaLoss(1, ended_ms=3), NOW - 1, 1, LossPhase.WAITING, NOW + 599_999),
    ],
)
def test_what_is_due_follows_from_the_time_of_the_loss(
    loss: ReplicaLoss, until_ms: int, missing: int, phase: LossPhase, at_ms: int
) -> None:
    """AR-R1 to AR-R3."""
    found = loss_standing(
        loss, RecoverySettings(), NOW, until_ms=until_ms, missing=missing
    )

    assert (phase, at_ms) == (found.phase, found.at_ms)
    assert found.why


def test_a_record_keeps_what_a_later_program_added() -> None:
    """And one that is none is refused."""
    loss = ReplicaLoss(5, "1-a", "h", "h:1", 6, 7, "why", {"plan": 3})

    assert loss == decode_loss(encode_loss(loss), "k")
    for raw in (b"", b"{}", encode_form({"since_ms": -1}), encode_form({})):
        with pytest.raises(FormatError):
            decode_loss(raw, "k")
