"""
How an idle worker waits: bounded, jittered, and at few requests.

A new mark ends the wait at once. But in a busy cluster each claim of another worker is
a commit, too, so a worker that looked in vain first sleeps for some seconds without a
request; and that a holder died is no commit, so no wait is long.

Source: AR-R19; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Callable

from pystore.autorecovery.segment_key import SPACE
from pystore.records.record_store import RecordStore

__all__ = ["IdleWait"]

_SLEEP_S = 4.0
_WAIT_S = 8.0


class IdleWait:
    """
    The waits of one slot between two looks. One thread.

    Args:
        store: of the queue.
        chance: returns numbers from 0 up to 1, such as `random.Random.random`.
        sleep: sleeps for seconds, or until the worker is told to stop, such as
            `threading.Event.wait`; a true result: it is.
    """

    def __init__(
        self,
        store: RecordStore,
        chance: Callable[[], float],
        sleep: Callable[[float], object],
    ) -> None:
        self._store = store
        self._chance = chance
        self._sleep = sleep
        self._token = 0

    def wait(self) -> None:
        """
        Blocks until there may be work, for 2 to 18 seconds, or until the worker is told
        to stop: then for up to 6 seconds.

        Raises:
            PystoreError: as of `RecordStore.wait`.
        """
        if self._sleep(_SLEEP_S * self._jitter()):
            return
        # The token is of before the last look, so no commit since then is missed.
        self._token = self._store.wait(self._token, _WAIT_S * self._jitter(), SPACE)

    def _jitter(self) -> float:
        return 0.5 + self._chance()
