"""
Rounds of verification over replicas that are stores of this process, without Spark.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from lib.autorecovery.local_set import LocalSet
from lib.autorecovery.marks import Clock
from lib.autorecovery.recoveries import RECORDS
from lib.remoting.record_stores import InMemory
from lib.store.late import follow_from
from lib.store.pairs import fill, seal
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.segments.store_copy import StoreCopy
from pystore.spark.peers.access import BrokerAccess
from pystore.spark.peers.check import BrokerTask, check_broker, check_copies
from pystore.spark.peers.run import PeerVerification, RoundWishes
from pystore.spark.verify.run import VerifyRun
from pystore.spark.verify.verdicts import SegmentVerdict

__all__ = ["LocalRounds", "bad_of", "replicas_of"]


def replicas_of(folder: Path, count: int = 3, records: int = RECORDS) -> LocalSet:
    """
    Sealed replicas of one log.
    """
    first = folder / "made"
    fill(first, records)
    seal(first)
    roots = [folder / f"broker-{one}" for one in range(1, count + 1)]
    for root in roots:
        follow_from(first, root, 0)
    shutil.rmtree(first)
    return LocalSet(*roots)


class LocalRounds:
    """
    Rounds, their replicas and their queue.

    Args:
        replicas: of the set.
        **wishes: of `RoundWishes`; marks are written, and nothing is read directly, if
            they do not say otherwise.

    Attributes:
        space: of the records.
        clock: Unix time.
        job: the rounds.
        batches: the tasks of each call of `run`.
        after: called after the tasks of each batch.
    """

    def __init__(self, replicas: LocalSet, **wishes: Any) -> None:
        self.space = InMemory()
        self.clock = Clock()
        self.replicas = replicas
        self.batches: list[list[BrokerTask]] = []
        self.after: Callable[[], object] = bool
        self.job = PeerVerification(
            replicas,
            replicas,
            self.space.open,
            access=BrokerAccess(),
            wishes=RoundWishes(**{"is_marking": True, "direct_share": 0, **wishes}),
            now_ms=self.clock,
        )

    @property
    def queue(self) -> UnderReplicationQueue:
        """
        The queue, in a session of its own.
        """
        return UnderReplicationQueue(self.space.open(), self.clock)

    def run(
        self, tasks: Sequence[Any], function: Callable[[Any], Any], _: object
    ) -> list[Any]:
        """
        Checks in this process what an executor asks brokers for.
        """
        assert function is check_broker
        self.batches.append(list(tasks))
        found = [
            check_copies(
                pickle.loads(pickle.dumps(task)),
                self.replicas,
                lambda path: nullcontext(StoreCopy(Path(path))),
            )
            for task in tasks
        ]
        self.after()
        return found

    def round(self, number: int = 0, **more: Any) -> VerifyRun:
        """
        One round.
        """
        return self.job.round(self.run, number=number, **more)

    def marked(self) -> dict[int, dict[int, str]]:
        """
        The reasons of the marks, by base offset and broker id.
        """
        return {
            key.start: {one: fact.reason.value for one, fact in mark.missing.items()}
            for key, mark in self.queue.list().items()
        }


def bad_of(found: VerifyRun | Sequence[SegmentVerdict]) -> list[tuple[str, str, Any]]:
    """
    Verdict, replica and base offset of each bad row.
    """
    rows = found.verdicts if isinstance(found, VerifyRun) else found
    return [(str(it.verdict), it.store, it.segment) for it in rows if it.is_bad]
