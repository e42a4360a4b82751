"""
The histories of sets in the record store.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from pystore.controller.server.controller_events import (
    SetChangeCommitted,
    SetCommandRefused,
)
from pystore.controller.server.record_keys import LEADER, history_key
from pystore.controller.server.set_history import (
    CHANGES_MAX,
    REFUSALS_MAX,
    SetHistory,
)
from pystore.controller.server.store_threads import CallKind, StoreThreads
from pystore.errors import SessionLostError
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.records.ops import Put
from pystore.records.term import Term

SET = ("c", "b")
LIMIT_S = 20


def _change(number: int, name: str = "b") -> SetChangeCommitted:
    return SetChangeCommitted(
        time_ms=number,
        controller="h:1",
        cluster_name="c",
        broker_name=name,
        master_epoch=1,
        asked_by="h:2",
        command="Register",
        version=number,
        change="BrokerRegistered",
        values={},
        sentence=f"sentence {number}",
    )


def _refusal(number: int, reason: str = "no") -> SetCommandRefused:
    return SetCommandRefused(
        time_ms=number,
        controller="h:1",
        cluster_name="c",
        broker_name="b",
        master_epoch=1,
        asked_by="h:2",
        command="Register",
        code=2012,
        reason=reason,
        broker_ids=[],
    )


class _Records:
    """
    A record store with faults.

    Attributes:
        space: the records.
        faults: of the next commits.
        has_space: whether they may grow.
    """

    def __init__(self) -> None:
        self.space = MemorySpace()
        self.faults: list[Fault] = []
        self.has_space = True

    def led(self) -> tuple[MemoryStore, Term]:
        """
        Returns a session that leads.
        """
        store = MemoryStore(self.space, faults=self._fault)
        return store, store.campaign(LEADER, "me")

    def _fault(self, verb: str) -> Fault:
        is_next = verb == "commit" and bool(self.faults)
        return self.faults.pop(0) if is_next else Fault.NONE

    def stored(self, key: str = history_key(*SET)) -> list[bytes]:
        """
        Returns the lines of a set in the records.
        """
        record = MemoryStore(self.space).get(key)
        return record.value.split(b"\n") if record is not None else []


@asynccontextmanager
async def _running(records: _Records) -> AsyncIterator[SetHistory]:
    store, term = records.led()
    history = SetHistory(store, term, StoreThreads(), lambda: records.has_space)
    task = asyncio.create_task(history.run())
    try:
        yield history
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        store.close()


async def _numbers(history: SetHistory) -> list[int]:
    rows = [json.loads(one) for one in await history.read(SET)]
    return [int(one["time"][-4:-1]) for one in rows]


async def _until_stored(records: _Records, count: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while len(records.stored()) < count:
            await asyncio.sleep(0.01)


def test_the_next_leader_continues_the_history() -> None:
    """
    A session is over; what was stored is there, and what is new comes after it.
    """

    async def main() -> None:
        records = _Records()
        async with _running(records) as history:
            history.note(_change(1))
            assert [1] == await _numbers(history)
            await _until_stored(records, 1)
            history.note(_change(2))
            assert [1, 2] == await _numbers(history)
            await _until_stored(records, 2)
        async with _running(records) as history:
            assert [1, 2] == await _numbers(history)
            history.note(_change(3))
            await _until_stored(records, 3)
            assert [1, 2, 3] == await _numbers(history)

    asyncio.run(main())


def test_a_history_is_bounded_and_refusals_push_no_change_out() -> None:
    """
    Neither by their number nor by their length.
    """

    async def main() -> None:
        records = _Records()
        async with _running(records) as history:
            for number in range(CHANGES_MAX + 5):
                history.note(_change(number))
            for number in range(200, 200 + REFUSALS_MAX + 5):
                history.note(_refusal(number))
            changes = list(range(5, CHANGES_MAX + 5))
            refusals = list(range(205, 200 + REFUSALS_MAX + 5))
            assert [*changes, *refusals] == await _numbers(history)
            await _until_stored(records, CHANGES_MAX + REFUSALS_MAX)
            for number in range(300, 320):
                history.note(_refusal(number, "r" * 1500))
            assert sum(map(len, await history.read(SET))) <= 32_768
            assert 319 == (await _numbers(history))[-1]

    asyncio.run(main())


def test_events_wait_for_a_record_store_that_refuses() -> None:
    """
    They are asked for meanwhile as well.
    """

    async def main() -> None:
        records = _Records()
        async with _running(records) as history:
            records.faults = [Fault.UNREACHABLE]
            history.note(_change(1))
            async with asyncio.timeout(LIMIT_S):
                while records.faults:
                    await asyncio.sleep(0.01)
            history.note(_change(2))
            assert [1, 2] == await _numbers(history)
            await _until_stored(records, 2)
            assert [1, 2] == await _numbers(history)

    asyncio.run(main())


def test_events_that_are_stored_during_a_reading_are_read() -> None:
    """
    The store was read just before, and they wait no more just after.
    """

    async def main() -> None:
        records = _Records()
        store, term = records.led()
        history = SetHistory(store, term, StoreThreads(), lambda: True)
        history.note(_change(1))

        whole = history._threads.run

        async def run(
            _: CallKind, call: Callable[..., object], *args: object
        ) -> object:
            found = call(*args)
            history._threads.run = whole  # type: ignore[method-assign]
            await history.flush()
            return found

        history._threads.run = run  # type: ignore[method-assign, assignment]
        assert [1] == await _numbers(history)

    asyncio.run(main())


def test_histories_of_many_sets_share_commits() -> None:
    """
    Each has its own key.
    """

    async def main() -> None:
        records = _Records()
        async with _running(records) as history:
            for number in range(120):
                history.note(_change(number, f"b{number}"))
            last = history_key("c", "b119")
            async with asyncio.timeout(LIMIT_S):
                while not records.stored(last):
                    await asyncio.sleep(0.01)
            assert all(
                1 == len(records.stored(history_key("c", f"b{number}")))
                for number in range(120)
            )

    asyncio.run(main())


def test_a_record_store_without_space_takes_no_history() -> None:
    """
    Elections need the rest.
    """

    async def main() -> None:
        records = _Records()
        records.has_space = False
        async with _running(records) as history:
            history.note(_change(1))
            async with asyncio.timeout(LIMIT_S):
                while await history.read(SET):
                    await asyncio.sleep(0.01)
            assert [] == records.stored()

    asyncio.run(main())


def test_the_end_of_a_term_stores_what_is_there() -> None:
    """
    Also what was being written just then, and once.
    """

    async def main() -> None:
        records = _Records()
        store, term = records.led()
        history = SetHistory(store, term, StoreThreads(), lambda: True)
        history.note(_change(1))
        history._writing, history._pending = history._pending, {}
        history.note(_change(2))
        await history.flush()
        assert 2 == len(records.stored())
        await history.flush()
        assert [1, 2] == await _numbers(history)
        records.faults = [Fault.UNREACHABLE]
        history.note(_change(3))
        await history.flush()
        assert 2 == len(records.stored())

    asyncio.run(main())


def test_a_controller_that_leads_no_more_writes_nothing() -> None:
    """
    The history belongs to the next leader.
    """

    async def main() -> None:
        records = _Records()
        store, term = records.led()
        history = SetHistory(store, term, StoreThreads(), lambda: True)
        other = MemoryStore(records.space)
        other.commit([Put(LEADER, b"another")])
        history.note(_change(1))
        with pytest.raises(SessionLostError):
            async with asyncio.timeout(LIMIT_S):
                await history.run()
        assert [] == records.stored()

    asyncio.run(main())
