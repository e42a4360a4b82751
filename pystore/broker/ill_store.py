"""
A store that cannot be opened, since a segment is missing, short or unreadable, and that
takes repairs until it can.

Its other segments are whole, and are served by path. No record is written to it, and
nothing is cut.

Source: docs/autorecovery.md, *An ill replica*; docs/adr/0008-logs-stay-contiguous.md.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pystore.core.lock import Lock
from pystore.core.options import LogArguments
from pystore.errors import (
    ClosedError,
    CorruptError,
    LockedError,
    NotAStoreError,
    PystoreError,
)
from pystore.fs.layout import COMMIT_LOG, LOCK, segment_name
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.replicaset import Incarnation
from pystore.rocketmq.identity_file import BrokerIdentity
from pystore.segments.copy import LogCopy
from pystore.segments.mending import MendProgress, kept_directory, mend_closed
from pystore.segments.order import ReplicaStat
from pystore.segments.order_target import ClosedTarget
from pystore.segments.store_copy import StoreCopy, file_problem

__all__ = ["IllStore", "open_replica"]

_ILL_ERRORS = (NotAStoreError, CorruptError)
"""With which a store is refused that may be ill."""


def open_replica(root: Path, options: LogArguments) -> ReplicaLog | IllStore:
    """
    Opens a store as a replica; one that a repair may help is ill.

    Raises:
        PystoreError: it is refused, and no repair helps.
    """
    try:
        return ReplicaLog(root, **options)
    except _ILL_ERRORS as error:
        # Raised again, unless a repair helps.
        return IllStore(root, options, error)


class IllStore:
    """
    One such store. Any thread.

    Args:
        root: of the store.
        options: with which it is to be opened.
        error: with which it was refused.

    Attributes:
        identity: of the broker.
        segment_size: of its log, in bytes.
        incarnation: of this process, which registers nowhere.
        reason: why it cannot be opened, one line.
        mended: called after each repair, in its thread.

    Raises:
        PystoreError: `error`, if no repair helps: it is no store of a broker, or its
            metadata cannot be read.
    """

    def __init__(self, root: Path, options: LogArguments, error: PystoreError) -> None:
        self._root = root
        self._options = options
        # A repair and an opening exclude each other, as processes do by the lock file.
        self._lock = threading.Lock()
        self._is_open = False
        self.mended: Callable[[], object] = bool
        self.reason = str(error)
        self.incarnation = Incarnation(0, secrets.token_bytes(16))
        try:
            copy = StoreCopy(root)
        except PystoreError:
            # The reason of the refusal says more.
            raise error from None
        if copy.facts.identity is None:
            raise error
        self.identity: BrokerIdentity = copy.facts.identity
        self.segment_size = copy.facts.segment_size
        self._begin = copy.facts.begin

    @property
    def root(self) -> Path:
        """
        The directory of the store.
        """
        return self._root

    @property
    def target(self) -> ClosedTarget:
        """
        For orders. A change through it is refused once the store is open.
        """
        return ClosedTarget(self._root, self._begin, self.segment_size, self._changing)

    def stat(self, segments_address: str) -> ReplicaStat:
        """
        Returns what it tells about its segments, which are looked at by their paths.

        Args:
            segments_address: where they are served; empty: nowhere.

        Raises:
            PystoreError: its metadata cannot be read.
        """
        facts = StoreCopy(self._root).facts
        folder, size = self._root / COMMIT_LOG, facts.segment_size

        def problems(bases: Iterable[int]) -> dict[int, str]:
            found = {it: file_problem(folder / segment_name(it), size) for it in bases}
            return {base: problem for base, problem in found.items() if problem}

        return ReplicaStat(
            self.incarnation.text,
            facts.begin,
            facts.end,
            facts.settled_end,
            size,
            segments_address,
            problems(facts.bases()),
            holes=problems(facts.unsettled_bases()),
        )

    def mend(
        self,
        sources: Sequence[LogCopy],
        segment: int | None = None,
        progress: MendProgress | None = None,
    ) -> MendProgress:
        """
        Repairs it, as `pystore.segments.mending.mend_closed`.

        Raises:
            PystoreError: as that; the steps before are done.
        """
        try:
            with self._lock:
                return mend_closed(
                    self._root, sources, kept_directory(self._root), segment, progress
                )
        finally:
            self.mended()

    def opened(self) -> ReplicaLog | None:
        """
        Returns the open log; ``None``: it still cannot be opened.

        Raises:
            PystoreError: it is refused for a reason that no repair helps.
        """
        with self._lock:
            try:
                log = ReplicaLog(self._root, **self._options)
            except LockedError:
                # A repair by another process.
                return None
            except _ILL_ERRORS as error:
                # Perhaps another segment than before.
                self.reason = str(error)
                return None
            self._is_open = True
            return log

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            if self._is_open:
                raise ClosedError(
                    f"{self._root}: the store is open again: order the repair again"
                )
            with Lock(self._root / LOCK):
                yield
