"""
The thread of an Auditor, or of a candidate: it opens the record store again when its
session was lost.

Source: AR-R21; BK-A7 to BK-A16; docs/autorecovery.md, *The Auditor*.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pystore.autorecovery.auditor import Auditor
from pystore.autorecovery.loss_audit import LossReplacements
from pystore.autorecovery.replica_peers import Controllers, ReplicaPeers
from pystore.clocks import clock_ms, wall_ms
from pystore.errors import PystoreError
from pystore.records.record_store import RecordStore

__all__ = ["AuditorThread"]

_AGAIN_S = 5.0
_LOOKS_AT_ONCE = 8


class AuditorThread:
    """
    An Auditor that runs until it is stopped. One thread starts and stops it.

    Args:
        open_store: returns a new session with the record store.
        name: of the process, such as ``host-7:4711``.
        controllers: the leading controller.
        peers: the replicas.
        say: receives one line for the operator.
        replacements: gets the losses that are due; ``None``: none can be replaced.
        again_s: between two tries after an error.

    Attributes:
        leads: this process audits.
        waits_for: what it waits for, one line.
        problem: what stops it now, one line; empty: nothing.
    """

    def __init__(
        self,
        open_store: Callable[[], RecordStore],
        name: str,
        *,
        controllers: Controllers,
        peers: ReplicaPeers,
        say: Callable[[str], object],
        replacements: Callable[[RecordStore], LossReplacements] | None = None,
        again_s: float = _AGAIN_S,
    ) -> None:
        self.leads = False
        self.waits_for = ""
        self.problem = ""
        self._open_store = open_store
        self._name = name
        self._controllers = controllers
        self._peers = peers
        self._say = say
        self._replacements = replacements
        self._again_s = again_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="pystore-auditor", daemon=True
        )

    def start(self) -> None:
        """
        Becomes a candidate; returns at once, also if the record store does not answer.
        """
        self._thread.start()

    def stop(self) -> None:
        """
        Ends the term and waits for the thread. Again is fine.
        """
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._audit()
            except PystoreError as error:
                # The record store: another session is tried.
                self._trouble(str(error))
            except Exception as error:
                # A defect, which must not end recovery for good.
                self._trouble(f"{type(error).__name__}: {error}")
            self._took(leads=False)
            self._stopping.wait(self._again_s)

    def _audit(self) -> None:
        """
        Audits with one session, until it is lost or the thread is stopped.
        """
        store = self._open_store()
        try:
            with ThreadPoolExecutor(_LOOKS_AT_ONCE, "pystore-looks") as executor:
                replacements = self._replacements and self._replacements(store)
                auditor = Auditor(
                    store,
                    self._controllers,
                    self._peers,
                    executor,
                    name=self._name,
                    wall_ms=wall_ms,
                    steady_ms=clock_ms,
                    replacements=replacements,
                )
                while not self._stopping.is_set():
                    turn = auditor.step()
                    # Before, an opened store says nothing yet.
                    self.problem = ""
                    self.waits_for = turn.waits_for
                    self._took(leads=turn.leads)
                    self._stopping.wait(turn.next_ms / 1000)
        finally:
            # It gives the term up, so that another process audits at once.
            store.close()

    def _took(self, *, leads: bool) -> None:
        if leads != self.leads:
            self._say(
                f"{self._name} is the Auditor"
                if leads
                else f"{self._name} is the Auditor no more"
            )
        self.leads = leads

    def _trouble(self, problem: str) -> None:
        if problem != self.problem:
            self._say(f"Auditor {self._name}: {problem}")
        self.problem = problem
