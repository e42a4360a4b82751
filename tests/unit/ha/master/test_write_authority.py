"""
The right to append, over a real log: with the lease, and with the mastership.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.store.stores import message

from pystore.clocks import boottime_ns, wall_ms
from pystore.core.log_writer import LogHandle
from pystore.errors import FencedError
from pystore.ha.insync.ack import Ack
from pystore.ha.master.lease import NO_LEASE, UNLEASED, Lease, lease_from
from pystore.ha.master.write_authority import WriteAuthority
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog

WAIT_S = 20
ALONE = (Ack.LEADER, Ack.LEADER_SYNCED)
SHARED = (Ack.ALL, Ack.ALL_SYNCED)


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[LogHandle]:
    """Of a log that is open for writing."""
    with CommitLog(tmp_path, segment_size=1 << 16) as log:
        yield log.writer.log


@pytest.fixture
def authority() -> WriteAuthority:
    """Without a mastership, with a clock that shows 500."""
    return WriteAuthority(lambda: 500)


def running() -> Lease:
    """
    Returns a lease of an hour.
    """
    return lease_from(boottime_ns(), wall_ms(), 3_600_000)


def test_no_append_is_admitted_before_a_mastership(authority: WriteAuthority) -> None:
    """RMQ-R156: the switch is not over yet."""
    with pytest.raises(FencedError, match="is over"):
        authority.append([message(1)], Ack.ALL)


def test_without_leases_every_ack_is_let_in(
    authority: WriteAuthority, handle: LogHandle
) -> None:
    """A controller that gives none limits nothing."""
    authority.begin(handle, 3, UNLEASED)
    ends = [authority.append([message(1)], ack).end for ack in Ack]

    assert ends == sorted(set(ends))
    assert authority.left_ms() is authority.lease_ms() is None


def test_a_lease_is_over_for_its_owner_when_it_is_for_the_core(
    handle: LogHandle,
) -> None:
    """C1: in its last fraction of a millisecond it runs, and no ack counts on it."""
    now_ns = 9_999_400_000
    authority = WriteAuthority(lambda: 500, (lambda: now_ns, lambda: 20_000))
    authority.begin(handle, 3, Lease(10_000_000_000, 30_000))

    assert (authority.left_ms(), authority.lease_ms()) == (1, 499)
    now_ns = 10_000_000_000
    assert (authority.left_ms(), authority.lease_ms()) == (0, 499)


def test_a_lapsed_lease_refuses_what_the_master_decides_alone(
    authority: WriteAuthority, handle: LogHandle
) -> None:
    """B8, C3: by the core, before a byte is written."""
    authority.begin(handle, 3, running())
    before = [authority.append([message(1)], ack).end for ack in Ack][-1]
    authority.renew(3, NO_LEASE)
    for ack in ALONE:
        with pytest.raises(FencedError, match="of epoch 3 has run out"):
            authority.append([message(1)], ack)
    assert handle.ends().published_end == before
    for ack in SHARED:
        authority.append([message(1)], ack)

    authority.renew(3, running())
    for ack in Ack:
        authority.append([message(1)], ack)


@pytest.mark.parametrize("lease", [Lease(0, 0), Lease(-5, 2**62), Lease(2**62, -1)])
def test_a_lease_from_before_the_clocks_began_has_run_out(
    authority: WriteAuthority, handle: LogHandle, lease: Lease
) -> None:
    """It is not taken for the end of the mastership."""
    authority.begin(handle, 3, lease)
    authority.append([message(1)], Ack.ALL)
    with pytest.raises(FencedError, match="has run out"):
        authority.append([message(1)], Ack.LEADER)


def test_a_lease_of_another_epoch_is_none_of_ours(
    authority: WriteAuthority, handle: LogHandle
) -> None:
    """Answers may come late."""
    authority.begin(handle, 3, NO_LEASE)
    authority.renew(2, running())
    authority.renew(4, running())
    with pytest.raises(FencedError):
        authority.append([message(1)], Ack.LEADER)


def test_the_judge_decides_by_the_same_lease(handle: LogHandle) -> None:
    """On its own clock, and a moment early rather than late."""
    now = {"boottime_ns": 7_000_000_000, "wall_ms": 900}
    authority = WriteAuthority(
        lambda: 500, (lambda: now["boottime_ns"], lambda: now["wall_ms"])
    )
    authority.begin(handle, 3, Lease(8_000_000_000, 2_900))
    assert authority.lease_ms() == 500 + 1_000 - 1
    now["wall_ms"] = 2_899
    assert authority.lease_ms() == 500
    now["wall_ms"] = 2_900
    assert authority.lease_ms() == 499


def test_after_the_end_nothing_is_appended(
    authority: WriteAuthority, handle: LogHandle
) -> None:
    """Not by the way of the log either; and another epoch's end is none."""
    authority.begin(handle, 3, UNLEASED)
    authority.revoke(2)
    authority.append([message(1)], Ack.ALL)
    authority.end(3)
    authority.end(3)
    for ack in Ack:
        with pytest.raises(FencedError, match="the mastership of epoch 3 is over"):
            authority.append([message(1)], ack)
    with pytest.raises(FencedError, match="has run out"):
        handle.append(message(1).form)


