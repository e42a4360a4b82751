"""
Notifies brokers of a new master, apart from the handling of requests.

Source: formats 4.9; RMQ-R57, RMQ-R74 to RMQ-R76.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from pystore.controller.protocol.server_codec_answers import encode_notification
from pystore.controller.server.notifications import Notification, Notifications
from pystore.errors import PystoreError
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand

__all__ = ["NotificationSender"]

_S = 1_000_000_000
_IDLE_S = 60.0


class NotificationSender:
    """
    Sends notifications. For one event loop.

    Args:
        send: sends a request to the broker of a notification; raises a `PystoreError`
            on failure.
        clock_ns: boot time.
        draw: randomness for pauses.

    Attributes:
        notifications: the pending ones; call `wake` after a change.
    """

    def __init__(
        self,
        send: Callable[[Notification, RemotingCommand], Awaitable[None]],
        *,
        clock_ns: Callable[[], int],
        draw: random.Random,
    ) -> None:
        self.notifications = Notifications()
        self._send_request = send
        self._clock_ns = clock_ns
        self._draw = draw
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """
        Wakes the sender after a change of `notifications`.
        """
        self._wake.set()

    async def run(self) -> None:
        """
        Sends due notifications until it is cancelled.
        """
        try:
            while True:
                self._wake.clear()
                while (
                    notification := self.notifications.next(self._clock_ns())
                ) is not None:
                    task = asyncio.create_task(self._send(notification))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                await self._pause()
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pause(self) -> None:
        due_ns = self.notifications.next_ns
        left_s = _IDLE_S if due_ns is None else (due_ns - self._clock_ns()) / _S
        try:
            async with asyncio.timeout(max(left_s, 0)):
                await self._wake.wait()
        except TimeoutError:
            # A notification is due, or the idle time is over.
            return

    async def _send(self, notification: Notification) -> None:
        fields, body = encode_notification(
            notification.leadership, notification.agreed, notification.learners
        )
        request = RemotingCommand(
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED, ext_fields=fields, body=body
        )
        has_worked = True
        try:
            await self._send_request(notification, request)
        except PystoreError:
            # The broker is notified again, and it also polls.
            has_worked = False
        now_ns = self._clock_ns()
        self.notifications.sent(
            notification, now_ns, self._draw.random(), worked=has_worked
        )
        self.wake()
