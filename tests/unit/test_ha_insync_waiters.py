"""
Waits end by offset, and by time.
"""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pystore.ha.insync.ack import Ack, Outcome
from pystore.ha.insync.waiters import Ended, Waiters


def settle(waiters: Waiters, completed: dict[Ack, int], now_ms: int) -> list[Ended]:
    """Ends what is complete, and what has run out."""
    return waiters.settle(
        lambda ack, end: Outcome.REACHED if end <= completed.get(ack, 0) else None,
        lambda _ack, _end: Outcome.TIMED_OUT,
        now_ms,
    )


def test_each_ack_has_an_offset_of_its_own() -> None:
    """
    R218: what ends one ack's waits does not end another's.
    """
    waiters = Waiters()
    for ack in Ack:
        waiters.add(ack, 100, 1_000)

    (ended,) = settle(waiters, {Ack.ALL: 100}, 0)
    assert Ack.ALL is ended[1]
    assert 3 == len(waiters)


def test_the_next_deadline_is_one_of_an_open_wait() -> None:
    """
    Nobody is woken for a wait that is over, for longer than one settling.
    """
    waiters = Waiters()
    assert waiters.next_deadline() is None
    waiters.add(Ack.ALL, 10, 500)
    waiters.add(Ack.ALL, 20, 1_000)
    settle(waiters, {Ack.ALL: 10}, 0)
    assert 1_000 == waiters.next_deadline()
    settle(waiters, {}, 1_000)

    assert (None, 0) == (waiters.next_deadline(), len(waiters))


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(1, 100)), max_size=60))
def test_every_wait_ends_exactly_once(waits: list[tuple[int, int]]) -> None:
    """
    Reached if its end was passed by its deadline, timed out if not.
    """
    waiters = Waiters()
    random = Random(len(waits))
    acked = [0]
    for _ in range(100):
        acked.append(min(100, acked[-1] + random.randint(0, 2)))
    tickets = {waiters.add(Ack.ALL, end, due): (end, due) for end, due in waits}
    ended: dict[int, Outcome] = {}
    for now in range(101):
        for ticket, _, _, outcome in settle(waiters, {Ack.ALL: acked[now]}, now):
            assert ticket not in ended
            ended[ticket] = outcome

    assert ended == {
        ticket: Outcome.REACHED if acked[due] >= end else Outcome.TIMED_OUT
        for ticket, (end, due) in tickets.items()
    }
