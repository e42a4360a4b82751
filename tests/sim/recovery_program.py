"""
The program of AutoRecovery in a virtual process: a candidate for the Auditor and a
worker, as ``pystore recovery daemon`` runs them, with their own threads and clients.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from sim.kernel import Kernel
from sim.programs import LoopPolicy
from sim.record_session import Answers, RecordSession

from pystore.autorecovery.auditor_thread import AuditorThread
from pystore.autorecovery.controllers import LeadingControllers
from pystore.autorecovery.peer_client import RemotePeers
from pystore.autorecovery.worker_threads import WorkerThreads
from pystore.controller.client.client import ControllerClient

__all__ = ["RecoveryProgram"]


class RecoveryProgram:
    """
    A candidate and a worker.

    Args:
        kernel: of this process.
        name: of this process, for people.
        controllers: their addresses.
        session_ms: of its sessions with the record store.
    """

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        controllers: tuple[str, ...],
        session_ms: int,
    ) -> None:
        self._kernel = kernel
        self._name = name
        self._controllers = controllers
        self._session_ms = session_ms
        self._answers = Answers(kernel)
        self._is_stopped = False

    def run(self) -> None:
        """
        See `sim.child.Program`.
        """
        asyncio.set_event_loop_policy(LoopPolicy(self._kernel))
        asked = LeadingControllers(
            lambda: ControllerClient(self._controllers, say=self._say)
        )
        with asked, RemotePeers(say=self._say) as peers:
            auditor = AuditorThread(
                self._session,
                self._name,
                controllers=asked,
                peers=peers,
                say=self._say,
            )
            worker = WorkerThreads(
                self._session,
                self._name,
                controllers=lambda: asked,
                peers=peers,
                say=self._say,
            )
            auditor.start()
            worker.start()
            self._kernel.say("ready")
            self._kernel.wait(lambda: self._is_stopped)
            auditor.stop()
            worker.stop()

    def arrived(self, kind: str, *more: Any) -> None:
        """
        An answer of the record store, or the order to stop.
        """
        if kind == "stop":
            self._is_stopped = True
        else:
            self._answers.arrived(*more)

    def stepped(self) -> None:
        """
        See `sim.child.Program`.
        """

    def _session(self) -> RecordSession:
        number = int.from_bytes(os.urandom(6))
        return RecordSession(self._kernel, self._answers, number, self._session_ms)

    def _say(self, text: str) -> None:
        self._kernel.say("line", text)
