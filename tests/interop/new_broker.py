"""
A process of a new broker that negotiates its id and is killed at a given point.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lib.store.stores import SEGMENT

from pystore.controller.client.client import ControllerClient
from pystore.controller.identity.identity import ConfiguredIdentity, check_code
from pystore.controller.identity.negotiation import Negotiation
from pystore.controller.identity.registration import BrokerRegistration
from pystore.controller.identity.store import IdentityStore
from pystore.controller.model.commands import Recovery
from pystore.controller.model.log_end import LogEnd
from pystore.controller.model.replies import Done, NextBrokerId
from pystore.controller.protocol.calls import (
    ApplyBrokerId,
    CallRefused,
    CallUnanswered,
    GetNextBrokerId,
    MasterInfo,
    RegisterBroker,
)
from pystore.metastore.schema import INCARNATION
from pystore.metastore.values import Identity
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity
from pystore.store.commit_log import CommitLog

CLUSTER = "cluster"
POINTS = 12
"""Before and after each of the six steps of a negotiation."""

T = TypeVar("T")


class _KillPoint:
    """
    Kills this process with SIGKILL at its n-th point; ``None``: never.
    """

    def __init__(self, point: int | None) -> None:
        self._point = point
        self._passed = 0

    def point(self) -> None:
        if self._passed == self._point:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        self._passed += 1

    def around(self, step: Callable[[], T]) -> T:
        self.point()
        done = step()
        self.point()
        return done


class _MortalStore(IdentityStore):
    fate: _KillPoint

    def read(self) -> Identity:
        return self.fate.around(super().read)

    def write_temporary(self, temporary: TemporaryIdentity) -> None:
        self.fate.around(lambda: super(_MortalStore, self).write_temporary(temporary))

    def confirm(self, identity: BrokerIdentity) -> None:
        self.fate.around(lambda: super(_MortalStore, self).confirm(identity))

    def delete_temporary(self, temporary: TemporaryIdentity) -> None:
        self.fate.around(lambda: super(_MortalStore, self).delete_temporary(temporary))


class _MortalClient(ControllerClient):
    fate: _KillPoint

    async def get_next_broker_id(
        self, request: GetNextBrokerId
    ) -> NextBrokerId | CallRefused | CallUnanswered:
        self.fate.point()
        answer = await super().get_next_broker_id(request)
        self.fate.point()
        return answer

    async def apply_broker_id(
        self, request: ApplyBrokerId
    ) -> Done | CallRefused | CallUnanswered:
        self.fate.point()
        answer = await super().apply_broker_id(request)
        self.fate.point()
        return answer

    async def register_broker(
        self, request: RegisterBroker
    ) -> MasterInfo | CallRefused | CallUnanswered:
        self.fate.point()
        answer = await super().register_broker(request)
        self.fate.point()
        return answer


@dataclass(frozen=True, slots=True)
class NewBroker:
    """
    A broker that was never started.

    Attributes:
        controller: ``HOST:PORT`` of the controller.
        name: the name of its set.
        store: a directory that does not exist yet.
        port: the port of its address, different for each broker.
    """

    controller: str
    name: str
    store: Path
    port: int = 10911

    def start(self, killed_at: int | None = None) -> Callable[[], int | None]:
        """
        Starts a process.

        Returns:
            A function that waits for the end of the process and returns the broker id;
            ``None``: the process was killed at its point.
        """
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            # Threads of other tests may run; the child uses none of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            result = "?"
            try:
                os.close(reader)
                result = str(asyncio.run(self._negotiate(_KillPoint(killed_at))))
            except BaseException as error:
                result = repr(error)
            os.write(writer, result.encode())
            os._exit(0)
        os.close(writer)

        def end() -> int | None:
            with os.fdopen(reader) as pipe:
                result = pipe.read()
            status = os.waitpid(pid, 0)[1]
            if os.WIFSIGNALED(status) and killed_at is not None:
                return None
            return int(result)

        return end

    def run(self, killed_at: int | None = None) -> int | None:
        """
        Starts a process, waits for its end, and returns the result of ``start``.
        """
        return self.start(killed_at)()

    async def _negotiate(self, fate: _KillPoint) -> int:
        named = ConfiguredIdentity(CLUSTER, self.name, f"127.0.0.1:{self.port}")
        with CommitLog(self.store, segment_size=SEGMENT) as log:
            found = Recovery(
                log.writer.metastore.read(INCARNATION), "boot", LogEnd(-1, 0)
            )
            store = _MortalStore(log.writer)
            client = _MortalClient([self.controller])
            store.fate = client.fate = fate
            async with client:
                registration = BrokerRegistration(
                    Negotiation(named, self._code, found),
                    store,
                    client,
                    lambda failures: asyncio.sleep(0.05 * failures),
                    print,
                )
                now = await registration.run()
        assert now.identity is not None
        return now.identity.broker_id

    def _code(self) -> str:
        return check_code(f"127.0.0.1:{self.port}", 1700000000000, os.urandom(8))
