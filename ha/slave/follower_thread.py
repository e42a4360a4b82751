"""
A follower in a thread of its own, until it is stopped.

Source: docs/replication.md; RMQ-R161, RMQ-R164.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from dataclasses import replace

from pystore.errors import PystoreError
from pystore.events.node_events import FollowingEnded
from pystore.events.node_teller import Tell
from pystore.ha.slave.backoff import BackOff, BackOffConfig
from pystore.ha.slave.config import SlaveConfig
from pystore.ha.slave.follower import Follower, FollowerEnvironment, FollowerStatus
from pystore.ha.slave.protocol_v3 import V3SlaveProtocol
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.ha.slave.transport import MasterStream, connect
from pystore.ha.wire.proof import CHALLENGE_BYTES
from pystore.net.address import parse_address
from pystore.net.tls import ClientTls
from pystore.rates.host_rates import HostRates

__all__ = ["FollowerThread"]

_OTHER_TERMS = "whether this replica is a learner has changed: connecting again"
_WHOLE = "this replica lacks no records of its set any more: connecting again"


class FollowerThread:
    """
    A thread that runs a `Follower`. One thread makes and stops it; any thread reads
    its status.

    Args:
        log: of the replica; until `stop` only this thread writes to it.
        address: ``HOST:PORT`` of the master.
        config: of the slave.
        now_ms: a clock that never steps back.
        tell: takes the events of the link, and adds the master's name to them.
        pace: the waits between two links.
        tls: of the links; ``None``: plain bytes.
        is_learner: whether the replica is a learner at that moment; by default as the
            configuration says.
        rates: of the host; ``None``: no limits.
        is_waited_for: see `pystore.ha.slave.follower.FollowerEnvironment`.
        came_damaged: takes the offset of each record that came damaged.
        is_member: whether the newest SyncStateSet lists the replica. One that is
            filled while it is none connects again, so that its master may add it
            (B11); the link of a member goes on.

    Attributes:
        problem: why it stopped following, or ``None``.

    Raises:
        ValueError: the address is invalid.
    """

    def __init__(
        self,
        log: ReplicaLog,
        address: str,
        config: SlaveConfig,
        now_ms: Callable[[], int],
        *,
        tell: Tell,
        pace: BackOffConfig,
        tls: ClientTls | None = None,
        is_learner: Callable[[], bool] | None = None,
        rates: HostRates | None = None,
        is_waited_for: Callable[[], bool] = bool,
        came_damaged: Callable[[int], object] = bool,
        is_member: Callable[[], bool] = bool,
    ) -> None:
        host, port = parse_address(address)
        self.problem: PystoreError | None = None
        self._tell = tell
        self._stopping = stopping = threading.Event()
        self._waking = waking = threading.Event()

        def dial() -> MasterStream:
            return connect(host, port, stopping.is_set, now_ms, tls=tls)

        def pause(wait_ms: int) -> None:
            waking.wait(wait_ms / 1000)
            if not stopping.is_set():
                waking.clear()

        terms, learns = config, is_learner or (lambda: config.is_learner)
        was_filling = False

        def make() -> V3SlaveProtocol:
            nonlocal terms, was_filling
            terms = replace(config, is_learner=learns())
            was_filling = log.joined.is_filling
            return V3SlaveProtocol(terms, os.urandom(CHALLENGE_BYTES))

        def outdated() -> str:
            nonlocal was_filling
            if learns() != terms.is_learner:
                return _OTHER_TERMS
            is_filling = log.joined.is_filling
            # An empty log begins, maybe late, in its first link.
            was_filling |= is_filling
            is_whole = was_filling and not is_filling
            return _WHOLE if is_whole and not is_member() else ""

        environment = FollowerEnvironment(
            dial=dial,
            make=make,
            now_ms=now_ms,
            pause=pause,
            is_stopping=stopping.is_set,
            tell=tell,
            outdated=outdated,
            rates=rates or HostRates(),
            is_waited_for=is_waited_for,
            came_damaged=came_damaged,
        )
        back_off = BackOff(random.random, pace.first_ms, pace.most_ms)
        self._follower = Follower(log, environment, back_off)
        self._thread = threading.Thread(target=self._run, name="pystore-ha-follow")
        self._thread.daemon = True
        self._thread.start()

    def _run(self) -> None:
        try:
            self._follower.run()
        except PystoreError as error:
            # The slave's own disk, or a final refusal: told and stored.
            self.problem = error
            self._tell(FollowingEnded, reason=str(error))

    def status(self) -> FollowerStatus:
        """
        Returns how the follower stands.
        """
        return self._follower.status()

    def hurry(self) -> None:
        """
        Connects again at once, if it has no link, and begins its waits anew: the
        controller decided something new. Any thread.
        """
        self._follower.hurry()
        self._waking.set()

    def stop(self) -> None:
        """
        A last ack, then the end of the link; waits for it. Again is fine.
        """
        self._stopping.set()
        self._waking.set()
        self._thread.join()
