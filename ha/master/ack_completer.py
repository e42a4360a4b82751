"""
Completions of acks: they wake coroutines and call functions, without a thread for each.

A thread that sleeps for one ack is woken, and queues for the interpreter's lock behind
all others that wait. So one thread of the mastership settles all futures that an ack
reached, and wakes each event loop once for all of them. A second one waits for the
master's disk, so that no other future waits for it. Neither is started before the first
future needs it, and both end with the mastership.

Source: docs/in-sync.md; RMQ-R206, RMQ-R211; B8, B13.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from pystore.errors import PystoreError
from pystore.ha.insync.ack import Ack, AckResult

__all__ = ["AckCompleter", "AckEnd"]

AckEnd = AckResult | PystoreError
"""How the wait for an ack ended, or the error that ended it."""

_LOGGER = logging.getLogger("pystore.ha")
_FORGOTTEN_MAX = 64

_Waiter = asyncio.Future[AckResult]
# End offset, number, the event loop, and whom to tell; without a loop a function.
_Loop = asyncio.AbstractEventLoop
_Watch = tuple[int, int, _Loop | None, "_Waiter | Callable[[AckEnd], object]"]
_LEADER = Ack.LEADER


class AckCompleter:
    """
    The completions of one mastership, until it is closed. Any thread.

    Args:
        ended: returns how an ack for an end offset ended, without a wait; ``None``: it
            has not ended.
        sync: waits until the master's log is on disk below an offset, and makes the
            monitor read that.
        send: sends what was appended without a wake-up of the senders.
    """

    def __init__(
        self,
        ended: Callable[[Ack, int], AckResult | None],
        sync: Callable[[int], None],
        send: Callable[[], None],
    ) -> None:
        self._ended = ended
        self._sync = sync
        self._send = send
        self._sending: set[_Loop] = set()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._incoming: list[tuple[Ack, _Watch]] = []
        self._pending: dict[Ack, list[_Watch]] = {ack: [] for ack in Ack}
        self._forgotten = 0
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._is_woken = False
        self._is_closed = False
        self._thread: threading.Thread | None = None
        # Ends of appends to sync; ``None`` ends the thread.
        self._ends: SimpleQueue[int | None] = SimpleQueue()
        self._is_syncing = False
        self._is_disk_failed = False

    def call(self, ack: Ack, end_offset: int, told: Callable[[AckEnd], object]) -> None:
        """
        Calls a function when the ack has ended: in the thread of the completer, or in
        this one if the mastership has ended. An exception of it is logged.
        """
        if not self._watch(ack, (end_offset, next(self._numbers), None, told)):
            _call(told, self._end_of(ack, end_offset))

    async def wait(self, ack: Ack, end_offset: int) -> AckResult:
        """
        Waits in a coroutine until an ack has ended.

        Raises:
            PoisonedError: the master's disk failed, and the ack needs it.
        """
        loop = asyncio.get_running_loop()
        waiter: _Waiter = loop.create_future()
        if not self._watch(ack, (end_offset, next(self._numbers), loop, waiter)):
            _tell(waiter, self._end_of(ack, end_offset))
        try:
            return await waiter
        finally:
            if waiter.cancelled():
                self._forget()

    @property
    def watched(self) -> int:
        """
        How many coroutines and functions it still has to tell, about.
        """
        return len(self._incoming) + sum(map(len, self._pending.values()))

    def sends_soon(self) -> bool:
        """
        Returns whether the event loop of this thread will send what is appended now:
        once for all coroutines that are ready to run, instead of a wake-up of the
        senders for each append. Only while coroutines wait at all.
        """
        if self._thread is None:
            return False
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # A thread without an event loop.
            return False
        if loop not in self._sending:
            self._sending.add(loop)
            loop.call_soon(self._send_of, loop)
        return True

    @property
    def has_unsent(self) -> bool:
        """
        Whether an event loop is about to send.
        """
        return bool(self._sending)

    def _send_of(self, loop: _Loop) -> None:
        # First: what is appended from here on needs another call.
        self._sending.discard(loop)
        self._send()

    def wake(self) -> None:
        """
        Acks may have ended: settles their futures soon. It is short, so it may be
        called under the lock of the monitor.
        """
        if not self._is_woken and self._thread is not None:
            self._is_woken = True
            self._wakes.put(None)

    def close(self) -> None:
        """
        The mastership is over: settles all futures soon, in the thread of the
        completer. Later ones are settled at once.
        """
        with self._lock:
            self._is_closed = True
            self._ends.put(None)
        self.wake()

    def join(self, timeout_ms: int) -> None:
        """
        Waits until all futures are settled, but not longer: a function that is called
        may block. The thread of the disk ends when that answers.
        """
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_ms / 1000)

    def _watch(self, ack: Ack, watch: _Watch) -> bool:
        """
        Returns whether the completer will tell; otherwise it has ended.
        """
        with self._lock:
            if self._is_closed:
                return False
            # First: a machine that has no more threads is the caller's error.
            if self._thread is None:
                self._thread = _started("pystore-ha-acks", self._run)
            if ack.is_synced:
                if not self._is_syncing:
                    _started("pystore-ha-acks-synced", self._run_syncs)
                    self._is_syncing = True
                self._ends.put(watch[0])
            self._incoming.append((ack, watch))
        # Now the thread sees it, so an ack from here on settles it.
        if self._ended_before(ack, watch[0]):
            self.wake()
        return True

    def _ended_before(self, ack: Ack, end_offset: int) -> bool:
        try:
            return ack is _LEADER or self._ended(ack, end_offset) is not None
        except PystoreError:
            # The thread meets it, too, and tells it.
            return True

    def _forget(self) -> None:
        with self._lock:
            self._forgotten += 1
            is_worth = self._forgotten > _FORGOTTEN_MAX
        if is_worth:
            self.wake()

    # -- the thread of the completer -----------------------------------------

    def _run(self) -> None:
        is_closed = False
        while not is_closed:
            self._wakes.get()
            self._is_woken = False
            with self._lock:
                is_closed = self._is_closed
                taken, self._incoming = self._incoming, []
                forgotten = self._forgotten
            for ack, watch in taken:
                heapq.heappush(self._pending[ack], watch)
            if forgotten > _FORGOTTEN_MAX:
                self._drop(forgotten)
            self._settle(is_closed=is_closed)

    def _drop(self, forgotten: int) -> None:
        """
        Frees what belongs to cancelled coroutines, if that is the larger part.
        """
        if 2 * forgotten < self.watched:
            return
        with self._lock:
            self._forgotten -= forgotten
        for watches in self._pending.values():
            watches[:] = [
                one
                for one in watches
                if not (isinstance(one[3], asyncio.Future) and one[3].done())
            ]
            heapq.heapify(watches)

    def _settle(self, *, is_closed: bool) -> None:
        loops: dict[_Loop, list[tuple[_Waiter, AckEnd]]] = {}
        calls: list[tuple[Callable[[AckEnd], object], AckEnd]] = []
        for ack, watches in self._pending.items():
            while watches:
                ended = self._found(ack, watches[0][0], is_closed=is_closed)
                if ended is None:
                    break
                _, _, loop, target = heapq.heappop(watches)
                if isinstance(target, asyncio.Future):
                    assert loop is not None
                    loops.setdefault(loop, []).append((target, ended))
                else:
                    calls.append((target, ended))
        for loop, told in loops.items():
            try:
                loop.call_soon_threadsafe(_tell_all, told)
            except RuntimeError:
                # The loop is closed, so none of its coroutines wait any more.
                continue
        for target, ended in calls:
            _call(target, ended)

    def _found(self, ack: Ack, end_offset: int, *, is_closed: bool) -> AckEnd | None:
        try:
            if self._is_disk_failed and ack.is_synced and not is_closed:
                # Answers at once, and each future gets an error of its own.
                self._sync(end_offset)
            return self._ended(ack, end_offset)
        except PystoreError as error:
            # It concerns this future; others may have their acks.
            return error

    def _end_of(self, ack: Ack, end_offset: int) -> AckEnd:
        ended = self._found(ack, end_offset, is_closed=True)
        assert ended is not None, "a closed mastership decides every ack"
        return ended

    # -- the thread of the disk ----------------------------------------------

    def _run_syncs(self) -> None:
        while (end_offset := self._ends.get()) is not None:
            while not self._ends.empty():
                # One sync is for all that wait.
                end = self._ends.get()
                if end is None:
                    return
                end_offset = max(end_offset, end)
            try:
                self._sync(end_offset)
            except PystoreError:
                # The completer meets the error again, for each future that it concerns.
                self._is_disk_failed = True
            self.wake()


def _started(name: str, run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def _call(told: Callable[[AckEnd], object], ended: AckEnd) -> None:
    try:
        told(ended)
    except BaseException:
        # Any error, also of `sys.exit`: without this thread no future is settled.
        _LOGGER.exception("a function that was called for an ack failed")


def _tell(waiter: _Waiter, ended: AckEnd) -> None:
    if waiter.done():  # its coroutine was cancelled
        return
    if isinstance(ended, PystoreError):
        waiter.set_exception(ended)
    else:
        waiter.set_result(ended)


def _tell_all(told: list[tuple[_Waiter, AckEnd]]) -> None:
    for waiter, ended in told:
        _tell(waiter, ended)
