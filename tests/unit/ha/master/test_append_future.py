"""
Appends that are made at once, and whose acks are asked for later.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.ha.ack_waits import AckWaits
from lib.ha.insync_fixture import EPOCH, LONG_MS, InSyncFixture
from lib.store.stores import fill, message

from pystore.core.waits import OffsetWaiters, WaitOutcome
from pystore.errors import FencedError, UnavailableError
from pystore.ha.insync.ack import Ack, AckOutcome, AckResult
from pystore.ha.insync.config import SetRules
from pystore.ha.master.append_future import AppendFuture, wait_all
from pystore.store.commit_log import CommitLog

TWO = SetRules(min_in_sync=2)
"""The master and one more."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    """An open log with a few records of our epoch."""
    with CommitLog(tmp_path, segment_size=1 << 16) as opened:
        opened.begin_epoch(EPOCH)
        fill(opened, 5)
        yield opened


def court_of_two(log: CommitLog, rules: SetRules | None = None) -> InSyncFixture:
    """A slave in the set, which has acked what there is."""
    fixture = InSyncFixture(log, 2, rules=rules)
    fixture.open(2, 12)
    fixture.ack(2, 12, log.end_offset)
    return fixture


def submit(fixture: InSyncFixture, ack: Ack = Ack.ALL) -> AppendFuture:
    """One more append."""
    return fixture.monitor.appends.submit(message(1).form, ack)


def outcomes(futures: list[AppendFuture]) -> list[AckOutcome]:
    """How they stand, without waiting."""
    return [one.outcome for one in wait_all(futures, 0, lambda: 0)]


def test_a_ticket_waits_for_nothing_until_it_is_asked(log: CommitLog) -> None:
    """It says what was promised, then what was reached; and may be asked again."""
    fixture = court_of_two(log)
    future = submit(fixture)
    before = future.wait(0)
    fixture.ack(2, 12, log.end_offset)
    after = future.wait(LONG_MS)

    assert log.end_offset == future.appended.end == after.end_offset
    assert (Ack.ALL, "all (legacy)") == (future.ack, after.promise)
    assert (AckOutcome.TIMED_OUT, AckOutcome.REACHED) == (before.outcome, after.outcome)
    assert [{1}, {1, 2}] == [before.received_by, after.received_by]
    assert (False, True) == (before.is_reached, after.is_reached)
    assert log.confirm_offset == future.appended.end


def test_each_of_many_tickets_has_an_answer_of_its_own(log: CommitLog) -> None:
    """Those below an ack are reached, those above are not; in the order asked for."""
    fixture = court_of_two(log)
    futures = [submit(fixture) for _ in range(6)]
    fixture.monitor.sent(futures[2].appended.end)
    fixture.ack(2, 12, futures[2].appended.end)
    mixed = futures[::2] + futures[1::2]

    expected = [AckOutcome.REACHED] * 3 + [AckOutcome.TIMED_OUT] * 3
    assert expected == outcomes(futures)
    assert expected[::2] + expected[1::2] == outcomes(mixed)
    ends = [one.end_offset for one in wait_all(mixed, 0, lambda: 0)]
    assert ends == [one.appended.end for one in mixed]


def test_waiting_for_many_tickets_is_one_wait(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the last one: the others are told without a call of the core."""
    fixture = court_of_two(log)
    futures = [submit(fixture) for _ in range(50)]
    waited: list[int] = []
    real = OffsetWaiters.wait

    def noted(
        self: OffsetWaiters, mark: int, end_offset: int, timeout_ms: int
    ) -> WaitOutcome:
        waited.append(end_offset)
        return real(self, mark, end_offset, timeout_ms)

    monkeypatch.setattr(OffsetWaiters, "wait", noted)
    answers: list[AckResult] = []
    asking = threading.Thread(
        target=lambda: answers.extend(wait_all(futures, LONG_MS, lambda: 0))
    )
    asking.start()
    while not fixture.monitor.appends.waiting:
        fixture.monitor.rest(1)
    fixture.ack(2, 12, log.end_offset)
    asking.join(LONG_MS / 1000)

    assert [AckOutcome.REACHED] * 50 == [one.outcome for one in answers]
    assert waited == [futures[-1].appended.end]


