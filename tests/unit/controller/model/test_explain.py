"""
The reason why a replica is not in sync, in one line.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.controller.broker_set_driver import incarnation

from pystore.controller.model.explain import why_barred, why_missing
from pystore.controller.model.facts import Facts, LastHeartbeat
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replica import LogStanding, RegisteredBroker
from pystore.controller.model.state import SetState
from pystore.replicaset import AgreedSet, Member

FIRST = RegisteredBroker(1, "h1:1;1", "h1:1", incarnation(1))
SECOND = RegisteredBroker(2, "h2:1;1", "h2:1", incarnation(1))
MASTER = LastHeartbeat(incarnation(1), LogEnd(3, 1000))
STATE = SetState(
    "c", "s", 9, 3, (FIRST, SECOND), is_founded=True, master=FIRST.member, epoch=3,
    agreed=AgreedSet(frozenset({FIRST.member}), 4),
)  # fmt: skip


def test_a_broker_of_a_rebuilt_record_has_to_register() -> None:
    """Whether it is a member or not."""
    for one in (FIRST, SECOND):
        unheard = replace(one, address="")
        assert "did not register" in why_missing(STATE, Facts({1: MASTER}), unheard)


def _why(last_heartbeats: dict[int, LastHeartbeat], **changed: object) -> str:
    replica = replace(SECOND, **changed)  # type: ignore[arg-type]
    return why_missing(STATE, Facts(last_heartbeats), replica)


def test_a_member_is_not_missing() -> None:
    """As the process that is listed, not by its id alone (B1)."""
    facts = Facts({1: MASTER})
    assert "" == why_missing(STATE, facts, FIRST)
    restarted = replace(FIRST, incarnation=incarnation(2))
    assert Member(1, incarnation(2)) not in STATE.agreed.members
    assert "another process" in why_missing(STATE, facts, restarted)


@pytest.mark.parametrize(
    ("epoch", "end", "line"),
    [
        (3, 400, "it is 600 bytes behind the master"),
        (2, 2000, "its log ends in epoch 2, the master's log in epoch 3"),
        (3, 1000, "the master has not requested its admission yet"),
    ],
)
def test_a_sound_replica_is_behind_or_has_to_wait(
    epoch: int, end: int, line: str
) -> None:
    """How far, by its heartbeat."""
    own = LastHeartbeat(incarnation(1), LogEnd(epoch, end))
    assert line == _why({1: MASTER, 2: own})


def test_the_reason_names_the_operators_next_step() -> None:
    """Other reasons need no operator."""
    both = {1: MASTER, 2: MASTER}
    assert "it is a learner" == _why(both, is_learner=True)
    assert "its heartbeats do not arrive" == _why({1: MASTER})
    assert "there is no live master to admit it" == _why({2: MASTER})
    assert "readmitBroker" in _why(both, standing=LogStanding.COPIED)
    assert "readmitBroker" in _why(both, standing=LogStanding.WIPED)
    assert "its restart may have lost" in _why(both, standing=LogStanding.RESTARTED)
    assert "it cut bytes" in _why(both, standing=LogStanding.LOSSY)


@pytest.mark.parametrize("standing", [None, *LogStanding])
def test_a_broker_is_barred_only_until_an_operator_decides(
    standing: LogStanding | None,
) -> None:
    """Restarts and cuts need none: the master admits the broker by itself."""
    needs_operator = standing in (LogStanding.COPIED, LogStanding.WIPED)
    assert needs_operator == ("readmitBroker" in why_barred(standing))
    assert needs_operator == bool(why_barred(standing))
