"""
Coroutines await acks of a real master with a real slave.
"""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from lib.ha.completer_fixture import (
    WAIT_MS,
    WAIT_S,
    Calls,
    awaited,
    completer_threads,
    pair,
    stalled,
    submit,
    until,
)
from lib.ha.master_fixture import EPOCH, MasterStage, Slave
from lib.store.stores import message

from pystore.clocks import clock_ms
from pystore.errors import PoisonedError
from pystore.ha.insync.ack import Ack, AckOutcome, AckResult
from pystore.ha.insync.config import SetRules
from pystore.ha.master.ack_completer import AckCompleter
from pystore.ha.master.append_future import AppendFuture
from pystore.ha.master.lease import UNLEASED
from pystore.ha.master.write_authority import WriteAuthority
from pystore.replicaset import AgreedSet, Member

SELDOM: dict[str, Any] = {"heartbeat_ms": 10**6, "housekeeping_ms": 10**7}
"""No heartbeat of a link sends anything within a test."""


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
        before = completer_threads()
        ended = asyncio.run(run())

        assert ([], ["pystore-ha-acks"]) == (before, completer_threads())
        assert [end for end, _ in ended] == [one.end_offset for _, one in ended]
        assert {AckOutcome.REACHED} == {one.outcome for _, one in ended}
    assert [] == completer_threads()


def test_a_submitted_append_and_a_blocking_wait_start_no_thread(tmp_path: Path) -> None:
    """Only a callback or an await that has to wait starts the completer."""
    with pair(tmp_path) as stage:
        futures = [submit(stage) for _ in range(100)]
        ended = stage.service.wait_all(futures, WAIT_MS)
        again = asyncio.run(awaited(futures[0]))

        assert [AckOutcome.REACHED] * 101 == [one.outcome for one in (*ended, again)]
        assert [] == completer_threads()


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
        # The first await that has to wait starts the completer.
        while not stage.service.monitor.appends.is_sent_soon(Ack.ALL):
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
            assert is_quiet or not number
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