def test_the_time_of_many_tickets_is_one_for_all(log: CommitLog) -> None:
    """A wait for a hundred futures sleeps once."""
    fixture = court_of_two(log)
    futures = [submit(fixture) for _ in range(3)]
    clock = iter([1_000, 1_030, 1_060, 9_000])
    given: list[int] = []

    class Timed(AppendFuture):
        def wait(self, timeout_ms: int = 3_000) -> AckResult:
            given.append(timeout_ms)
            return super().wait(0)

    waits = fixture.monitor.appends
    timed = [Timed(one.appended, one.ack, waits, one.epoch) for one in futures]
    wait_all(timed, 50, lambda: next(clock))

    assert given == [20, -10, -7_950]


def test_an_append_whose_ack_cannot_be_reached_gets_no_future(log: CommitLog) -> None:
    """
    RMQ-R206: the minimum is looked at before the append, and nothing is in the log.
    """
    fixture = InSyncFixture(log, rules=TWO)
    end = log.end_offset

    for ack in (Ack.ALL, Ack.ALL_SYNCED):
        with pytest.raises(
            UnavailableError, match="has 1 replicas, and minInSyncReplicas is 2"
        ):
            submit(fixture, ack)
    assert end == log.end_offset
    assert submit(fixture, Ack.LEADER).wait().is_reached


def test_a_ticket_is_not_reached_with_fewer_copies_than_the_minimum(
    log: CommitLog,
) -> None:
    """RMQ-R216: looked at again when the ack completes; with enough of them it is."""
    fixture = court_of_two(log, TWO)
    future = submit(fixture)
    fixture.leave(2, 12)
    fixture.agree(2)
    alone = future.wait(0)

    assert log.confirm_offset == future.appended.end
    assert AckOutcome.NOT_ENOUGH is alone.outcome
    assert alone.received_by == {1}
    fixture.open(2, 13)
    fixture.agree(3, 2)
    assert not future.wait(0).is_reached
    fixture.ack(2, 13, log.end_offset)
    assert future.wait(0).received_by == {1, 2}
    assert future.wait(0).is_reached


def test_a_close_ends_open_futures_and_their_waiters(log: CommitLog) -> None:
    """Their answers need no open log any more."""
    fixture = court_of_two(log)
    futures = [submit(fixture, ack) for ack in (Ack.ALL, Ack.LEADER, Ack.LEADER_SYNCED)]
    fixture.ack(2, 12, log.end_offset)
    futures.append(submit(fixture))
    answers: list[AckResult] = []
    asking = threading.Thread(target=lambda: answers.append(futures[-1].wait(LONG_MS)))
    asking.start()
    while not fixture.monitor.appends.waiting:
        fixture.monitor.rest(1)
    fixture.monitor.close()
    asking.join(LONG_MS / 1000)
    fixture.monitor.notifier.close()
    log.close()

    assert [AckOutcome.FENCED] == [one.outcome for one in answers]
    # What the master alone decides is decided no more; what others hold, they hold.
    assert [AckOutcome.REACHED] + [AckOutcome.FENCED] * 3 == outcomes(futures)
    with pytest.raises(FencedError, match="this mastership is over"):
        submit(fixture)


def test_what_is_appended_behind_the_end_is_fenced(log: CommitLog) -> None:
    """Even below what was reached: there it lies only if that was cut away."""
    fixture = court_of_two(log)
    appended = submit(fixture).appended
    fixture.ack(2, 12, log.end_offset)
    before = fixture.monitor.appends.future(appended, Ack.ALL)
    fixture.monitor.close()
    behind = fixture.monitor.appends.future(appended, Ack.ALL)

    assert [AckOutcome.REACHED, AckOutcome.FENCED] == outcomes([before, behind])


