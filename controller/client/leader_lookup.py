"""
Carries out the search for the leading controller: resolves names and sends requests.

The decisions are those of `pystore.controller.client.discovery`. All callers that need
the leader during a search wait for the same round. A round without a leader ends for
all of them; the next one starts with the next call, so callers choose their pauses.

Source: RMQ-R3, RMQ-R221, RMQ-R224; formats 4.1, 4.6; docs/identity.md.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping

from pystore.controller.client.discovery import AskMetadata, Discovery, Resolve, Rest
from pystore.controller.protocol.calls import CallRefused, CallUnanswered, Metadata
from pystore.errors import ClosedError
from pystore.net.address import parse_address

__all__ = ["LeaderLookup", "look_up"]

AskLeader = Callable[[str, int], Awaitable[Metadata | CallRefused | CallUnanswered]]
LookUp = Callable[[str], Awaitable[Iterable[str]]]


async def look_up(address: str) -> list[str]:
    """
    Returns the addresses of ``HOST:PORT``.

    Raises:
        OSError: the name has no address.
    """
    host, port = parse_address(address)
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    hosts = [str(entry[4][0]) for entry in entries]
    return [f"[{one}]:{port}" if ":" in one else f"{one}:{port}" for one in hosts]


class LeaderLookup:
    """
    The search for the leader. For one event loop.

    Args:
        discovery: the state of the search.
        ask: sends 1005 to one address, with a time-out in ms.
        look_up: resolves a name to addresses.
        timeout_ms: for all names together.
    """

    def __init__(
        self,
        discovery: Discovery,
        ask: AskLeader,
        look_up: LookUp = look_up,
        timeout_ms: int = 3000,
    ) -> None:
        self._discovery = discovery
        self._ask = ask
        self._look_up = look_up
        self._timeout_ms = timeout_ms
        self._round: asyncio.Task[str] | None = None

    @property
    def leader(self) -> str | None:
        """
        ``HOST:PORT`` of the leader, if it is known.
        """
        return self._discovery.leader

    @property
    def known(self) -> tuple[str, ...]:
        """
        The addresses of all known controllers.
        """
        return self._discovery.known

    async def find(self) -> str:
        """
        Searches for one round, unless the leader is known.

        Returns:
            why no leader was found, as one line; empty: `leader` is known.

        Raises:
            ClosedError: the search was closed.
        """
        if self._discovery.leader is not None:
            return ""
        if self._round is None:
            self._round = asyncio.create_task(self._search())
            self._round.add_done_callback(self._ended)
        search = self._round
        try:
            # Other callers may wait for the same round.
            return await asyncio.shield(search)
        except asyncio.CancelledError:
            # A cancelled round means a closed search; our own cancellation passes on.
            ours = asyncio.current_task()
            if search.cancelled() and not (ours and ours.cancelling()):
                raise ClosedError("the controller client is closed") from None
            raise

    def lost(self, address: str, *, is_reachable: bool) -> None:
        """
        Takes note of a failed call to the leader (`Discovery.lost`).
        """
        self._discovery.lost(address, is_reachable=is_reachable)

    async def close(self) -> None:
        """
        Ends the round. Idempotent.
        """
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)

    def _ended(self, task: asyncio.Task[str]) -> None:
        if self._round is task:
            self._round = None

    async def _search(self) -> str:
        while (effect := self._discovery.next_effect()) is not None:
            match effect:
                case Resolve():
                    self._discovery.resolved(await self._resolve(effect.addresses))
                case AskMetadata():
                    answer = await self._ask(effect.address, effect.timeout_ms)
                    self._discovery.answered(effect.address, answer)
                case Rest():
                    self._discovery.rested()
                    return effect.reason
        return ""

    async def _resolve(self, names: Iterable[str]) -> Mapping[str, Iterable[str]]:
        tasks = {name: asyncio.ensure_future(self._look_up(name)) for name in names}
        try:
            await asyncio.wait(tasks.values(), timeout=self._timeout_ms / 1000)
        finally:
            late = [task for task in tasks.values() if not task.done()]
            for task in late:
                task.cancel()
        # The other names keep their previous addresses.
        return {
            name: task.result()
            for name, task in tasks.items()
            if task not in late and task.exception() is None
        }
