"""
What a worker knows of a copy follows from definite answers alone.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pystore.autorecovery.copy_look import (
    CopyLook,
    CopyState,
    checked,
    first_look,
    told,
)
from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.controller.model.log_end import LogBegin
from pystore.controller.protocol.set_descriptions import BrokerDescription
from pystore.seals import BLOCK_BYTES
from pystore.segments.order import OrderOutcome, OrderProgress, ReplicaStat

SIZE = 4 * BLOCK_BYTES
REPLICA = ReplicaAddress("cluster", "set", 2, "host:1")
BROKER = BrokerDescription(
    2, "host:1", is_alive=True, incarnation="1-a", begin=LogBegin(0)
)
STAT = ReplicaStat("1-a", SIZE, 9 * SIZE, 8 * SIZE, SIZE, "host:2")


def look(state: CopyState = CopyState.UNCHECKED) -> CopyLook:
    """
    Of a copy that was asked for.
    """
    return replace(
        CopyLook(REPLICA, state, "", "1-a", address="host:2", blocks=4), state=state
    )


@pytest.mark.parametrize(
    ("broker", "state"),
    [
        (BROKER, CopyState.UNCHECKED),
        (replace(BROKER, is_alive=False), CopyState.DEAD),
        (replace(BROKER, incarnation=None), CopyState.UNVERIFIED),
        (replace(BROKER, incarnation=None, is_alive=False), CopyState.DEAD),
        (replace(BROKER, address=""), CopyState.UNKNOWN),
        (replace(BROKER, is_alive=False, is_ill=True), CopyState.UNCHECKED),
    ],
)
def test_what_the_controller_says_decides_who_is_asked(
    broker: BrokerDescription, state: CopyState
) -> None:
    """
    A broker of RocketMQ is not; one whose store cannot be opened is.
    """
    assert state is first_look(REPLICA, broker, is_master=False).state


@pytest.mark.parametrize(
    ("stat", "base", "state"),
    [
        (STAT, 7 * SIZE, CopyState.UNCHECKED),
        (STAT, 8 * SIZE, CopyState.BEHIND),
        (STAT, 0, CopyState.OUTSIDE),
        (replace(STAT, incarnation="2-a"), 7 * SIZE, CopyState.UNKNOWN),
        (replace(STAT, problems={SIZE: "short"}), SIZE, CopyState.DAMAGED),
        (replace(STAT, problems={SIZE: "short"}), 2 * SIZE, CopyState.UNCHECKED),
        (replace(STAT, segment_size=SIZE * 5), SIZE, CopyState.UNVERIFIED),
    ],
)
def test_the_answer_of_a_replica_decides_what_is_read(
    stat: ReplicaStat, base: int, state: CopyState
) -> None:
    """
    Only settled segments are looked at (A22).
    """
    assert state is told(look(), BROKER, stat, base).state


def test_a_replica_that_is_ill_answers_as_a_process_that_registers_nowhere() -> None:
    """
    What it lacks is damaged, the others are to be read.
    """
    broker = replace(BROKER, is_alive=False, is_ill=True)
    stat = replace(STAT, incarnation="0-b", problems={2 * SIZE: "missing"})
    found = [told(look(), broker, stat, base) for base in (SIZE, 2 * SIZE)]

    assert [CopyState.UNCHECKED, CopyState.DAMAGED] == [one.state for one in found]
    assert all(one.is_ill for one in found)


def test_what_an_ill_replica_lacks_above_its_settled_end_is_to_be_repaired() -> None:
    """
    It does not open without; what is there is left to replication. Beside a broker of
    RocketMQ one epoch may name several masterships.
    """
    broker = replace(BROKER, is_alive=False, is_ill=True)
    stat = replace(STAT, end=10 * SIZE, holes={9 * SIZE: "missing"})
    hole, whole = (told(look(), broker, stat, one * SIZE) for one in (9, 8))
    mixed = told(look(), broker, stat, 9 * SIZE, is_mixed=True)

    assert (CopyState.DAMAGED, CopyState.BEHIND) == (hole.state, whole.state)
    assert (True, False) == (hole.is_unsettled, hole.is_tried)
    assert not hole.is_source
    assert mixed.is_tried
    assert "epochs prove nothing" in mixed.text


def test_what_was_repaired_is_told_as_what_was_before() -> None:
    """
    Also after it was read once more: no copy is good and damaged in one line.
    """
    damaged = replace(look(CopyState.DAMAGED), why="1 of 4 blocks are bad")
    done = OrderProgress(OrderOutcome.REPAIRED, "1 of 4 blocks are bad")
    found = checked(damaged, done)
    again = checked(found, OrderProgress(OrderOutcome.WHOLE))

    text = "broker 2 at host:1 is good: repaired; before: 1 of 4 blocks are bad"
    assert [text, text] == [one.text for one in (found, again)]
    assert again.is_repaired
    whole = checked(look(), OrderProgress(OrderOutcome.WHOLE))
    assert ("broker 2 at host:1 is good", False) == (whole.text, whole.is_repaired)


def test_a_filling_replica_lacks_what_is_below_its_log() -> None:
    """
    The next one is that below its first segment.
    """
    broker = replace(BROKER, begin=LogBegin(2 * SIZE, is_filling=True))
    stat = replace(STAT, begin=2 * SIZE)
    found = [told(look(), broker, stat, base) for base in (0, SIZE)]

    assert [CopyState.LACKING] * 2 == [one.state for one in found]
    assert [False, True] == [one.is_next for one in found]


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (OrderOutcome.WHOLE, CopyState.GOOD),
        (OrderOutcome.REPAIRED, CopyState.GOOD),
        (OrderOutcome.DAMAGED, CopyState.DAMAGED),
        (OrderOutcome.DIVERGENT, CopyState.DIVERGENT),
        (OrderOutcome.FAILED, CopyState.UNKNOWN),
        (OrderOutcome.GONE, CopyState.UNKNOWN),
        (OrderOutcome.UNMENDED, CopyState.UNKNOWN),
    ],
)
def test_the_end_of_a_check_is_damage_only_if_it_says_so(
    outcome: OrderOutcome, state: CopyState
) -> None:
    """
    A job that failed has read nothing (AR-R6).
    """
    assert state is checked(look(), OrderProgress(outcome)).state


@pytest.mark.parametrize(
    ("state", "bad", "is_source"),
    [
        (CopyState.GOOD, (), True),
        (CopyState.DAMAGED, (1,), True),
        (CopyState.DAMAGED, (0, 1, 2, 3), False),
        *((one, (), False) for one in CopyState if one.name not in {"GOOD", "DAMAGED"}),
    ],
)
def test_only_what_was_read_is_a_source(
    state: CopyState, bad: tuple[int, ...], is_source: bool
) -> None:
    """
    Of a damaged copy the blocks that are not bad.
    """
    assert is_source is replace(look(state), bad_blocks=bad).is_source


def test_a_copy_that_nothing_serves_is_no_source() -> None:
    """
    It may be whole all the same.
    """
    assert not replace(look(CopyState.GOOD), address="").is_source
