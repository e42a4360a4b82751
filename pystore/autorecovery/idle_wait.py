"""
How an idle worker waits: bounded, jittered, and at few requests.

In a busy cluster each claim of another worker is a commit, and that a holder died is
none: so a worker does not wait for commits. It sleeps, and glances now and then at what
may give it work.

Source: AR-R19; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["IdleWait"]

_SLEEP_S = 1.5
_SLEEP_LOCAL_S = 0.6
_JITTER = 0.3
_WAIT_S = 24.0


class IdleWait:
    """
    The waits of one slot between two looks. One thread.

    Args:
        glance: returns whether there may be work, at one request, such as
            `ReplicationWorker.glance` of the slot.
        chance: returns numbers from 0 up to 1, such as `random.Random.random`.
        sleep: sleeps for seconds, or until the worker is told to stop, such as
            `threading.Event.wait`; a true result: it is.
        is_local: a glance costs no server a request, as of
            `RecordStore.reads_locally`.
    """

    def __init__(
        self,
        glance: Callable[[], bool],
        chance: Callable[[], float],
        sleep: Callable[[float], object],
        *,
        is_local: bool,
    ) -> None:
        self._glance = glance
        self._chance = chance
        self._sleep = sleep
        self._sleep_s = _SLEEP_LOCAL_S if is_local else _SLEEP_S

    def wait(self) -> None:
        """
        Blocks until there may be work, for at most 26 seconds, or until the worker is
        told to stop.

        Raises:
            PystoreError: as of ``glance``.
        """
        slept_s = 0.0
        while slept_s < _WAIT_S:
            pause_s = self._sleep_s * (1 + _JITTER * (self._chance() - 0.5))
            if self._sleep(pause_s) or self._glance():
                return
            slept_s += pause_s
