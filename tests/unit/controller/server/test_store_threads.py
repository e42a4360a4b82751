"""
Calls to the record store in threads apart from each other (C2a).
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from pystore.controller.server.store_threads import CallKind, StoreThreads
from pystore.errors import UnavailableError


def test_a_commit_that_stands_still_stops_no_other_call() -> None:
    """
    Neither a proof nor a read, nor a name that asyncio resolves.
    """

    async def main() -> None:
        threads, goes_on = StoreThreads(), threading.Event()
        stuck = asyncio.create_task(threads.run(CallKind.COMMIT, goes_on.wait, 20))
        try:
            for kind in (CallKind.PROOF, CallKind.OTHER):
                assert 3 == await asyncio.wait_for(threads.run(kind, max, 2, 3), 5)
            assert await asyncio.to_thread(lambda: True)
            assert not stuck.done()
        finally:
            goes_on.set()
        assert await stuck
        threads.close()

    asyncio.run(main())


def test_the_time_of_a_commit_or_a_proof_under_way_is_told() -> None:
    """
    A campaign waits for long, and is not counted.
    """

    async def main() -> None:
        now_s, goes_on = [10.0], threading.Event()
        threads = StoreThreads(lambda: now_s[0])
        assert 0 == threads.longest_s()
        for kind, expected in ((CallKind.PROOF, 7), (CallKind.OTHER, 0)):
            began = threading.Event()

            def call(began: threading.Event = began) -> None:
                began.set()
                goes_on.wait(20)

            task = asyncio.create_task(threads.run(kind, call))
            await asyncio.to_thread(began.wait, 20)
            now_s[0] += 7
            assert expected == threads.longest_s()
            goes_on.set()
            await task
            goes_on.clear()
        assert 0 == threads.longest_s()
        threads.close()

    asyncio.run(main())


def test_the_error_of_a_call_reaches_its_caller() -> None:
    """
    The next call is carried out.
    """

    def fails() -> None:
        raise UnavailableError("no server")

    async def main() -> None:
        threads = StoreThreads()
        with pytest.raises(UnavailableError, match="no server"):
            await threads.run(CallKind.COMMIT, fails)
        assert 3 == await threads.run(CallKind.COMMIT, max, 2, 3)
        threads.close()

    asyncio.run(main())
