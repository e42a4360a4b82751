"""
The records of many sets of three brokers each, and decisions about them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from contest import Contender, Timed

from pystore.clocks import boottime_ns
from pystore.controller.decide.dispatch import decide
from pystore.controller.liveness.heartbeats import Heartbeat, Heartbeats
from pystore.controller.model.apply import apply_all
from pystore.controller.model.codec import encode
from pystore.controller.model.commands import (
    AlterSet,
    ApplyId,
    ChangeBroker,
    Command,
    Elect,
    Register,
    Trigger,
)
from pystore.controller.model.decision import Accepted
from pystore.controller.model.facts import Facts
from pystore.controller.model.state import SetState
from pystore.controller.server.broker_sets import BrokerSets
from pystore.controller.server.record_keys import LEADER, set_key
from pystore.controller.server.store_threads import StoreThreads
from pystore.records.lmdb_store import LmdbStore
from pystore.records.ops import Op, Put
from pystore.replicaset import Member

__all__ = ["Decisions", "write_sets"]

_CLUSTER = "cluster"
_BATCH = 500
_LONG_MS = 3_600_000
_STEP = 7919  # a prime: no two decisions in a row are about neighbours
_BROKERS = (1, 2, 3)


def write_sets(path: Path, count: int) -> None:
    """
    Writes the records of this number of sets, ``set-0`` and so on, each with a master
    and all three brokers in sync.
    """
    set_of_three = _set_of_three()
    store = LmdbStore(path)
    try:
        ops: list[Op] = []
        for number in range(count):
            state = replace(set_of_three, name=f"set-{number}")
            ops.append(Put(set_key(*state.key), encode(state)))
            if len(ops) == _BATCH or number == count - 1:
                store.commit(ops)
                ops = []
    finally:
        store.close()


def _set_of_three() -> SetState:
    state = SetState(_CLUSTER, "set-0")
    members = frozenset(map(Member, _BROKERS))
    commands: list[Command] = []
    for one in _BROKERS:
        address = f"127.0.0.1:{10911 + one}"
        commands += [ApplyId(one, f"{address};1"), Register(one, address)]
    commands += [Elect(Trigger.BROKER, 1), AlterSet(Member(1), 1, 1, members)]
    facts = _facts(_alive([state]), state)
    for command in commands:
        decision = decide(state, command, facts)
        assert isinstance(decision, Accepted), decision
        state = apply_all(state, decision.events)
    assert state.agreed.members == members
    return state


def _facts(liveness: Heartbeats, state: SetState) -> Facts:
    return Facts(liveness.last_heartbeats(state.key, boottime_ns()), may_replace=True)


def _alive(states: Iterable[SetState]) -> Heartbeats:
    """
    Heartbeats of all brokers of these sets.
    """
    liveness, now_ns = Heartbeats(), boottime_ns()
    for state in states:
        for one in _BROKERS:
            liveness.receive(
                state.key, Heartbeat(one, one, timeout_ms=_LONG_MS), now_ns
            )
    return liveness


class Decisions:
    """
    A term over records of `write_sets`; each decision is committed before the next
    command.

    Args:
        path: of the records.
        count: number of sets.
        repeats: number of timed decisions.

    Attributes:
        repeats: as given.
        processor_s: seconds of processor of each run.
    """

    def __init__(self, path: Path, count: int, repeats: int) -> None:
        self._path = path
        self._count = count
        self.repeats = repeats
        self._turn = 0
        self.processor_s: list[float] = []

    @property
    def contender(self) -> Contender:
        """
        Timed: a broker in each of many sets registers a new address.
        """
        return self._contend

    @contextmanager
    def _contend(self) -> Iterator[Timed]:
        store = LmdbStore(self._path)
        try:
            yield lambda: asyncio.run(self._run(store))
        finally:
            store.close()

    async def _run(self, store: LmdbStore) -> float:
        term = await asyncio.to_thread(store.campaign, LEADER, "bench")
        sets = BrokerSets(
            store,
            term,
            lambda state: _facts(liveness, state),
            lambda *_: None,
            lambda _: None,
            threads=StoreThreads(),
        )
        await asyncio.to_thread(sets.load)
        liveness = _alive(sets.state(names) for names in sets.names())
        running = asyncio.create_task(sets.run())
        await self._decide(sets, 10)
        began_s, used_s = time.perf_counter(), time.process_time()
        await self._decide(sets, self.repeats)
        taken_s = time.perf_counter() - began_s
        self.processor_s.append(time.process_time() - used_s)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return taken_s

    async def _decide(self, sets: BrokerSets, repeats: int) -> None:
        for _ in range(repeats):
            self._turn += 1
            names = _CLUSTER, f"set-{self._turn * _STEP % self._count}"
            change = ChangeBroker(_BROKERS[-1], priority=self._turn)
            outcome = await sets.ask(names, change)
            assert isinstance(outcome.decision, Accepted)
            assert outcome.decision.events
