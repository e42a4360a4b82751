"""
A follower in a thread of its own, until it is stopped.

Source: docs/replication.md; RMQ-R161, RMQ-R164.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable

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

__all__ = ["FollowerThread"]


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

        environment = FollowerEnvironment(
            dial=dial,
            make=lambda: V3SlaveProtocol(config, os.urandom(CHALLENGE_BYTES)),
            now_ms=now_ms,
            pause=pause,
            is_stopping=stopping.is_set,
            tell=tell,
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
