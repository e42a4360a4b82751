"""
Good copies of a set, and when one of them may go.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pystore.autorecovery.set_copies import (
    good_copies,
    is_good,
    is_whole,
    living_master,
    missing_without,
    set_size,
    successor_of,
)
from pystore.controller.model.log_end import LogBegin, LogEnd
from pystore.controller.model.replica import LogStanding
from pystore.controller.protocol.set_descriptions import (
    BrokerDescription,
    SetDescription,
)

GOOD = BrokerDescription(
    1,
    is_alive=True,
    incarnation="1",
    begin=LogBegin(100),
    end=LogEnd(1, 900),
    is_in_sync=True,
)
DEAD = replace(GOOD, is_alive=False)
FILLING = replace(GOOD, begin=LogBegin(800, is_filling=True))


def a_set(*brokers: BrokerDescription, copies: int = 0) -> SetDescription:
    """
    With these brokers, the first one the master.
    """
    numbered = (replace(one, broker_id=n) for n, one in enumerate(brokers, 1))
    return SetDescription("c", "s", master_id=1, copies=copies, brokers=(*numbered,))


@pytest.mark.parametrize(
    "bad",
    [
        DEAD,
        FILLING,
        replace(GOOD, is_in_sync=False),
        replace(GOOD, standing=LogStanding.WIPED),
    ],
)
def test_a_copy_is_good_by_the_controller_s_word(bad: BrokerDescription) -> None:
    """
    Alive, in the SyncStateSet, and not filling.
    """
    assert (True, False) == (is_good(GOOD), is_good(bad))
    assert (True, False) == (is_whole(GOOD), is_whole(bad))
    assert 2 == good_copies(a_set(GOOD, bad, GOOD))


def test_a_learner_is_whole_and_no_good_copy() -> None:
    """
    It is never in the SyncStateSet.
    """
    one = replace(GOOD, is_learner=True, is_in_sync=False)
    assert (True, False) == (is_whole(one), is_good(one))


def test_a_good_copy_goes_only_if_there_are_enough_without_it() -> None:
    """
    I5: the replaced one and the new one have one place.
    """
    both = [frozenset({2, 4})]
    assert () == missing_without(a_set(GOOD, GOOD, GOOD, GOOD), 2, both)
    for third in (DEAD, FILLING):
        described = a_set(GOOD, GOOD, third, GOOD)
        (why,) = missing_without(described, 2, both)
        assert why.startswith("broker 3 is ")
    assert ("3 are wanted",) == missing_without(a_set(GOOD, GOOD, GOOD), 2, both)


def test_a_copy_that_is_not_good_may_go() -> None:
    """
    The set loses nothing.
    """
    for one in (DEAD, FILLING):
        assert () == missing_without(a_set(GOOD, one), 2, [])
    assert () == missing_without(a_set(GOOD), 9, [])


def test_a_set_needs_no_more_copies_than_an_operator_said() -> None:
    """
    Fewer than it has members; more than it has count as many as it has.
    """
    three = a_set(GOOD, GOOD, DEAD, GOOD, copies=2)
    assert () == missing_without(three, 2, [])
    assert missing_without(replace(three, copies=9), 2, [])


def test_what_may_be_gone_already_does_not_count() -> None:
    """
    Two replacements of one set retire at the same time.
    """
    places = [frozenset({1, 4}), frozenset({2, 5})]
    described = a_set(GOOD, GOOD, DEAD, GOOD, GOOD)
    assert () == missing_without(described, 1, places)
    assert missing_without(described, 1, places, going=[2])


def test_the_last_good_copy_never_goes() -> None:
    """
    Whatever was said about the set.
    """
    assert missing_without(a_set(GOOD, DEAD, copies=0), 1, [frozenset({1, 2})])


def test_a_mastership_goes_to_a_good_copy_of_pystore_that_stays() -> None:
    """
    A Java broker is never chosen.
    """
    java = replace(GOOD, incarnation=None)
    described = a_set(GOOD, java, FILLING, GOOD, GOOD)
    one = successor_of(described, {1, 4})
    assert one is not None
    assert 5 == one.broker_id
    assert successor_of(described, {1, 4, 5}) is None


def test_the_size_of_a_set_is_that_of_its_longest_log() -> None:
    """
    A log that begins late has less.
    """
    assert 800 == set_size(a_set(FILLING, GOOD))
    assert 0 == set_size(SetDescription("c", "s"))


def test_a_dead_master_is_none() -> None:
    """
    Nothing is filled from it.
    """
    assert living_master(a_set(DEAD)) is None
    assert living_master(SetDescription("c", "s", master_id=3)) is None
    assert living_master(a_set(GOOD)) is not None
