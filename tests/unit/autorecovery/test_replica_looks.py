"""
Looks at replicas whose answers take time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from lib.autorecovery.audits import ToldCluster, a_replica, a_set
from lib.autorecovery.marks import Clock

from pystore.autorecovery.replica_looks import ReplicaLooks
from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.segments.order import ReplicaStat

TIMEOUT_S = 30


class SlowCluster(ToldCluster):
    """Its replicas answer when the test lets them."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, a_set())
        self.gate = threading.Event()

    def stat(self, replica: ReplicaAddress) -> ReplicaStat:
        """See `ReplicaPeers.stat`."""
        assert self.gate.wait(TIMEOUT_S)
        return super().stat(replica)


@pytest.fixture
def slow() -> SlowCluster:
    """A set of three."""
    return SlowCluster(Clock())


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Real threads."""
    with ThreadPoolExecutor(4) as made:
        yield made


def answered(looks: ReplicaLooks) -> list[int]:
    """The replicas whose answers came, after all that are under way."""
    wait([future for _, _, future in looks._asked], TIMEOUT_S)
    return sorted(one.replica.broker_id for one in looks.answers(0))


def test_a_turn_does_not_wait_for_answers(
    slow: SlowCluster, pool: ThreadPoolExecutor
) -> None:
    """They come at a later turn, each once."""
    looks = ReplicaLooks(slow, pool)
    looks.follow(slow.all_sets())
    looks.begin_check()
    looks.ask(0)
    assert [] == looks.answers(0)
    assert (3, False) == (looks.left, looks.is_finished)
    looks.ask(0)
    slow.gate.set()
    assert [1, 2, 3] == answered(looks)
    assert [1, 2, 3] == sorted(one.broker_id for one in slow.asked)
    assert (0, True) == (looks.left, looks.is_finished)
    assert [] == looks.answers(0)


def test_an_answer_that_was_asked_for_before_a_check_does_not_count_for_it(
    slow: SlowCluster, pool: ThreadPoolExecutor
) -> None:
    """A file may have vanished since: an operator who asks for a check learns of it."""
    looks = ReplicaLooks(slow, pool)
    looks.follow(slow.all_sets())
    looks.begin_check()
    looks.ask(0)
    looks.begin_check()
    slow.gate.set()
    assert [1, 2, 3] == answered(looks)
    assert (3, False) == (looks.left, looks.is_finished)
    looks.ask(0)

    assert [1, 2, 3] == answered(looks)
    assert looks.is_finished
    assert 6 == len(slow.asked)


def test_an_answer_of_a_process_that_is_gone_does_not_count(
    slow: SlowCluster, pool: ThreadPoolExecutor
) -> None:
    """The next one is asked itself."""
    looks = ReplicaLooks(slow, pool)
    looks.follow(slow.all_sets())
    looks.begin_check()
    looks.ask(0)
    slow.come_back(2, process=2)
    slow.die(3)
    looks.follow(slow.all_sets())
    slow.gate.set()
    assert [1] == answered(looks)
    assert looks.stat(a_replica(2)) is None
    assert 1 == looks.left
    looks.ask(0)

    assert [2] == answered(looks)
    assert looks.is_finished


def test_no_more_than_some_looks_are_under_way(
    slow: SlowCluster, pool: ThreadPoolExecutor
) -> None:
    """The others wait for their turn."""
    looks = ReplicaLooks(slow, pool, at_once=2)
    looks.follow(slow.all_sets())
    looks.begin_check()
    looks.ask(0)
    looks.ask(0)
    slow.gate.set()
    assert [1, 2] == answered(looks)
    looks.ask(0)

    assert [3] == answered(looks)
