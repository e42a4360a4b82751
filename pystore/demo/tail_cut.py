"""
The tail of a killed master: the bytes that only it had, and what was cut of them when
it came back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pystore.bindings.row import Check
from pystore.demo.stream_writer import StreamedAck
from pystore.fs.cut_history import read_cuts
from pystore.fs.layout import LIVE_NAME, META_NAME
from pystore.store.commit_log import CommitLog

__all__ = ["DeadLog", "TailCut", "read_dead_log"]


@dataclass(frozen=True, slots=True)
class TailCut:
    """
    What an old master cut when it followed the new one.

    Attributes:
        broker: the old master.
        end: of its log when it was killed.
        offset: where it was cut; ``None``: it was not cut.
        records: that the cut removed.
        leader_records: of the removed ones, those acknowledged as `leader`, counted by
            whole appends.
        all_records: of the removed ones, those acknowledged as `all`. It has to be 0.
    """

    broker: int
    end: int
    offset: int | None = None
    records: int = 0
    leader_records: int = 0
    all_records: int = 0

    @property
    def size_bytes(self) -> int:
        """
        How many bytes were cut.
        """
        return 0 if self.offset is None else self.end - self.offset


@dataclass(frozen=True, slots=True)
class DeadLog:
    """
    The log of a killed broker, before it starts again.

    Attributes:
        store: its directory.
        end: of the log.
        generation: number of its cuts so far.
        records: offsets of the records from some offset on.
    """

    store: Path
    end: int
    generation: int
    records: NDArray[np.int64]

    def cut(
        self,
        broker: int,
        as_leader: Sequence[StreamedAck],
        as_all: Sequence[StreamedAck],
    ) -> TailCut:
        """
        Returns what was cut since then. The broker may run.

        Args:
            broker: its id.
            as_leader: acknowledged appends of the tail.
            as_all: those that it acknowledged as `all` before it was killed.
        """
        history = read_cuts(self.store / META_NAME / LIVE_NAME)
        at = None if history is None else history.least_since(self.generation)
        if at is None or at >= self.end:
            return TailCut(broker, self.end)
        return TailCut(
            broker,
            self.end,
            at,
            int((self.records >= at).sum()),
            sum(one.count for one in as_leader if one.offset >= at),
            sum(one.count for one in as_all if one.end > at),
        )


def read_dead_log(store: Path, start: int) -> DeadLog:
    """
    Reads the log of a broker that does not run.

    Args:
        store: its directory.
        start: offset of the first record to list.

    Raises:
        PystoreError: the store cannot be read.
    """
    history = read_cuts(store / META_NAME / LIVE_NAME)
    with CommitLog(store, mode="r") as log:
        end = log.end_offset
        found = [
            rows["offset"].astype(np.int64)
            for rows in log.scan(start, end, Check.OFFSET)
        ]
    records = np.concatenate([np.zeros(0, np.int64), *found])
    return DeadLog(store, end, 0 if history is None else history.up_to, records)
