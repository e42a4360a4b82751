"""
A selector that reports few files at once, and preferred ones first.

An event loop of asyncio handles all files that are ready in one turn: with thousands of
connections a turn may take a second, and a request that needs several turns waits for
as many seconds. The system keeps the files beyond the bound, and reports them first at
the next call, so each has its turn. But it reports them in the order in which they
became ready, so a request would wait for all that came before it. So there are two
queues, each with the bound: one is for files whose owners are known.
"""

from __future__ import annotations

import math
import os
import select
import selectors
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

__all__ = ["EVENTS_MAX", "BoundedSelector"]

EVENTS_MAX = 64
"""Files of each queue that are reported at once: about 5 ms of work for a server."""


if sys.platform == "linux":

    class BoundedSelector(selectors.EpollSelector):
        """
        The selector.

        Args:
            events_max: files of each queue that are reported at once.
        """

        def __init__(self, events_max: int = EVENTS_MAX) -> None:
            super().__init__()
            self._events_max = events_max
            # The epoll of the base class, which would report all files at once.
            self._others = select.epoll.fromfd(os.dup(self.fileno()))
            self._first = select.epoll()
            # A call that waits for the others ends when a preferred one is ready.
            self._others.register(self._first.fileno(), select.EPOLLIN)
            self._preferred: set[int] = set()

        def prefer(self, file: int) -> None:
            """
            Reports a registered file before the others, until it is unregistered.
            Idempotent.
            """
            key = self.get_map().get(file)
            if key is None or file in self._preferred:
                return
            self._others.unregister(file)
            self._first.register(file, _mask(key.events))
            self._preferred.add(file)

        def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
            """
            As that of the base class, which takes a file that is not in its epoll for a
            closed one.
            """
            key = super().unregister(fileobj)
            if key.fd in self._preferred:
                self._preferred.discard(key.fd)
                with suppress(OSError):  # it was closed meanwhile
                    self._first.unregister(key.fd)
            return key

        def modify(
            self, fileobj: FileDescriptorLike, events: int, data: object = None
        ) -> selectors.SelectorKey:
            """
            As that of the base class. A preferred file stays one.
            """
            key = self.get_key(fileobj)
            is_preferred = key.fd in self._preferred
            if is_preferred:
                self._preferred.discard(key.fd)
                self._first.unregister(key.fd)
                self._others.register(key.fd, _mask(key.events))
            key = super().modify(fileobj, events, data)
            if is_preferred:
                self.prefer(key.fd)
            return key

        def select(
            self, timeout: float | None = None
        ) -> list[tuple[selectors.SelectorKey, int]]:
            """
            As that of the base class, with the bound.
            """
            wait_s = -1.0 if timeout is None else max(timeout, 0.0)
            first = self._first.poll(0, self._events_max) if self._preferred else []
            if first:
                wait_s = 0.0
            # Up to the next millisecond: epoll has no shorter unit.
            others = self._others.poll(math.ceil(wait_s * 1e3) / 1e3, self._events_max)
            if not first and self._preferred:
                first = self._first.poll(0, self._events_max)
            keys, ready = self.get_map(), []
            for file, event in (*first, *others):
                # The queue of the preferred ones has no key.
                key = keys.get(file)
                if key is not None:
                    reads = selectors.EVENT_READ * bool(event & ~select.EPOLLOUT)
                    writes = selectors.EVENT_WRITE * bool(event & ~select.EPOLLIN)
                    ready.append((key, (reads | writes) & key.events))
            return ready

        def close(self) -> None:
            """
            Closes all files of the selector itself.
            """
            self._others.close()
            self._first.close()
            super().close()

    def _mask(events: int) -> int:
        reads = select.EPOLLIN * bool(events & selectors.EVENT_READ)
        return reads | select.EPOLLOUT * bool(events & selectors.EVENT_WRITE)

else:

    class BoundedSelector(selectors.DefaultSelector):
        """
        Where the system has no epoll: without the bound, and without preference.
        """

        def __init__(self, events_max: int = EVENTS_MAX) -> None:  # noqa: ARG002
            super().__init__()

        def prefer(self, file: int) -> None:
            """
            Does nothing.
            """
