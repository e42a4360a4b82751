"""
The campaign of one controller: it waits for the leadership, leads, and starts again.

A lost session of the record store ends the term, and the campaign opens another
session. Without the store no controller leads; masters serve until their leases expire.

Source: docs/record-store.md; C2; RMQ-R221 to RMQ-R224.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pystore.controller.liveness.authority import Authority
from pystore.controller.server.context import ControllerContext
from pystore.controller.server.record_keys import LEADER, PEERS, peer_key
from pystore.controller.server.store_threads import CallKind
from pystore.controller.server.term import HandedOver
from pystore.errors import (
    ClosedError,
    FullError,
    PystoreError,
    SessionLostError,
    UnavailableError,
    UnknownOutcomeError,
)
from pystore.records.ops import Hold
from pystore.records.record_store import RecordStore, StoredRecord

__all__ = ["Campaign", "OtherControllers"]

_PAUSE_S = (0.1, 0.4)
_FRESH_S = 0.2
_PEERS_FRESH_S = 5.0
_READ_S = 1.0
"""Less than brokers and operators wait for an answer."""
_ANNOUNCE_S = 1.0
_HANDED_OVER_S = 2.0


class OtherControllers:
    """
    The leader and the running controllers, as recorded. Answers are cached for a short
    time.

    Args:
        context: of this controller.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._lock = asyncio.Lock()
        self._leader = ""
        self._leader_until = 0.0
        self._peers: tuple[str, ...] = ()
        self._peers_until = 0.0
        # By whether it is fresh: a store that stands still has two readers at most.
        self._readings: dict[bool, asyncio.Task[tuple[str, tuple[str, ...]]]] = {}

    async def read(self, *, is_fresh: bool = False) -> tuple[str, tuple[str, ...]]:
        """
        Returns the address of the leader (empty: unknown) and all addresses; of a
        record store that does not answer in time none.

        Args:
            is_fresh: reads the records, and not the cache.
        """
        reading = self._readings.get(is_fresh)
        if reading is None or reading.done():
            reading = asyncio.create_task(self._read(is_fresh=is_fresh))
            self._readings[is_fresh] = reading
        done, _ = await asyncio.wait((reading,), timeout=_READ_S)
        return reading.result() if done else ("", ())

    async def _read(self, *, is_fresh: bool) -> tuple[str, tuple[str, ...]]:
        loop, run = asyncio.get_running_loop(), self._context.threads.run
        async with self._lock:
            store, now = self._context.store, loop.time()
            if store is None:
                return "", ()
            try:
                if is_fresh or now >= self._leader_until:
                    record = await run(CallKind.OTHER, store.get, LEADER)
                    self._leader = _text(record) if record is not None else ""
                    self._leader_until = now + _FRESH_S
                if is_fresh or now >= self._peers_until:
                    records = await run(CallKind.OTHER, store.scan, PEERS)
                    self._peers = tuple(_text(one) for one in records if not one.damage)
                    self._peers_until = now + _PEERS_FRESH_S
            except PystoreError:
                # The caller learns that the leader is unknown, and asks again.
                return "", ()
            return self._leader, self._peers


def _text(record: StoredRecord) -> str:
    return record.value.decode(errors="replace")


class Campaign:
    """
    Campaigns without end. For one event loop.

    Args:
        context: of this controller.
        open_store: opens a session with the record store; may block.
        lead: leads until the term is lost.
        end: ends the process with a reason: its session cannot be closed; ``None``:
            that is waited for.
    """

    def __init__(
        self,
        context: ControllerContext,
        open_store: Callable[[], RecordStore],
        lead: Callable[[RecordStore, Authority], Awaitable[object]],
        end: Callable[[str], object] | None,
    ) -> None:
        self._context = context
        self._open_store = open_store
        self._lead = lead
        self._end = end
        self._said = ""

    async def run(self) -> None:
        """
        Campaigns and leads, one session after the other.

        Raises:
            PystoreError: the record store cannot be opened, and a retry does not help.
        """
        while True:
            try:
                await self._session()
            except HandedOver as error:
                # After this pause another waiting controller leads.
                self._tell(f"this controller does not lead: {error}")
                await asyncio.sleep(_HANDED_OVER_S)
            except (
                ClosedError,
                FullError,
                SessionLostError,
                UnavailableError,
                UnknownOutcomeError,
            ) as error:
                # Another controller leads, or the servers are unreachable, or the disk
                # is full.
                self._tell(f"this controller does not lead: {error}")
            await asyncio.sleep(self._context.draw.uniform(*_PAUSE_S))

    async def _session(self) -> None:
        run = self._context.threads.run
        store = await run(CallKind.OTHER, self._open_store)
        self._context.store = store
        announcing = asyncio.create_task(self._announce(store))
        try:
            term = await run(
                CallKind.OTHER, store.campaign, LEADER, self._context.address
            )
            began_ns = self._context.clock_ns()
            self._said = ""
            await self._lead(store, Authority(term, began_ns))
        finally:
            self._context.store = None
            announcing.cancel()
            await self._close(store)

    async def _close(self, store: RecordStore) -> None:
        # It begins at once: this task may be cancelled again while it waits.
        closing = self._context.threads.start(CallKind.CLOSE, store.close)
        limit_s = self._context.settings.now.zookeeper_session_timeout / 2000
        done, _ = await asyncio.shield(asyncio.wait([closing], timeout=limit_s))
        if not done and self._end is not None:
            self._end(
                f"the session of the record store was not closed in {limit_s:g} s: "
                "this controller ends, so that another one can lead"
            )
        await asyncio.shield(closing)

    async def _announce(self, store: RecordStore) -> None:
        """
        Announces this controller; the hold of its previous process may still exist.
        """
        address = self._context.address
        hold = [Hold(peer_key(address), address.encode())]
        while True:
            try:
                run = self._context.threads.run
                if await run(CallKind.OTHER, store.commit, hold) is not None:
                    return
            except PystoreError:
                # The campaign gets the same error, and reports it.
                pass
            await asyncio.sleep(_ANNOUNCE_S)

    def _tell(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self._context.say(line)
