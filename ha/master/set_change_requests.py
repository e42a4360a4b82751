"""
Requests for changes of the SyncStateSet, in a thread of their own.

A controller may take seconds to answer, or never answer; deadlines of acks and checks
of the set cannot wait for that. The thread sends one request at a time and hands the
answer to the in-sync monitor. Answers after the end of the mastership are dropped: the
next master reads the set from the controller.

Source: RMQ-R93, RMQ-R112, RMQ-R119; B9.
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
    What a replica needs from a controller. Any thread may call.

    Decisions and leases of the controller come by another way
    (`pystore.ha.replica.Replica`).
    """

    def broker_ids(self) -> frozenset[int]:
        """
        Returns the ids of all brokers of the set that it knows, at once.
        """
        ...

    def ask(self, change: SetChange) -> AgreedSet | SetRefusal | None:
        """
        Requests a change of the SyncStateSet; may take seconds.

        Returns:
            the set that the controller committed, or its newer set; a refusal; or
            ``None``: no answer came, so it may have committed the change.
        """
        ...

    def newer_epoch_told(self, epoch: int) -> None:
        """
        A peer told a newer epoch than that of this mastership. Returns at once; if the
        controller confirms it, its decision follows (B16).
        """
        ...

    def resign(self, epoch: int, reason: str) -> None:
        """
        Gives a mastership up: this broker never serves that epoch again, so another
        one may be elected without waiting for the lease (C3). Returns at once; the
        next heartbeat tells the controller.
        """
        ...


class SetChangeRequests:
    """
    Sends requests until it is closed.

    Args:
        ask: requests a change from the controller.
        answered: takes the answer; ``None``: no answer came.
        say: takes one line for the operator.
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
        Queues a change to request; returns at once.
        """
        self._changes.put(change)

    def close(self) -> None:
        """
        Sends no more requests, and drops an answer that is still to come; may be
        called again. Does not wait: the thread ends when the controller answers.
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
            # Any error: the controller may have committed the change, or not.
            self._say(f"the request to change the SyncStateSet failed: {error}")
        answered = self._answered
        if answered is None:
            return
        try:
            answered(change, answer)
        except PystoreError as error:
            # Such as a set without this master: it belongs to another mastership.
            self._say(f"the controller's answer is not usable: {error}")
            answered(change, None)
