"""
The records of hosts, in the record store. For one event loop.

A heartbeat does not wait for its record: changes are written a moment later, those of
many hosts in one commit, and at most once a second. A host that lives tells the next
leader what one that is killed did not write.

Source: docs/controller.md, *Hosts*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from pystore.controller.protocol.host_descriptions import (
    HostDescription,
    decode_hosts,
    encode_hosts,
)
from pystore.controller.server.hosts import HostRecord, Hosts
from pystore.controller.server.record_keys import HOSTS, host_key
from pystore.controller.server.store_threads import CallKind, StoreThreads
from pystore.errors import (
    ClosedError,
    ForkedError,
    PystoreError,
    RemoteViolation,
    SessionLostError,
)
from pystore.records.ops import Delete, Op, Put
from pystore.records.record_store import RecordStore, StoredRecord
from pystore.records.term import Term

__all__ = ["HostRecords"]

_HOSTS_AT_ONCE = 10  # with the longest body each they fit a commit
_DELAY_S = 0.2
_EVERY_S = 0.8


class HostRecords:
    """
    The records of all hosts during one term.

    Args:
        store: the record store.
        term: of this controller.
        threads: of the calls to the store.
        hosts: says what the records should be.
        has_space: returns whether the store has space for what is not necessary.
        say: receives one line for people.
    """

    def __init__(
        self,
        store: RecordStore,
        term: Term,
        threads: StoreThreads,
        hosts: Hosts,
        *,
        has_space: Callable[[], bool],
        say: Callable[[str], object],
    ) -> None:
        self._store = store
        self._term = term
        self._threads = threads
        self._hosts = hosts
        self._has_space = has_space
        self._say = say
        self._wake = asyncio.Event()
        # A record that is being written must not come back after its host is forgotten.
        self._writing = asyncio.Lock()

    def load(self, now_ns: int) -> None:
        """
        Reads the records at the beginning of the term. Blocks; the loop must not use
        the hosts meanwhile. One that is unreadable is told: its host is known again
        once it is heard.

        Raises:
            PystoreError: the store cannot be read.
        """
        found = (_opened(one) for one in self._store.scan(HOSTS))
        told = []
        for one in found:
            if isinstance(one, str):
                self._say(one)
            else:
                told.append(one)
        self._hosts.load(told, now_ns)

    def changed(self) -> None:
        """
        Has what is due written soon.
        """
        if self._hosts.due:
            self._wake.set()

    async def run(self) -> None:
        """
        Writes, until the term is lost.

        Raises:
            SessionLostError: another controller leads.
            ClosedError: the store was closed.
        """
        while True:
            await self._wake.wait()
            await asyncio.sleep(_DELAY_S)
            self._wake.clear()
            async with self._writing:
                try:
                    await self._write_due()
                except (ClosedError, ForkedError, SessionLostError):
                    # The whole term is over.
                    raise
                except PystoreError:
                    # The next round tries again; commits tell what is wrong.
                    self._wake.set()
            await asyncio.sleep(_EVERY_S)

    async def _write_due(self) -> None:
        due, has_space = dict(self._hosts.due), self._has_space()
        # Elections and changes of sets need the rest of a store.
        names = [one for one in due if has_space or due[one] is None]
        for at in range(0, len(names), _HOSTS_AT_ONCE):
            some = {one: due[one] for one in names[at : at + _HOSTS_AT_ONCE]}
            await self._threads.run(CallKind.OTHER, self._write, some)
            self._hosts.stored(some)

    async def forget(self, address: str) -> None:
        """
        Deletes the record of a host, then the host.

        Raises:
            SessionLostError: another controller leads.
            PystoreError: the store refuses.
        """
        async with self._writing:
            await self._threads.run(CallKind.OTHER, self._write, {address: None})
            self._hosts.forget(address)

    def _write(self, some: Mapping[str, HostRecord]) -> None:
        ops: list[Op] = [self._term.check]
        for address, one in some.items():
            key = host_key(address)
            ops.append(Delete(key) if one is None else Put(key, encode_hosts([one])))
        if self._store.commit(ops) is None:
            raise SessionLostError("another controller leads")


def _opened(record: StoredRecord) -> HostDescription | str:
    """
    Returns the host of a record, or one line that says what is wrong with it.
    """
    what = record.damage
    if not what:
        try:
            (one,) = decode_hosts(record.value)
        except (RemoteViolation, ValueError) as error:
            # A later version or other hands wrote it; ValueError: not one host.
            what = str(error)
        else:
            return one
    return f"{record.key} is unreadable, and its host unknown until it is heard: {what}"
