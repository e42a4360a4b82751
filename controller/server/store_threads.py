"""
The threads of a controller that call its record store.

Commits, proofs of the term and all other calls have threads apart from each other, and
apart from the names that asyncio resolves in its own threads: a call that stands still
stops no call of another kind (C2a).

Source: C2, C2a; docs/controller.md, threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import ParamSpec, TypeVar

__all__ = ["CallKind", "StoreThreads"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class CallKind(Enum):
    """
    What a call to the record store is for; each kind has its own threads.
    """

    COMMIT = "commit"
    """Of decisions: one after another."""
    PROOF = "proof"
    """Of the term."""
    CLOSE = "close"
    """Of a session: it ends the calls of the other kinds."""
    OTHER = "other"
    """Campaigns, reads, settings."""


_THREADS = {
    CallKind.COMMIT: 1,
    CallKind.PROOF: 1,
    CallKind.CLOSE: 1,
    CallKind.OTHER: 4,
}
_COUNTED = {CallKind.COMMIT, CallKind.PROOF}


class StoreThreads:
    """
    The threads of one controller. `run` is for one event loop, the rest for any thread.

    Args:
        clock_s: a clock that never steps back.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._pools: dict[CallKind, ThreadPoolExecutor] = {}
        self._began_s: dict[CallKind, float] = {}

    async def run(
        self,
        kind: CallKind,
        call: Callable[_P, _T],
        *args: _P.args,
        **named: _P.kwargs,
    ) -> _T:
        """
        Calls the store in a thread of this kind, and returns the result.

        A cancelled caller does not end the call.
        """
        return await self.start(kind, call, *args, **named)

    def start(
        self,
        kind: CallKind,
        call: Callable[_P, _T],
        *args: _P.args,
        **named: _P.kwargs,
    ) -> asyncio.Future[_T]:
        """
        Begins a call as `run`, also if nobody waits for it.
        """
        pool = self._pools.get(kind)
        if pool is None:
            name = f"pystore-store-{kind.value}"
            pool = self._pools[kind] = ThreadPoolExecutor(_THREADS[kind], name)

        def timed() -> _T:
            if kind in _COUNTED:
                self._began_s[kind] = self._clock_s()
            try:
                return call(*args, **named)
            finally:
                self._began_s.pop(kind, None)

        return asyncio.get_running_loop().run_in_executor(pool, timed)

    def longest_s(self) -> float:
        """
        Returns how long the commit or the proof under way has taken, in seconds; 0:
        there is none.
        """
        now_s = self._clock_s()
        return max((now_s - one for one in list(self._began_s.values())), default=0.0)

    def close(self) -> None:
        """
        Lets the threads end once their calls have; does not wait for them.
        """
        for pool in self._pools.values():
            pool.shutdown(wait=False)
        self._pools.clear()
