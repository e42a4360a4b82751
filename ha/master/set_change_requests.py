"""
Asking the controller, where nobody waits for it.

A controller may take seconds, or never answer; deadlines of acks and checks of the
set cannot wait for that. So it is asked in a thread of its own, one change at a time,
and the answer is brought to the judge. What comes after the end of the mastership is
dropped: its outcome is the next master's to find out.

Source: R93, R112, R119; B9.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Protocol

from pystore.errors import PystoreError
from pystore.ha.insync.set_change import SetChange
from pystore.ha.master.insync_monitor import RequestSetChange, SetRefusal
from pystore.replicaset import AgreedSet

__all__ = ["ControllerGateway", "SetChangeRequests"]

SetChangeAnswer = AgreedSet | SetRefusal | None


class ControllerGateway(Protocol):
    """
    What a replica needs of a controller. Any thread may call.

    What the controller says by itself comes in elsewhere: as decisions and leases
    (`pystore.ha.replica.Replica`).
    """

    def broker_ids(self) -> frozenset[int]:
        """
        Whom it knows, answered at once.
        """
        ...

    def ask(self, change: SetChange) -> AgreedSet | SetRefusal | None:
        """
        Asks for a change of the SyncStateSet; takes its time.

        Returns:
            the set that it committed, or the newer one that it has; why it never
            will; or ``None``: no answer came, it may have taken it.
        """
        ...

    def resign(self, epoch: int, reason: str) -> None:
        """
        This broker serves that epoch no longer, and will not again: another one may
        be elected, and need not wait for the lease (C3). Returns at once; the
        controller is told with the next heartbeat.
        """
        ...


class SetChangeRequests:
    """
    Asks until it is closed.

    Args:
        ask: the controller.
        answered: takes the answer, ``None`` if there is none.
        say: one line for people.
    """

    def __init__(
        self,
        ask: RequestSetChange,
        answered: Callable[[SetChange, SetChangeAnswer], object],
        say: Callable[[str], object],
    ) -> None:
        self._ask = ask
        self._answered: Callable[[SetChange, SetChangeAnswer], object] | None = answered
        self._say = say
        self._changes: queue.SimpleQueue[SetChange | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="pystore-ha-ask", daemon=True).start()

    def offer(self, change: SetChange) -> None:
        """
        Has the controller asked for a change; returns at once.
        """
        self._changes.put(change)

    def close(self) -> None:
        """
        Asks no more, and drops what the controller says yet; again is fine. Does not
        wait: the thread ends when the controller answers.
        """
        self._answered = None
        self._changes.put(None)

    def _run(self) -> None:
        while (change := self._changes.get()) is not None:
            self._ask_for(change)

    def _ask_for(self, change: SetChange) -> None:
        answer: SetChangeAnswer = None
        try:
            answer = self._ask(change)
        except Exception as error:
            # Of whatever kind: the controller may have taken the change, or not.
            self._say(f"the controller cannot be asked: {error}")
        answered = self._answered
        if answered is None:
            return
        try:
            answered(change, answer)
        except PystoreError as error:
            # A set without us, say: it is another mastership's.
            self._say(f"the controller's answer makes no sense: {error}")
            answered(change, None)