def test_a_ticket_of_the_leader_needs_the_lease_when_it_is_asked(
    log: CommitLog,
) -> None:
    """B8: nothing that the master alone decides is decided without one."""
    fixture = court_of_two(log)
    fixture.lease_ms = 5
    futures = [submit(fixture, Ack.LEADER), submit(fixture, Ack.ALL)]
    fixture.ack(2, 12, log.end_offset)
    leased = outcomes(futures)
    fixture.now_ms = 6

    assert [AckOutcome.REACHED, AckOutcome.REACHED] == leased
    assert [AckOutcome.FENCED, AckOutcome.REACHED] == outcomes(futures)


def test_tickets_of_the_disk_sync_once(log: CommitLog) -> None:
    """The first wait syncs, for all appends below."""
    fixture = InSyncFixture(log)
    futures = [submit(fixture, Ack.LEADER_SYNCED) for _ in range(5)]

    futures[-1].wait(LONG_MS)
    assert futures[-1].appended.end <= log.writer.log.ends().synced_end
    settled = wait_all(futures, LONG_MS, lambda: 0)
    assert [{1}] * 5 == [one.flushed_by for one in settled]
    assert [AckOutcome.REACHED] * 5 == [one.outcome for one in settled]


class Story:
    """
    Facts by chance, and beside futures the waits that the simulation has.

    Args:
        fixture: to which they happen.
        draw: by what chance.
    """

    def __init__(self, fixture: InSyncFixture, draw: random.Random) -> None:
        self.fixture = fixture
        self._draw = draw
        self._waits = AckWaits(fixture.in_sync.ack_policy)
        self._version = 1
        self._session = 12
        self._held = fixture.log.end_offset
        self.futures: dict[int, AppendFuture] = {}
        self.waited: dict[int, AckOutcome] = {}

    def step(self) -> None:
        """One fact, and what it ends."""
        self._draw.choice([self._append] * 4 + [self._ack] * 4 + [self._move])()
        self.settle()

    def settle(self) -> None:
        """Ends the waits that are over."""
        for settled in self._waits.settle(0, None):
            self.waited[settled.end_offset] = settled.outcome

    def _append(self) -> None:
        try:
            future = submit(self.fixture)
        except UnavailableError:
            # Too few are in the set at this moment.
            return
        self.futures[future.appended.end] = future
        self._waits.begin(future.ack, future.appended.end, LONG_MS)

    def _ack(self) -> None:
        ends = [end for end in self.futures if end > self._held]
        if ends:
            self._held = self._draw.choice(ends)
            self.fixture.monitor.sent(self._held)
            self.fixture.ack(2, self._session, self._held)

    def _move(self) -> None:
        """The slave leaves the set and comes back, maybe without its last link."""
        self._version += 1
        if self._version % 2:
            self.fixture.agree(self._version, 2)
        else:
            self.fixture.leave(2, self._session)
            self.fixture.agree(self._version)
            self._session += 1
            self.fixture.open(2, self._session)
            self.fixture.ack(2, self._session, self._held)


@pytest.mark.parametrize("minimum", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_tickets_end_as_waiting_appends_do(
    log: CommitLog, minimum: int, seed: int
) -> None:
    """Whatever happens meanwhile, after every fact, and at the end of a mastership."""
    rules = SetRules(min_in_sync=minimum)
    story = Story(court_of_two(log, rules), random.Random(seed))
    for _ in range(150):
        story.step()
        futures = list(story.futures.values())
        reached = [one.wait(0).is_reached for one in futures]
        assert [end in story.waited for end in story.futures] == reached
    assert set(story.waited.values()) == {AckOutcome.REACHED}
    story.fixture.monitor.close()
    story.settle()
    for end, future in story.futures.items():
        expected = story.waited.get(end, AckOutcome.FENCED)
        assert expected is future.wait(0).outcome, end
