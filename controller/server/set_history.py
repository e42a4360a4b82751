"""
The last events of each set, kept in the record store. For one event loop.

A decision does not wait for its history: events are written a moment later, those of
many sets in one commit, and at most once a second. So a controller that is killed takes
the events of its last second with it; its log has them. The next leader continues the
history.

Source: RMQ-R271; docs/operations.md, *What happened?*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from pystore.controller.model.state import SetKey
from pystore.controller.server.controller_events import SetCommandRefused, SetFact
from pystore.controller.server.record_keys import history_key
from pystore.controller.server.store_threads import CallKind, StoreThreads
from pystore.errors import (
    ClosedError,
    ForkedError,
    FormatError,
    PystoreError,
    SessionLostError,
)
from pystore.events.event import json_line
from pystore.records.ops import Op, Put
from pystore.records.record_store import RecordStore
from pystore.records.term import Term

__all__ = ["CHANGES_MAX", "REFUSALS_MAX", "SetHistory"]

CHANGES_MAX = 48
"""The number of committed changes that are kept for each set."""

REFUSALS_MAX = 16
"""The number of refusals that are kept for each set: they push no change out."""

_BYTES_MAX = 32_768
_LINE_BYTES_MAX = 4_096
_SETS_AT_ONCE = 20  # with `_BYTES_MAX` each they fit a commit
_DELAY_S = 0.2
_EVERY_S = 0.8
_FLUSH_S = 1.0
_REFUSED = f'"event": "{SetCommandRefused.__name__}"'.encode()


class SetHistory:
    """
    The histories of all sets during one term.

    Args:
        store: the record store.
        term: of this controller.
        threads: of the calls to the store.
        has_space: returns whether the store has space for what is not necessary.
    """

    def __init__(
        self,
        store: RecordStore,
        term: Term,
        threads: StoreThreads,
        has_space: Callable[[], bool],
    ) -> None:
        self._store = store
        self._term = term
        self._threads = threads
        self._has_space = has_space
        self._pending: dict[SetKey, list[bytes]] = {}
        self._writing: dict[SetKey, list[bytes]] = {}
        self._wake = asyncio.Event()

    def note(self, event: SetFact) -> None:
        """
        Takes an event.
        """
        line = json_line(event).encode()
        if len(line) > _LINE_BYTES_MAX:
            # Names and reasons are bounded, so that no such line is known.
            return
        names = event.cluster_name, event.broker_name
        self._pending[names] = _last([*self._pending.get(names, []), line])
        self._wake.set()

    async def read(self, names: SetKey) -> list[bytes]:
        """
        Returns the events of a set, oldest first, each as the JSON of `json_line`.

        Raises:
            InvalidError: the names are too long.
            PystoreError: the store cannot be read.
        """
        # Before the store is read: what is written meanwhile is in neither otherwise.
        waiting = self._waiting(names)
        run = self._threads.run
        stored = await run(CallKind.OTHER, _stored, self._store, names)
        # A dictionary keeps the order, and each line once.
        return _last(list(dict.fromkeys([*stored, *waiting, *self._waiting(names)])))

    def _waiting(self, names: SetKey) -> list[bytes]:
        return [*self._writing.get(names, []), *self._pending.get(names, [])]

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
            if not self._has_space():
                # Elections and changes need the rest.
                self._pending.clear()
            await self._write_all()
            await asyncio.sleep(_EVERY_S)

    async def flush(self) -> None:
        """
        Writes what is there, at the end of a term; for a moment only, since another
        controller may lead already.
        """
        for names, lines in self._writing.items():
            self._pending[names] = _last([*lines, *self._pending.get(names, [])])
        with suppress(PystoreError, TimeoutError):
            # The next leader has what was stored before.
            async with asyncio.timeout(_FLUSH_S):
                await self._write_all()

    async def _write_all(self) -> None:
        self._writing, self._pending = self._pending, {}
        rest = list(self._writing)
        for at in range(0, len(rest), _SETS_AT_ONCE):
            some = rest[at : at + _SETS_AT_ONCE]
            lines = {names: self._writing[names] for names in some}
            try:
                await self._threads.run(CallKind.OTHER, self._write, lines)
            except (ClosedError, ForkedError, SessionLostError):
                # The whole term is over.
                raise
            except PystoreError:
                # The next round tries again; commits tell what is wrong.
                for names, kept in lines.items():
                    self._pending[names] = _last([*kept, *self._pending.get(names, [])])
                self._wake.set()
        self._writing = {}

    def _write(self, some: dict[SetKey, list[bytes]]) -> None:
        ops: list[Op] = [self._term.check]
        for names, lines in some.items():
            stored = _stored(self._store, names)
            known = set(stored)
            new = [one for one in lines if one not in known]
            value = b"\n".join(_last([*stored, *new]))
            ops.append(Put(history_key(*names), value))
        if self._store.commit(ops) is None:
            raise SessionLostError("another controller leads")


def _stored(store: RecordStore, names: SetKey) -> list[bytes]:
    try:
        record = store.get(history_key(*names))
    except FormatError:
        # It begins again: nothing depends on it.
        return []
    if record is None or record.damage:
        return []
    return record.value.split(b"\n") if record.value else []


def _last(lines: Sequence[bytes]) -> list[bytes]:
    """
    Returns the last lines that are kept.
    """
    refusals = _numbers(lines, is_refusal=True)[-REFUSALS_MAX:]
    changes = _numbers(lines, is_refusal=False)[-CHANGES_MAX:]
    kept = [lines[number] for number in sorted([*refusals, *changes])]
    size = sum(map(len, kept))
    while size > _BYTES_MAX:
        size -= len(kept.pop(0))
    return kept


def _numbers(lines: Iterable[bytes], *, is_refusal: bool) -> list[int]:
    return [
        number for number, one in enumerate(lines) if (_REFUSED in one) == is_refusal
    ]
