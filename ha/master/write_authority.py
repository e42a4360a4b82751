"""
The right to append to a log, which begins and ends with each mastership.

The core refuses appends without the right, under the lock that every append takes:
with the lease, `leader` and `leader-synced` end; with the mastership, all appends end.
Before another role begins, no admitted append may still be under way: its late bytes
would belong to no epoch, or to another master's.

Source: B5, B8, C0, C1, C3; docs/replication.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from pystore.bindings.ffi import NO_OFFSET, LocalAck
from pystore.clocks import boottime_ns, wall_ms
from pystore.core.log_writer import AppendPositions, LogHandle
from pystore.core.results import Appended
from pystore.core.waits import OffsetWaiters
from pystore.errors import FencedError, PystoreError
from pystore.ha.insync.ack import Ack
from pystore.ha.master.lease import NO_LEASE, UNLEASED, Lease
from pystore.message.message import Message, form_of

__all__ = ["WriteAuthority"]


class WriteAuthority:
    """
    The right of one replica, over all its masterships. Any thread appends; one thread
    begins, renews and ends.

    Args:
        now_ms: the clock of `lease_ms`.
        clocks: boot time in ns and wall time in ms, those of the core.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        clocks: tuple[Callable[[], int], Callable[[], int]] = (boottime_ns, wall_ms),
    ) -> None:
        self._now_ms = now_ms
        self._clocks = clocks
        self._changed = threading.Condition(threading.Lock())
        self._under_way = 0
        self._is_open = False
        self._held_for: int | None = None
        self._handle: LogHandle | None = None
        self._epoch = -1
        self._lease = NO_LEASE

    def begin(self, handle: LogHandle, epoch: int, lease: Lease) -> None:
        """
        Admits appends of this epoch.

        Args:
            handle: of the log.
            epoch: of the mastership.
            lease: `pystore.ha.master.lease.NO_LEASE` until one is granted (C0).

        Raises:
            FencedError: a higher epoch was begun.
        """
        self._grant(handle, epoch, lease)
        with self._changed:
            self._handle, self._epoch, self._lease = handle, epoch, lease
            self._is_open, self._held_for = True, None

    def renew(self, epoch: int, lease: Lease) -> None:
        """
        Takes a new lease; one of another epoch changes nothing.
        """
        with self._changed:
            is_over = not self._is_open and self._held_for is None
            if is_over or epoch != self._epoch or self._handle is None:
                return
            handle = self._handle
        self._grant(handle, epoch, lease)
        self._lease = lease

    def revoke(self, epoch: int) -> None:
        """
        Admits no more appends; the core refuses those under way. Any thread; another
        epoch changes nothing.
        """
        with self._changed:
            is_over = not self._is_open and self._held_for is None
            if is_over or epoch != self._epoch or self._handle is None:
                return
            self._is_open, self._held_for, handle = False, None, self._handle
        with suppress(PystoreError):  # closed, so it takes no appends either
            handle.authority(epoch, 0, 0)

    def end(self, epoch: int) -> None:
        """
        As `revoke`, and waits until no append is under way.
        """
        self.revoke(epoch)
        with self._changed:
            self._changed.wait_for(lambda: self._under_way == 0)

    def hold(self, epoch: int, broker_id: int) -> None:
        """
        Admits no appends while the mastership is handed over, until `release` or the
        end of the mastership; waits until none is under way.

        Args:
            epoch: of the mastership.
            broker_id: of the next master.

        Raises:
            FencedError: the mastership is over, or is being handed over.
        """
        with self._changed:
            if not self._is_open or epoch != self._epoch:
                raise FencedError(self._refusal())
            self._is_open, self._held_for = False, broker_id
            self._changed.wait_for(lambda: self._under_way == 0)

    def release(self, epoch: int) -> None:
        """
        Admits appends again, if the mastership was held and is not over.
        """
        with self._changed:
            if epoch == self._epoch and self._held_for is not None:
                self._is_open, self._held_for = True, None

    def _refusal(self) -> str:
        if self._held_for is not None:
            return (
                f"the mastership of epoch {self._epoch} is being handed over to broker "
                f"{self._held_for}: append there in a moment"
            )
        return (
            f"the mastership of epoch {self._epoch} is over: append to the new master"
        )

    def leave_to(self, epoch: int) -> None:
        """
        Hands the log to the bytes of another master, of a newer epoch.

        Raises:
            FencedError: a higher epoch was begun.
        """
        if self._handle is not None:
            self._handle.authority(epoch)
            self._handle = None

    def append(
        self,
        messages: Iterable[Message],
        ack: Ack,
        positions: AppendPositions | None = None,
        *,
        is_quiet: bool = False,
    ) -> Appended:
        """
        Appends messages as the master: all or none, in one segment.

        Args:
            messages: to append.
            ack: that they ask for.
            positions: filled with the offsets of each record.
            is_quiet: wakes no sender, and fills no positions; for a shared ack.

        Raises:
            FencedError: the mastership is over, or the lease that the ack needs. If it
                ended during the write, the bytes are in the log.
            PystoreError: as `pystore.core.log_writer.LogHandle.append`.
        """
        with self._changed:
            handle = self._handle
            if not self._is_open or handle is None:
                raise FencedError(self._refusal())
            self._under_way += 1
        try:
            if is_quiet:
                return OffsetWaiters.append_quietly(handle, form_of(messages))
            local_ack = LocalAck.SHARED if ack.is_shared else LocalAck.LEADER
            return handle.append_batch(messages, local_ack, positions)
        finally:
            with self._changed:
                self._under_way -= 1
                if not self._under_way:
                    self._changed.notify_all()

    def left_ms(self) -> int | None:
        """
        Returns how long the lease still runs, at least 1 while it does; 0: there is
        none; ``None``: the controller gives no leases.
        """
        lease = self._lease
        if lease == UNLEASED:
            return None
        boottime_ns, wall_ms = self._clocks
        now = boottime_ns(), wall_ms()
        return 0 if lease.has_ended(*now) else max(1, lease.left_ms(*now))

    def lease_ms(self) -> int | None:
        """
        Returns the last whole millisecond of the lease, on the clock that was given;
        ``None``: the controller gives no leases.
        """
        lease = self._lease
        if lease == UNLEASED:
            return None
        boottime_ns, wall_ms = self._clocks
        left_ms = max(0, lease.left_ms(boottime_ns(), wall_ms()))
        return self._now_ms() + left_ms - 1

    def _grant(self, handle: LogHandle, epoch: int, lease: Lease) -> None:
        if lease == UNLEASED:
            handle.authority(epoch, NO_OFFSET, NO_OFFSET)
        else:
            # The core takes 0 for no lease.
            ends = max(lease.boottime_ns, 1), max(lease.wall_ms, 1)
            handle.authority(epoch, *ends)
