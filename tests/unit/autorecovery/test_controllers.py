"""
The leading controller as threads of AutoRecovery ask it, over real sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from lib.controller.controller_server import Running, SpokenBroker, running

from pystore.autorecovery.controllers import LeadingControllers
from pystore.controller.client.client import ControllerClient
from pystore.controller.server.record_keys import set_key
from pystore.errors import ClosedError, FormatError, UnavailableError
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import Put

TIMEOUT_S = 30


class _LaterLoop(asyncio.SelectorEventLoop):
    """
    An event loop whose clock a test puts forward.
    """

    ahead_s = 0.0

    def time(self) -> float:
        """
        See `asyncio.AbstractEventLoop.time`.
        """
        return super().time() + self.ahead_s


class Served:
    """
    A controller in a thread of its own, in real time.

    Args:
        space: of its records.
    """

    def __init__(self, space: MemorySpace | None = None) -> None:
        self._space = space
        self._loop = _LaterLoop()
        self._began: Future[Running] = Future()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self.at = self._began.result(TIMEOUT_S)

    def do(self, call: Callable[[], Any]) -> Any:
        """
        Runs a coroutine on its loop.
        """
        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(TIMEOUT_S)

    def later(self, seconds: float) -> None:
        """
        Puts its clock forward.
        """
        self._loop.ahead_s += seconds

    def close(self) -> None:
        """
        Ends it.
        """
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(TIMEOUT_S)
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        async with running(self._space) as at:
            self._began.set_result(at)
            await self._end.wait()


@pytest.fixture
def served() -> Iterator[Served]:
    """One controller, and a broker that joined."""
    one = Served()
    one.do(SpokenBroker(one.at, 1).join)
    yield one
    one.close()


def told_by(*addresses: str) -> LeadingControllers:
    """Asks with a short time-out."""
    return LeadingControllers(lambda: ControllerClient(addresses, timeout_ms=2000))


def test_all_sets_are_told_with_how_long_the_controller_has_led(
    served: Served,
) -> None:
    """A controller that has just begun to lead does not know who is dead."""
    with told_by(served.at.address) as controllers:
        view = controllers.all_sets()
        one = view.sets["cluster", "set"]

        assert one.brokers[0].is_alive
        assert not view.may_replace
        assert 0 <= view.led_ms < 60_000
        assert () == view.damaged
        assert 0 < view.at_ms


def test_one_set_is_unknown_while_the_controller_leads_for_too_short_a_time(
    served: Served,
) -> None:
    """D5: a worker must not take for dead what was not heard yet."""
    with (
        told_by(served.at.address) as controllers,
        pytest.raises(UnavailableError, match="does not know yet who is alive"),
    ):
        controllers.one_set("cluster", "set")


def test_one_set_is_told_alone(served: Served) -> None:
    """Among others; and one that does not exist is none."""
    served.later(60)
    with told_by(served.at.address) as controllers:
        one = controllers.one_set("cluster", "set")

        assert one is not None
        assert "set" == one.name
        assert controllers.one_set("cluster", "other") is None
        assert controllers.all_sets().may_replace


def test_a_set_with_an_unreadable_record_is_no_missing_set() -> None:
    """A worker must not take its marks for done."""
    space = MemorySpace()
    MemoryStore(space).commit([Put(set_key("cluster", "ill"), b"ill")])
    one = Served(space)
    with contextlib.closing(one), told_by(one.at.address) as controllers:
        assert (("cluster", "ill"),) == controllers.all_sets().damaged
        with pytest.raises(FormatError, match="record of set ill"):
            controllers.one_set("cluster", "ill")


def test_without_a_leader_nothing_is_known() -> None:
    """Within the time of a call; a closed one says so."""
    controllers = told_by("127.0.0.1:1")
    with pytest.raises(UnavailableError):
        controllers.all_sets()
    controllers.close()
    controllers.close()
    with pytest.raises(ClosedError):
        controllers.all_sets()
