"""
The search for the leader: one bounded round for all waiting callers.
"""

from __future__ import annotations

import asyncio

import pytest
from lib.remoting.virtual_time_loop import move, run, until

from pystore.controller.client.discovery import Discovery
from pystore.controller.client.leader_lookup import LeaderLookup, look_up
from pystore.controller.protocol.calls import CallUnanswered, Metadata
from pystore.errors import ClosedError

SILENT = CallUnanswered("silent")


class Stage:
    """
    Controllers with prepared answers.

    Attributes:
        answers: by address; other addresses do not answer.
        asked: the addresses, in order.
        names: their addresses.
        lookups: the number of look-ups.
        gate: requests wait for it.
    """

    def __init__(self, *addresses: str) -> None:
        self.answers: dict[str, Metadata] = {}
        self.asked: list[str] = []
        self.names: dict[str, list[str]] = {}
        self.lookups = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.search = LeaderLookup(
            Discovery(addresses, 1000), self._ask, self._look_up, 1000
        )

    async def _ask(self, address: str, timeout_ms: int) -> Metadata | CallUnanswered:
        assert 1000 == timeout_ms
        self.asked.append(address)
        await self.gate.wait()
        return self.answers.get(address, SILENT)

    async def _look_up(self, name: str) -> list[str]:
        self.lookups += 1
        if name == "hanging:1":
            await asyncio.Event().wait()
        if name not in self.names:
            raise OSError("no such name")
        return self.names[name]


def test_all_callers_wait_for_the_same_round() -> None:
    """Each address is asked once."""

    async def main() -> None:
        stage = Stage("a:1", "b:1")
        stage.answers["b:1"] = Metadata(is_leader=True)
        stage.gate.clear()
        waiting = [asyncio.create_task(stage.search.find()) for _ in range(5)]
        await until(lambda: stage.asked)
        stage.gate.set()
        assert [""] * 5 == await asyncio.gather(*waiting)
        assert "b:1" == stage.search.leader
        assert ["a:1", "b:1"] == stage.asked
        assert "" == await stage.search.find()
        assert 2 == stage.lookups

    run(main())


def test_a_round_without_a_leader_ends_and_the_next_one_is_new() -> None:
    """Callers pause before the next round, which resolves the names again (RMQ-R3)."""

    async def main() -> None:
        stage = Stage("pods:1")
        stage.names["pods:1"] = ["a:1", "b:1"]
        reason = "no controller leads: a:1 silent; b:1 silent"
        assert reason == await stage.search.find()
        assert stage.search.leader is None
        stage.names["pods:1"] = ["c:1"]
        stage.answers["c:1"] = Metadata(is_leader=True)
        assert "" == await stage.search.find()
        assert ("c:1",) == stage.search.known
        assert "c:1" == stage.search.leader

    run(main())


def test_a_slow_name_does_not_delay_the_round() -> None:
    """Its previous addresses are asked, and the new ones of other names."""

    async def main() -> None:
        stage = Stage("hanging:1", "pods:1")
        stage.names["pods:1"] = ["b:1"]
        stage.answers["b:1"] = Metadata(is_leader=True)
        finding = asyncio.create_task(stage.search.find())
        await until(lambda: stage.lookups == 2)
        move(1001)
        assert "" == await finding
        assert (["hanging:1", "b:1"], "b:1") == (stage.asked, stage.search.leader)

    run(main())


def test_a_cancelled_caller_ends_no_other_call() -> None:
    """The round continues for the other callers."""

    async def main() -> None:
        stage = Stage("a:1")
        stage.answers["a:1"] = Metadata(is_leader=True)
        stage.gate.clear()
        one, other = (asyncio.create_task(stage.search.find()) for _ in range(2))
        await until(lambda: stage.asked)
        one.cancel()
        stage.gate.set()
        assert "" == await other
        assert one.cancelled()

    run(main())


def test_closing_fails_waiting_calls() -> None:
    """And again is fine."""

    async def main() -> None:
        stage = Stage("a:1")
        stage.gate.clear()
        waiting = asyncio.create_task(stage.search.find())
        await until(lambda: stage.asked)
        await stage.search.close()
        await stage.search.close()
        with pytest.raises(ClosedError, match="the controller client is closed"):
            await waiting

    run(main())


@pytest.mark.parametrize("steps", range(4))
def test_a_caller_that_is_cancelled_while_the_search_closes_is_cancelled(
    steps: int,
) -> None:
    """Not failed: nobody waits for it any more."""

    async def main() -> None:
        stage = Stage("a:1")
        stage.gate.clear()
        calling = asyncio.create_task(stage.search.find())
        await until(lambda: stage.asked)
        closing = asyncio.create_task(stage.search.close())
        for _ in range(steps):
            await asyncio.sleep(0)
        if calling.cancel():
            with pytest.raises(asyncio.CancelledError):
                await calling
        await closing

    run(main())


def test_a_name_is_looked_up_and_an_address_stays() -> None:
    """By the system."""
    assert ["127.0.0.1:9878"] == asyncio.run(look_up("127.0.0.1:9878"))
    assert ["[::1]:9878"] == asyncio.run(look_up("[::1]:9878"))
    assert "127.0.0.1:9878" in asyncio.run(look_up("localhost:9878"))
