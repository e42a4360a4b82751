"""
An Auditor that replaces replicas of a cluster in memory, and ends anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lib.autorecovery.replacement_model import SETTINGS, ModelCluster
from pystore.autorecovery.replacement import Replacements
from pystore.autorecovery.replacement_record import Replacement, ReplacementKey
from pystore.autorecovery.replacement_requests import list_replacements
from pystore.autorecovery.settings import RecoverySettings
from pystore.errors import UnavailableError, UnknownOutcomeError
from pystore.records.ops import Op
from pystore.records.record_store import RecordStore, StoredRecord
from pystore.records.term import Term

__all__ = ["AUDITOR", "Crash", "CrashingStore", "Recovery"]

AUDITOR = "recovery/auditor"


class Crash(BaseException):
    """
    The process ends here.
    """


class CrashingStore:
    """
    A record store whose process may end before and after each commit.

    Args:
        store: the real one.
        called: at the begin and at the end of each commit; it may raise.
    """

    def __init__(self, store: RecordStore, called: Callable[[], None]) -> None:
        self._store, self._called = store, called
        self.reads_locally = store.reads_locally

    def get(self, key: str) -> StoredRecord | None:
        """
        As of the real one.
        """
        return self._store.get(key)

    def scan(
        self, prefix: str = "", after: str = "", limit: int | None = None
    ) -> list[StoredRecord]:
        """
        As of the real one.
        """
        return self._store.scan(prefix, after, limit)

    def commit(self, ops: Sequence[Op]) -> int | None:
        """
        As of the real one, unless the process ends.
        """
        self._called()
        made = self._store.commit(ops)
        self._called()
        return made

    def wait(self, token: int, timeout_s: float, space: str = "") -> int:
        """
        As of the real one.
        """
        return self._store.wait(token, timeout_s, space)

    def campaign(self, path: str, name: str) -> Term:
        """
        As of the real one.
        """
        return self._store.campaign(path, name)

    def close(self) -> None:
        """
        Nothing: the test closes the real one.
        """


class Recovery:
    """
    An Auditor that replaces replicas, again and again made anew.

    Args:
        store: of its records.
        cluster: the model.
        settings: of AutoRecovery.

    Attributes:
        crashes: how often the process ended.
    """

    def __init__(
        self,
        store: RecordStore,
        cluster: ModelCluster,
        settings: RecoverySettings = SETTINGS,
    ) -> None:
        self.store, self.cluster, self.settings = store, cluster, settings
        self.said: list[str] = []
        self.crashes = 0
        self.called: Callable[[], None] = lambda: None
        self.begin()

    def begin(self) -> None:
        """
        Another process takes over.
        """
        while True:
            try:
                self.term = self.store.campaign(AUDITOR, "auditor").check
                break
            except UnknownOutcomeError:
                # Of a store that loses answers.
                continue
        self.replacements = Replacements(
            CrashingStore(self.store, self._call),
            self.cluster,
            self.cluster,
            self.cluster,
            clock_ms=lambda: self.cluster.now_ms,
            say=self.said.append,
        )

    def _call(self) -> None:
        self.called()

    def crash_at(self, call: int) -> None:
        """
        The process ends at this commit or request, counted from 0; each counts twice.
        """
        calls: Iterator[int] = iter(range(1 << 30))

        def called() -> None:
            if next(calls) == call:
                raise Crash

        self.called = self.cluster.called = called

    def step(self) -> None:
        """
        A second, and a step; a process that ends is begun again.
        """
        self.cluster.tick()
        self.cluster.check()
        try:
            self.replacements.step(self.cluster.all_sets(), self.settings, self.term)
        except UnavailableError:
            # The next step goes on.
            return
        except Crash:
            # Its successor finds the records.
            self.called = self.cluster.called = lambda: None
            self.crashes += 1
            self.begin()

    def run(self, seconds: int = 400) -> None:
        """
        Steps until nothing is left to do.
        """
        for _ in range(seconds):
            self.step()
            if not self.records:
                return
        raise AssertionError(f"{self.records}: {self.cluster.asked}")

    @property
    def records(self) -> dict[ReplacementKey, Replacement]:
        """
        The replacements.
        """
        return list_replacements(self.store)
