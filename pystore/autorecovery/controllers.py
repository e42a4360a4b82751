"""
The leading controller, asked by threads: a client with an event loop of its own.

It implements `pystore.autorecovery.replica_peers.Controllers`. Each call is bounded in
time: one time-out for each request, and one for each controller that is asked for the
leader.

Source: D5 of docs/autorecovery.md, *The Auditor*; docs/controller.md, *All sets at
once*.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar

from pystore.autorecovery.replica_peers import ClusterView
from pystore.clocks import wall_ms
from pystore.controller.client.client import ControllerClient
from pystore.controller.client.set_descriptions import describe_set, describe_sets
from pystore.controller.protocol.set_descriptions import SetDescription
from pystore.errors import ClosedError, FormatError, UnavailableError

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["LeadingControllers"]

_T = TypeVar("_T")
_CLOSE_S = 10


class LeadingControllers:
    """
    The leading controller, until it is closed; a context manager. Any thread.

    Args:
        client: makes the client; called on the loop.
        clock_ms: returns Unix time.
    """

    def __init__(
        self,
        client: Callable[[], ControllerClient],
        clock_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._make = client
        self._clock_ms = clock_ms
        self._client: ControllerClient | None = None
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="recovery-controllers", daemon=True
        )
        self._thread.start()

    def all_sets(self) -> ClusterView:
        """
        See `Controllers.all_sets`.

        Raises:
            ClosedError: this is closed; also of `one_set`.
        """
        return self._result(self._all_sets())

    def one_set(self, cluster: str, name: str) -> SetDescription | None:
        """
        See `Controllers.one_set`.
        """
        return self._result(self._one_set(cluster, name))

    def call(self, work: Callable[[ControllerClient], Coroutine[Any, Any, _T]]) -> _T:
        """
        Runs a coroutine with the client, on its loop; returns the result.

        Args:
            work: makes the coroutine.

        Raises:
            ClosedError: as `all_sets`; the others are those of the coroutine.
        """

        async def run() -> _T:
            return await work(self._connected())

        return self._result(run())

    def close(self) -> None:
        """
        Ends the calls and the connections. Idempotent.
        """
        if self._is_closed:
            return
        self._is_closed = True
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S)
        self._loop.close()

    def __enter__(self) -> LeadingControllers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _result(self, call: Coroutine[Any, Any, _T]) -> _T:
        if self._is_closed:
            call.close()
            raise ClosedError("the connection to the controllers is closed")
        try:
            return asyncio.run_coroutine_threadsafe(call, self._loop).result()
        except CancelledError as error:
            # Closed meanwhile, by another thread.
            raise ClosedError("the connection to the controllers was closed") from error

    def _connected(self) -> ControllerClient:
        if self._client is None:
            self._client = self._make()
        return self._client

    async def _all_sets(self) -> ClusterView:
        at_ms = self._clock_ms()
        sets: dict[tuple[str, str], SetDescription] = {}
        damaged: list[tuple[str, str]] = []
        led_ms: int | None = None
        may_replace = True
        async for page in describe_sets(self._connected()):
            sets |= {(one.cluster, one.name): one for one in page.sets}
            damaged += page.damaged
            # Another controller may tell the next page: the one that knows least
            # counts.
            led_ms = page.led_ms if led_ms is None else min(led_ms, page.led_ms)
            may_replace = may_replace and page.may_replace
        return ClusterView(sets, tuple(damaged), led_ms or 0, may_replace, at_ms)

    async def _one_set(self, cluster: str, name: str) -> SetDescription | None:
        page = await describe_set(self._connected(), cluster, name)
        if page.damaged:
            raise FormatError(
                f"the controller's record of set {name} in {cluster} is unreadable: "
                "see `pystore admin describeSets`"
            )
        if not page.may_replace:
            raise UnavailableError(
                f"the leading controller has led for {page.led_ms // 1000} s: it does "
                "not know yet who is alive"
            )
        return page.sets[0] if page.sets else None

    async def _close(self) -> None:
        own = asyncio.current_task()
        calls = [one for one in asyncio.all_tasks() if one is not own]
        if self._client is not None:
            await self._client.close()
        for one in calls:
            one.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
