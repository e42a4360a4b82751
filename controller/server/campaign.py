"""
One controller's place among the others: it campaigns, leads, and begins anew.

The record store lives as long as its session: when that is lost, so is the term, and
another session is opened. Without the store nobody leads; masters go on for as long as
their leases run.

Source: docs/record-store.md; safety C2; R221 to R224.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pystore.controller.authority import Authority
from pystore.controller.server.keys import LEADER, PEERS, peer_key
from pystore.controller.server.place import Place
from pystore.errors import (
    ClosedError,
    PystoreError,
    SessionLostError,
    UnavailableError,
    UnknownOutcomeError,
)
from pystore.records.ops import Hold
from pystore.records.record_store import RecordStore

__all__ = ["Campaign", "Others"]

_PAUSE_S = (0.1, 0.4)
_FRESH_S = 0.2


class Others:
    """
    Who leads and who is there, as the records say; read at most five times a second.

    Args:
        place: of this controller.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._read_at = -_FRESH_S
        self._found: tuple[str, tuple[str, ...]] = ("", ())
        self._lock = asyncio.Lock()

    async def look(self) -> tuple[str, tuple[str, ...]]:
        """
        Returns the leader's address, or nothing, and all addresses.
        """
        loop = asyncio.get_running_loop()
        async with self._lock:
            if loop.time() >= self._read_at + _FRESH_S:
                self._found = await self._read()
                self._read_at = loop.time()
        return self._found

    async def _read(self) -> tuple[str, tuple[str, ...]]:
        store = self._place.store
        if store is None:
            return "", ()
        try:
            leader = await asyncio.to_thread(store.get, LEADER)
            peers = await asyncio.to_thread(store.scan, PEERS)
        except PystoreError:
            # Whoever asks hears that nobody is known to lead, and asks again.
            return "", ()
        return (
            leader.value.decode(errors="replace") if leader is not None else "",
            tuple(one.value.decode(errors="replace") for one in peers),
        )


class Campaign:
    """
    Tries to lead for ever. For one event loop.

    Args:
        place: of this controller.
        open_store: opens a session with the record store; may block.
        lead: leads until the term is lost.
    """

    def __init__(
        self,
        place: Place,
        open_store: Callable[[], RecordStore],
        lead: Callable[[RecordStore, Authority], Awaitable[object]],
    ) -> None:
        self._place = place
        self._open_store = open_store
        self._lead = lead
        self._said = ""

    async def run(self) -> None:
        """
        Campaigns and leads, session by session.

        Raises:
            PystoreError: the records cannot be had, and trying again does not help.
        """
        while True:
            try:
                await self._session()
            except (
                ClosedError,
                SessionLostError,
                UnavailableError,
                UnknownOutcomeError,
            ) as error:
                # Another controller leads, or the servers are away for a while.
                self._tell(f"this controller does not lead: {error}")
            await asyncio.sleep(self._place.draw.uniform(*_PAUSE_S))

    async def _session(self) -> None:
        store = await asyncio.to_thread(self._open_store)
        self._place.store = store
        try:
            peer = Hold(peer_key(self._place.address), self._place.address.encode())
            await asyncio.to_thread(store.commit, [peer])
            term = await asyncio.to_thread(store.campaign, LEADER, self._place.address)
            began_ns = self._place.clock_ns()
            self._said = ""
            await self._lead(store, Authority(term, began_ns))
        finally:
            self._place.store = None
            await asyncio.shield(asyncio.to_thread(store.close))

    def _tell(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self._place.say(line)
