"""
When a lease is over at the broker, and when controllers believe so (B8, C1 to C3).
"""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from lib.controller.broker_set_driver import incarnation
from lib.remoting.skewed_clocks import MS, SOON, Clock, clocks, delays, pauses

from pystore.controller.liveness.authority import Authority
from pystore.controller.liveness.clock_skew import FAST, SLOW
from pystore.controller.liveness.leases import Leases
from pystore.controller.model.state import SetState
from pystore.ha.master.lease import Lease, lease_from
from pystore.records.term import Term
from pystore.replicaset import Member

MASTER = Member(1, incarnation(1))
STATE = SetState("cluster", "set", master=MASTER, epoch=1)
OVER = SetState("cluster", "set", epoch=2, unreleased=frozenset({MASTER}))


@example(Clock(SLOW, 0), Clock(FAST, 0), 0, [0], 0)
@example(Clock(SLOW, 0), Clock(FAST, 0), 12_300 * MS, [0, 8_000 * MS], 15_000 * MS)
@given(clocks, clocks, pauses, st.lists(delays, min_size=1, max_size=3), delays)
def test_a_lease_has_expired_when_its_controller_assumes_so(
    broker: Clock, controller: Clock, sent: int, delayed: list[int], session: int
) -> None:
    """
    At the very moment, however late heartbeats arrive, in whatever order.
    """
    began_ns = controller.ns(0)
    term = Term("", "", 1, controller.ns(sent), session or None)
    leases = Leases(Authority(term, began_ns))
    held: list[Lease] = []
    for late in delayed:
        now_ns = controller.ns(sent + late + SOON)
        length_ms = leases.grant(STATE, MASTER, 1, 10_000, now_ns)
        if length_ms:
            sent_ns = broker.ns(sent)
            held.append(lease_from(sent_ns, sent_ns // MS, length_ms))

    due_ns = leases.due_ns(OVER)

    assert due_ns is not None
    _all_over(held, broker, controller.when(due_ns))


def _all_over(held: list[Lease], broker: Clock, now: int) -> None:
    now_ns = broker.ns(now)
    assert [] == [one for one in held if one.left_ms(now_ns, now_ns // MS) > 0]


TIGHT = Clock(SLOW, 0), Clock(FAST, 0), Clock(SLOW, 0), Clock(FAST, 0)


@example(TIGHT, None, (0, 0.0, 0, 0, 0))
@example(TIGHT, None, (0, 0.0, 0, 5_000 * MS, 0))
@example(TIGHT, 6_000, (0, 0.0, 0, 0, 0))
@example(TIGHT, 6_000, (0, 0.9, 0, 0, 0))
@given(
    st.tuples(clocks, clocks, clocks, clocks),
    st.none() | st.sampled_from((6_000, 10_000, 40_000)),
    st.tuples(delays, st.floats(0, 1), delays, delays, delays),
)
def test_a_lease_has_expired_when_the_next_controller_assumes_so(
    four: tuple[Clock, Clock, Clock, Clock],
    session_ms: int | None,
    times: tuple[int, float, int, int, int],
) -> None:
    """
    It saw no grant. With sessions the lease ends even before another controller leads;
    with the lock of a process the next one leads as soon as this one died.
    """
    broker, server, old, new = four
    there, share, under_way, campaign, back = times
    length_ns = None if session_ms is None else session_ms * MS
    authority = Authority(Term("", "", 1, old.ns(0), length_ns), old.ns(0))
    heard_ns = old.ns(0)
    if authority.until_ns is not None:
        heard_ns += int((authority.until_ns - 1 - heard_ns) * share)
    heard = max(old.when(heard_ns), under_way + SOON)
    sent_ns = broker.ns(heard - under_way - SOON)

    length_ms = Leases(authority).grant(
        STATE, MASTER, 1, 10_000, max(heard_ns, old.ns(heard))
    )
    held = [lease_from(sent_ns, sent_ns // MS, length_ms)] if length_ms else []

    made = heard
    if length_ns is not None:
        # The servers have forgotten the session, at the earliest.
        made = server.when(server.ns(there) + length_ns)
        _all_over(held, broker, made + SOON)
    term = Term("", "", 2, new.ns(made - campaign), length_ns)
    next_one = Authority(term, new.ns(made + back))
    _all_over(held, broker, new.when(next_one.replaces_at_ns) + SOON)
    due_ns = Leases(next_one).due_ns(OVER)
    assert due_ns is not None
    _all_over(held, broker, new.when(due_ns) + SOON)
