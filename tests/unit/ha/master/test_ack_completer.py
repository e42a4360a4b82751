"""
Coroutines and functions wait for acks of a real master with a real slave.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lib.ha.master_fixture import EPOCH, MasterStage, Slave
from lib.store.stores import message

from pystore.clocks import clock_ms
from pystore.errors import FencedError, InvalidError, PoisonedError
from pystore.ha.insync.ack import Ack, AckOutcome, AckResult
from pystore.ha.insync.config import SetRules
from pystore.ha.master.ack_completer import AckCompleter
from pystore.ha.master.append_future import AppendFuture
from pystore.ha.master.lease import UNLEASED
from pystore.ha.master.service import END_MS
from pystore.ha.master.write_authority import WriteAuthority
from pystore.replicaset import AgreedSet, Incarnation, Member

WAIT_S = 20
WAIT_MS = 1000 * WAIT_S
TWO = AgreedSet(frozenset({Member(1), Member(2, Incarnation(1))}), 1)
"""A set whose member 2 acks only when a test starts it."""
SELDOM: dict[str, Any] = {"heartbeat_ms": 10**6, "housekeeping_ms": 10**7}
"""No heartbeat of a link sends anything within a test."""


@contextmanager
def pair(root: Path, **changes: Any) -> Iterator[MasterStage]:
    """A master with one slave that is in its set."""
    with (
        MasterStage(root / "master", **changes) as stage,
        Slave(stage.service.address, root / "slave"),
    ):
        stage.controller.wait_for({1, 2})
        yield stage
        stage.service.close()


@contextmanager
def stalled(root: Path, **changes: Any) -> Iterator[MasterStage]:
    """A master of a set of two whose slave does not run, and whose set stays."""
    with MasterStage(root / "master", agreed=TWO, ask=None, **changes) as stage:
        yield stage


def submit(stage: MasterStage, ack: Ack = Ack.ALL, number: int = 1) -> AppendFuture:
    """Appends one record."""
    return stage.service.submit(message(number), ack)


def threads() -> list[str]:
    """The threads of completers that run now."""
    names = [one.name for one in threading.enumerate()]
    return sorted(one for one in names if one.startswith("pystore-ha-acks"))


async def awaited(future: AppendFuture) -> AckResult:
    """Awaits a future, as a coroutine of its own."""
    return await future


async def until(is_so: Any) -> None:
    """Lets the event loop run until something is so."""
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("ack", list(Ack))
def test_an_awaited_append_gets_the_result_of_a_wait(tmp_path: Path, ack: Ack) -> None:
    """The ack, the offset and the replicas that have it."""

    async def run() -> tuple[AckResult, AckResult]:
        future = submit(stage, ack)
        ended = await future
        return ended, future.wait(WAIT_MS)

    with pair(tmp_path) as stage:
        ended, waited = asyncio.run(run())

        assert (ack, waited.end_offset) == (ended.ack, ended.end_offset)
        assert AckOutcome.REACHED is ended.outcome
        assert {1} if not ack.is_shared else {1, 2} <= ended.received_by
        assert not ack.is_synced or 1 in ended.flushed_by
        assert ack is not Ack.ALL_SYNCED or {1, 2} == ended.flushed_by


@pytest.mark.parametrize("ack", list(Ack))
def test_a_master_alone_ends_an_awaited_append_by_itself(
    tmp_path: Path, ack: Ack
) -> None:
    """No ack of a slave follows, and the future needs none."""
    with MasterStage(tmp_path / "master") as stage:
        ended = asyncio.run(asyncio.wait_for(awaited(submit(stage, ack)), WAIT_S))

        assert AckOutcome.REACHED is ended.outcome


def test_thousands_of_coroutines_await_their_acks(tmp_path: Path) -> None:
    """Each gets the result of its own append, from one thread of the mastership."""

    async def one(number: int) -> tuple[int, AckResult]:
        future = submit(stage, Ack.ALL, number)
        return future.appended.end, await future

    async def run() -> list[tuple[int, AckResult]]:
        return await asyncio.gather(*map(one, range(4_000)))

    with pair(tmp_path) as stage:
        before = threads()
        ended = asyncio.run(run())

        assert ([], ["pystore-ha-acks"]) == (before, threads())
        assert [end for end, _ in ended] == [one.end_offset for _, one in ended]
        assert {AckOutcome.REACHED} == {one.outcome for _, one in ended}
    assert [] == threads()


def test_a_submitted_append_and_a_blocking_wait_start_no_thread(tmp_path: Path) -> None:
    """Only a callback or an await that has to wait starts the completer."""
    with pair(tmp_path) as stage:
        futures = [submit(stage) for _ in range(100)]
        ended = stage.service.wait_all(futures, WAIT_MS)
        again = asyncio.run(awaited(futures[0]))

        assert [AckOutcome.REACHED] * 101 == [one.outcome for one in (*ended, again)]
        assert [] == threads()


def test_two_event_loops_await_one_mastership(tmp_path: Path) -> None:
    """Each loop gets the results of its own futures, and of shared ones."""
    ended: list[list[AckResult]] = []

    def run(shared: AppendFuture) -> None:
        async def work() -> list[AckResult]:
            own = [awaited(submit(stage)) for _ in range(500)]
            return await asyncio.gather(awaited(shared), *own)

        ended.append(asyncio.run(work()))

    with pair(tmp_path) as stage:
        shared = submit(stage)
        loops = [threading.Thread(target=run, args=(shared,)) for _ in range(2)]
        for one in loops:
            one.start()
        for one in loops:
            one.join(WAIT_S)

    assert [501, 501] == list(map(len, ended))
    assert {AckOutcome.REACHED} == {one.outcome for each in ended for one in each}


def test_a_cancelled_await_loses_nothing(tmp_path: Path) -> None:
    """Others get their acks, and the same future may be awaited again."""

    async def run() -> list[AckResult]:
        futures = [submit(stage) for _ in range(300)]
        tasks = [asyncio.create_task(awaited(one)) for one in futures]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        gone = await asyncio.gather(*tasks[::2], return_exceptions=True)
        assert {asyncio.CancelledError} == set(map(type, gone))
        with Slave(stage.service.address, tmp_path / "slave"):
            kept = await asyncio.gather(*tasks[1::2])
            return kept + await asyncio.gather(*map(awaited, futures[::2]))

    with stalled(tmp_path) as stage:
        ended = asyncio.run(run())

        assert 300 == len({one.end_offset for one in ended})
        assert {AckOutcome.REACHED} == {one.outcome for one in ended}


def test_a_timeout_around_an_await_ends_it_and_the_append_stays(tmp_path: Path) -> None:
    """`asyncio.timeout` works as around any coroutine."""

    async def run() -> AckResult:
        future = submit(stage)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await future
        with Slave(stage.service.address, tmp_path / "slave"):
            return await future

    with stalled(tmp_path) as stage:
        assert AckOutcome.REACHED is asyncio.run(run()).outcome


def test_cancelled_awaits_free_their_memory(tmp_path: Path) -> None:
    """A caller that tries again and again for one append does not fill the memory."""

    async def run() -> None:
        future = submit(stage)
        for _ in range(2_000):
            task = asyncio.create_task(awaited(future))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await until(lambda: completer.watched < 200)

    with stalled(tmp_path) as stage:
        completer = stage.service.monitor.appends._completer
        asyncio.run(run())


def test_a_closed_event_loop_stops_no_other(tmp_path: Path) -> None:
    """Its coroutines are gone; the futures of other loops get their acks."""
    gone = asyncio.new_event_loop()

    async def begin(future: AppendFuture) -> None:
        waiting.append(asyncio.create_task(awaited(future)))
        await asyncio.sleep(0)

    async def run() -> AckResult:
        task = asyncio.create_task(awaited(submit(stage)))
        await asyncio.sleep(0)
        with Slave(stage.service.address, tmp_path / "slave"):
            return await task

    waiting: list[asyncio.Task[AckResult]] = []
    with stalled(tmp_path) as stage:
        gone.run_until_complete(begin(submit(stage)))
        gone.close()
        ended = asyncio.run(run())
        # What a closed loop leaves behind is reported when it is freed.
        waiting[0]._log_destroy_pending = False  # type: ignore[attr-defined]

    assert AckOutcome.REACHED is ended.outcome


@pytest.mark.parametrize("is_replica", [False, True], ids=["service", "replica"])
def test_an_append_that_no_coroutine_awaits_is_sent_too(
    tmp_path: Path, is_replica: bool
) -> None:
    """The event loop sends it; no heartbeat of the link does within the test."""

    async def run() -> None:
        await append(0)
        for number in range(1, 4):
            await until(lambda: stage.service.monitor.notifier.waiting == 2)
            future = append(number)
            await until(
                lambda end=future.appended.end: slave.log.log().received_offset >= end
            )

    with (
        MasterStage(tmp_path / "master", SELDOM) as stage,
        Slave(stage.service.address, tmp_path / "slave", **SELDOM) as slave,
    ):
        stage.controller.wait_for({1, 2})
        authority = WriteAuthority(clock_ms)
        authority.begin(stage.log.writer.log, EPOCH, UNLEASED)

        def append(number: int) -> AppendFuture:
            appends = stage.service.monitor.appends
            if not is_replica:
                return submit(stage, Ack.ALL, number)
            is_quiet = appends.is_sent_soon(Ack.ALL)
            appended = authority.append([message(number)], Ack.ALL, is_quiet=is_quiet)
            assert is_quiet == (number > 0)
            return appends.future(appended, Ack.ALL)

        asyncio.run(run())


def test_an_event_loop_sends_once_for_all_coroutines_that_are_ready() -> None:
    """And again for those that append later."""
    sent: list[int] = []
    completer = AckCompleter(lambda *_: None, sent.append, lambda: sent.append(1))

    async def append() -> bool:
        return completer.sends_soon()

    async def run() -> None:
        waiting = asyncio.create_task(completer.wait(Ack.ALL, 1))
        await asyncio.sleep(0)
        for number in range(1, 4):
            assert [True] * 5 == await asyncio.gather(*(append() for _ in range(5)))
            assert completer.has_unsent == (len(sent) < number)
            await asyncio.sleep(0)
            assert ([1] * number, False) == (sent, completer.has_unsent)
        waiting.cancel()

    assert not completer.sends_soon()
    asyncio.run(run())
    assert not completer.sends_soon()
    completer.close()
    completer.join(WAIT_MS)


def test_a_wait_that_blocks_an_event_loop_sends_what_that_would(tmp_path: Path) -> None:
    """The loop cannot, and the wait would wait for itself."""

    async def run() -> None:
        waiting = asyncio.create_task(awaited(submit(stage)))
        await asyncio.sleep(0)
        future = submit(stage)
        before = notifier.count
        assert AckOutcome.TIMED_OUT is future.wait(1).outcome
        assert before < notifier.count
        waiting.cancel()

    with stalled(tmp_path) as stage:
        notifier = stage.service.monitor.notifier
        asyncio.run(run())


class Calls:
    """
    Functions that were called for acks.
    """

    def __init__(self) -> None:
        self.results: list[AckResult] = []
        self.threads: set[str] = set()
        self._more = threading.Condition()

    def __call__(self, future: AppendFuture) -> None:
        """Notes a result."""
        with self._more:
            self.results.append(future.result())
            self.threads.add(threading.current_thread().name)
            self._more.notify_all()

    def wait_for(self, count: int) -> None:
        """Waits until so many results are here."""
        with self._more:
            assert self._more.wait_for(lambda: len(self.results) >= count, WAIT_S)


@pytest.mark.parametrize("ack", list(Ack))
def test_a_function_is_called_once_with_the_result(tmp_path: Path, ack: Ack) -> None:
    """In the thread of the completer, also for an ack that was reached before."""
    calls = Calls()
    with pair(tmp_path) as stage:
        futures = [submit(stage, ack) for _ in range(200)]
        for one in futures:
            one.add_done_callback(calls)
        calls.wait_for(200)
        futures[0].wait(WAIT_MS)
        futures[0].add_done_callback(calls)
        calls.wait_for(201)

    assert [one.appended.end for one in (*futures, futures[0])] == [
        one.end_offset for one in calls.results
    ]
    assert {AckOutcome.REACHED} == {one.outcome for one in calls.results}
    assert {"pystore-ha-acks"} == calls.threads


@pytest.mark.parametrize("error", [ValueError("bad callback"), SystemExit(3)])
def test_a_function_that_raises_is_logged_and_others_are_called(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    """One line with the traceback, by the logger of replication."""
    calls = Calls()

    def fail(_: AppendFuture) -> None:
        raise error

    with caplog.at_level(logging.ERROR, "pystore.ha"), pair(tmp_path) as stage:
        first, second = submit(stage), submit(stage)
        first.add_done_callback(fail)
        second.add_done_callback(calls)
        calls.wait_for(1)

    (record,) = caplog.records
    assert ("pystore.ha", error) == (record.name, (record.exc_info or [None] * 2)[1])
    assert second.appended.end == calls.results[0].end_offset


@pytest.mark.parametrize("is_alone", [False, True], ids=["set of two", "alone"])
def test_a_function_that_is_called_may_append_again(
    tmp_path: Path, is_alone: bool
) -> None:
    """Each result brings the next append, a thousand times."""
    done = threading.Event()
    ends: list[int] = []

    def again(future: AppendFuture) -> None:
        ends.append(future.result().end_offset)
        if len(ends) == 1_000:
            done.set()
        else:
            submit(stage).add_done_callback(again)

    started = MasterStage(tmp_path / "master") if is_alone else pair(tmp_path)
    with started as stage:
        submit(stage).add_done_callback(again)
        assert done.wait(WAIT_S)
    assert sorted(set(ends)) == ends


def test_a_result_is_there_only_after_the_call(tmp_path: Path) -> None:
    """Before, the error says what to use."""
    with stalled(tmp_path) as stage:
        future = submit(stage)
        with pytest.raises(InvalidError, match="use wait or await"):
            future.result()


@pytest.mark.parametrize("is_newer", [False, True], ids=["closed", "newer epoch"])
def test_the_end_of_a_mastership_ends_all_awaits_and_calls(
    tmp_path: Path, is_newer: bool
) -> None:
    """Fenced, within the time that the end may take, and later ones at once (B8)."""
    calls = Calls()

    async def run() -> list[AckResult]:
        futures = [submit(stage) for _ in range(1_000)]
        for one in futures[:10]:
            one.add_done_callback(calls)
        tasks = [asyncio.create_task(awaited(one)) for one in futures]
        await asyncio.sleep(0)
        if is_newer:
            stage.service.monitor.step_down(EPOCH + 1)
        else:
            begun_ms = clock_ms()
            await asyncio.to_thread(stage.service.close)
            assert clock_ms() - begun_ms < 10 * END_MS
        async with asyncio.timeout(WAIT_S):
            ended = await asyncio.gather(*tasks)
            return [*ended, await futures[0]]

    with stalled(tmp_path) as stage:
        ended = asyncio.run(run())
        calls.wait_for(10)
        with pytest.raises(FencedError):
            submit(stage)

    assert 1_001 == len(ended)
    outcomes = {one.outcome for one in (*ended, *calls.results)}
    assert {AckOutcome.FENCED} == outcomes
    assert [] == threads()


def test_a_function_for_a_future_of_an_ended_mastership_is_called_at_once(
    tmp_path: Path,
) -> None:
    """In the calling thread: the mastership has no thread any more."""
    calls = Calls()
    with stalled(tmp_path) as stage:
        future = submit(stage)
        stage.service.close()
        future.add_done_callback(calls)

    assert [AckOutcome.FENCED] == [one.outcome for one in calls.results]
    assert {threading.current_thread().name} == calls.threads


def test_a_function_that_blocks_does_not_hold_the_end_of_a_mastership(
    tmp_path: Path,
) -> None:
    """B13: the end is bounded, whatever callers do."""
    begun, goes_on = threading.Event(), threading.Event()

    def block(_: AppendFuture) -> None:
        begun.set()
        goes_on.wait(WAIT_S)

    with pair(tmp_path) as stage:
        submit(stage).add_done_callback(block)
        assert begun.wait(WAIT_S)
        begun_ms = clock_ms()
        stage.service.close()
        taken_ms = clock_ms() - begun_ms
        goes_on.set()

    assert taken_ms < 10 * END_MS


def test_a_function_may_close_the_service(tmp_path: Path) -> None:
    """The thread does not wait for itself, and tells the others."""
    calls = Calls()
    with pair(tmp_path) as stage:
        submit(stage).add_done_callback(lambda _: stage.service.close())
        submit(stage).add_done_callback(calls)
        calls.wait_for(1)


def test_an_await_ends_when_the_set_is_smaller_than_the_minimum(tmp_path: Path) -> None:
    """RMQ-R216: all members hold the append, and they are too few."""

    async def run() -> AckResult:
        future = submit(stage)
        task = asyncio.create_task(awaited(future))
        await asyncio.sleep(0)
        alone = AgreedSet(frozenset({Member(1)}), 2)
        stage.service.monitor.agreed(alone)
        return await asyncio.wait_for(task, WAIT_S)

    with stalled(tmp_path, rules=SetRules(min_in_sync=2)) as stage:
        ended = asyncio.run(run())

    assert AckOutcome.NOT_ENOUGH is ended.outcome
    assert {1} == ended.received_by


@pytest.mark.parametrize("ack", [Ack.LEADER_SYNCED, Ack.ALL_SYNCED])
def test_a_failed_disk_ends_awaits_of_synced_acks(tmp_path: Path, ack: Ack) -> None:
    """Each gets an error of its own; acks without disks are not touched."""
    calls: list[type[Exception]] = []
    called = threading.Event()

    def note(future: AppendFuture) -> None:
        with pytest.raises(PoisonedError) as caught:
            future.result()
        calls.append(type(caught.value))
        called.set()

    async def run() -> list[AckResult | BaseException]:
        shared = submit(stage)
        futures = [submit(stage, ack) for _ in range(3)]
        (tmp_path / "master" / "lock").unlink()
        futures[0].add_done_callback(note)
        return await asyncio.gather(
            *map(awaited, (shared, *futures)), return_exceptions=True
        )

    stage = MasterStage(tmp_path / "master")
    with Slave(stage.service.address, tmp_path / "slave"):
        stage.controller.wait_for({1, 2})
        ended = asyncio.run(asyncio.wait_for(run(), WAIT_S))
        assert called.wait(WAIT_S)
        stage.service.close()
    with pytest.raises(PoisonedError):
        stage.log.close()

    assert isinstance(ended[0], AckResult)
    assert [PoisonedError] * 3 == list(map(type, ended[1:]))
    assert 3 == len(set(map(id, ended[1:])))
    assert [PoisonedError] == calls


@pytest.mark.parametrize("seed", range(4))
def test_awaits_end_as_blocking_waits_do(tmp_path: Path, seed: int) -> None:
    """Whatever acks, cancellations and loops are mixed."""
    draw = random.Random(seed)

    async def one(number: int) -> AckOutcome | None:
        await asyncio.sleep(draw.random() / 50)
        future = submit(stage, draw.choice(list(Ack)), number)
        if draw.random() < 0.3:
            future.add_done_callback(calls)
            expected.append(1)
        try:
            async with asyncio.timeout(draw.choice([0, 0.001, None])):
                outcome = (await future).outcome
        except TimeoutError:
            outcome = None
        waited = await asyncio.to_thread(future.wait, WAIT_MS)
        assert outcome in (None, waited.outcome)
        return outcome

    async def run() -> set[AckOutcome | None]:
        return set(await asyncio.gather(*map(one, range(150))))

    calls, expected = Calls(), list[int]()
    with pair(tmp_path) as stage:
        outcomes = asyncio.run(run())
        calls.wait_for(len(expected))
    assert {AckOutcome.REACHED} == outcomes - {None}, f"seed {seed}"
