"""
Functions are called for acks of a real master with a real slave.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

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
)
from lib.ha.master_fixture import MasterStage

from pystore.clocks import clock_ms
from pystore.errors import FencedError, InvalidError
from pystore.ha.insync.ack import Ack, AckOutcome, AckResult
from pystore.ha.master.append_future import AppendFuture
from pystore.ha.master.service import END_MS


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


def test_the_end_of_a_mastership_ends_all_awaits_and_calls(tmp_path: Path) -> None:
    """Fenced, within the time that the end may take, and later ones at once (B8)."""
    calls = Calls()

    async def run() -> list[AckResult]:
        futures = [submit(stage) for _ in range(1_000)]
        for one in futures[:10]:
            one.add_done_callback(calls)
        tasks = [asyncio.create_task(awaited(one)) for one in futures]
        await asyncio.sleep(0)
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
    assert [] == completer_threads()


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
