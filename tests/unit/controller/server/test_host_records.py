"""
The records of hosts in the record store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from lib.values import replace

from pystore.controller.protocol.host_descriptions import (
    HostDescription,
    HostedReplica,
    decode_hosts,
)
from pystore.controller.server.host_records import HostRecords
from pystore.controller.server.hosts import Hosts
from pystore.controller.server.record_keys import HOSTS, LEADER, host_key
from pystore.controller.server.store_threads import StoreThreads
from pystore.errors import SessionLostError
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.records.ops import Put

LIMIT_S = 20
S = 1_000_000_000


def host(name: str) -> HostDescription:
    """
    A host that carries a replica, as its record has it.
    """
    return HostDescription(f"{name}:1", "r", replicas=(HostedReplica("c", name, 1),))


class _Records:
    """
    A record store with faults.

    Attributes:
        space: the records.
        faults: of the next commits.
        commits: how many there were.
        has_space: whether they may grow.
        said: lines for people.
    """

    def __init__(self) -> None:
        self.space = MemorySpace()
        self.faults: list[Fault] = []
        self.commits = 0
        self.has_space = True
        self.said: list[str] = []

    def _fault(self, verb: str) -> Fault:
        self.commits += verb == "commit"
        is_next = verb == "commit" and bool(self.faults)
        return self.faults.pop(0) if is_next else Fault.NONE

    def stored(self) -> list[HostDescription]:
        """
        Returns the records.
        """
        rows = MemoryStore(self.space).scan(HOSTS)
        return [one for row in rows for one in decode_hosts(row.value)]

    async def until(self, is_so: Callable[[], bool]) -> None:
        """
        Waits until something is so.
        """
        async with asyncio.timeout(LIMIT_S):
            while not is_so():
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def term(self) -> AsyncIterator[tuple[Hosts, HostRecords]]:
        """
        A session that leads, whose hosts are loaded.
        """
        store = MemoryStore(self.space, faults=self._fault)
        term = store.campaign(LEADER, "me")
        hosts = Hosts(lambda *_: True)
        records = HostRecords(
            store,
            term,
            StoreThreads(),
            hosts,
            has_space=lambda: self.has_space,
            say=self.said.append,
        )
        records.load(S)
        task = asyncio.create_task(records.run())
        try:
            yield hosts, records
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            store.close()


def test_the_next_leader_knows_the_hosts_that_carry_replicas() -> None:
    """
    As silent ones; many of them share a commit, and what is the same commits nothing.
    """

    async def main() -> None:
        records = _Records()
        some = [host(f"h{number:02}") for number in range(25)]
        async with records.term() as (hosts, written):
            before = records.commits
            for one in some:
                hosts.receive(one, 10_000, S)
            written.changed()
            await records.until(lambda: records.stored() == some)
            await records.until(lambda: not hosts.due)
            assert 3 == records.commits - before
            hosts.receive(replace(some[0], free_bytes=0, rack="r"), 10_000, 2 * S)
            written.changed()
            await asyncio.sleep(0)
            assert 3 == records.commits - before
        async with records.term() as (hosts, _):
            told = hosts.after("", 99, 3 * S)
            assert [
                replace(one, is_alive=False, since_ms=2_000) for one in some
            ] == told
            assert {} == hosts.due

    asyncio.run(main())


def test_records_wait_for_a_record_store_that_refuses() -> None:
    """
    Such as for a moment; without space only what makes room is written.
    """

    async def main() -> None:
        records = _Records()
        async with records.term() as (hosts, written):
            records.faults = [Fault.UNREACHABLE, Fault.LOST_ANSWER]
            hosts.receive(host("a"), 10_000, S)
            written.changed()
            await records.until(lambda: not hosts.due)
            assert [host("a")] == records.stored()
            records.has_space = False
            hosts.receive(host("b"), 10_000, S)
            hosts.receive(replace(host("a"), replicas=()), 10_000, S)
            written.changed()
            await records.until(lambda: records.stored() == [])
            assert ["b:1"] == list(hosts.due)
            records.has_space = True
            written.changed()
            await records.until(lambda: records.stored() == [host("b")])

    asyncio.run(main())


def test_a_forgotten_host_is_unknown_to_the_next_leader() -> None:
    """
    Also one that was heard, and whose record is not written yet. One without a record
    is fine.
    """

    async def main() -> None:
        records = _Records()
        async with records.term() as (hosts, written):
            for name in ("a", "b"):
                hosts.receive(host(name), 10_000, S)
            written.changed()
            await records.until(lambda: len(records.stored()) == 2)
            hosts.receive(replace(host("a"), rack="other"), 10_000, 2 * S)
            written.changed()
            await written.forget("a:1")
            await written.forget("nobody:1")
            await records.until(lambda: not hosts.due)
            await asyncio.sleep(0.3)
            assert [host("b")] == records.stored()
        async with records.term() as (hosts, _):
            assert ["b:1"] == [one.address for one in hosts.after("", 9, S)]

    asyncio.run(main())


def test_an_unreadable_record_hides_no_other() -> None:
    """
    It is told, and written anew once its host is heard.
    """

    async def main() -> None:
        records = _Records()
        store = MemoryStore(records.space)
        for name, value in (("a", b"no JSON"), ("b", b'{"hosts":[]}')):
            store.commit([Put(host_key(f"{name}:1"), value)])
        async with records.term() as (hosts, written):
            assert [] == hosts.after("", 9, S)
            assert 2 == len(records.said)
            assert all("unknown until it is heard" in one for one in records.said)
            hosts.receive(host("a"), 10_000, S)
            hosts.receive(host("b"), 10_000, S)
            written.changed()
            await records.until(lambda: not hosts.due)
        assert [host("a"), host("b")] == records.stored()

    asyncio.run(main())


def test_a_term_that_is_over_writes_and_forgets_nothing() -> None:
    """
    C2: another leader may know better.
    """

    async def main() -> None:
        records = _Records()
        async with records.term() as (hosts, written):
            hosts.receive(host("a"), 10_000, S)
            written.changed()
            await records.until(lambda: not hosts.due)
            records.space.rows.pop(LEADER)
            with pytest.raises(SessionLostError):
                await written.forget("a:1")
            assert hosts.find("a:1", S) is not None
        assert [host("a")] == records.stored()

    asyncio.run(main())