def test_the_end_waits_for_admitted_appends(
    authority: WriteAuthority, handle: LogHandle
) -> None:
    """B5: their bytes must not come to a log that follows by then."""
    authority.begin(handle, 3, UNLEASED)
    is_inside, may_go_on = threading.Event(), threading.Event()
    outcomes: list[BaseException] = []

    class Slow(list[Message]):
        def __iter__(self) -> Iterator[Message]:
            is_inside.set()
            assert may_go_on.wait(WAIT_S)
            return super().__iter__()

    def append() -> None:
        try:
            authority.append(Slow([message(1)]), Ack.ALL)
        except FencedError as error:
            # The core refuses late appends.
            outcomes.append(error)

    appending = threading.Thread(target=append)
    ending = threading.Thread(target=authority.end, args=(3,))
    appending.start()
    assert is_inside.wait(WAIT_S)
    ending.start()
    ending.join(0.05)
    assert ending.is_alive()
    may_go_on.set()
    ending.join(WAIT_S)
    appending.join(WAIT_S)

    assert not ending.is_alive()
    assert len(outcomes) == 1
    assert handle.ends().published_end == 0


def test_a_master_that_follows_lets_the_bytes_of_another_in(
    authority: WriteAuthority, handle: LogHandle, tmp_path: Path
) -> None:
    """The core's authority is that of the newer epoch then."""
    with CommitLog(tmp_path / "other", segment_size=1 << 16) as other:
        other.append(message(1))
        block = bytes(other.reader.acquire(0, 1 << 16))
    authority.begin(handle, 3, NO_LEASE)
    authority.end(3)
    authority.leave_to(5)
    handle.append_raw(0, block)

    assert handle.ends().published_end == len(block)
    with pytest.raises(FencedError, match="epoch 4 is over"):
        authority.begin(handle, 4, UNLEASED)


def test_a_hold_waits_for_admitted_appends_and_is_taken_back(
    authority: WriteAuthority, handle: LogHandle
) -> None:
    """What was admitted is in the log that the next master receives."""
    authority.begin(handle, 3, running())
    is_inside, may_go_on = threading.Event(), threading.Event()
    ends: list[int] = []

    class Slow(list[Message]):
        def __iter__(self) -> Iterator[Message]:
            is_inside.set()
            assert may_go_on.wait(WAIT_S)
            return super().__iter__()

    def append() -> None:
        ends.append(authority.append(Slow([message(1)]), Ack.LEADER).end)

    appending = threading.Thread(target=append)
    holding = threading.Thread(target=authority.hold, args=(3, 2))
    appending.start()
    assert is_inside.wait(WAIT_S)
    holding.start()
    holding.join(0.05)
    assert holding.is_alive()
    with pytest.raises(FencedError, match="handed over to broker 2"):
        authority.append([message(2)], Ack.LEADER)
    may_go_on.set()
    holding.join(WAIT_S)
    appending.join(WAIT_S)
    assert [handle.ends().published_end] == ends

    with pytest.raises(FencedError, match="handed over"):
        authority.append([message(2)], Ack.ALL)
    authority.renew(3, running())
    authority.release(3)
    assert authority.append([message(2)], Ack.LEADER).end > ends[0]


def test_a_mastership_that_ended_while_it_was_held_stays_over(
    authority: WriteAuthority, handle: LogHandle
) -> None:
    """The core refuses, too."""
    authority.begin(handle, 3, running())
    authority.hold(3, 2)
    with pytest.raises(FencedError, match="handed over"):
        authority.hold(3, 2)
    authority.end(3)
    authority.release(3)
    with pytest.raises(FencedError, match="is over"):
        authority.append([message(1)], Ack.LEADER)
