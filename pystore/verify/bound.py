"""
The offset below which no byte of a log may be bad.
"""

from __future__ import annotations

from pathlib import Path

from pystore.consumequeue.queues import ConsumeQueues
from pystore.errors import PystoreError, StorageError
from pystore.fs.layout import ABORT, META_NAME, segment_path
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import QUEUES
from pystore.recovery.dry_run import find_bounds
from pystore.recovery.foreign_writer import find
from pystore.recovery.rocketmq import RocketmqEvidence, gather_evidence
from pystore.recovery.segments import Segments
from pystore.recovery.state import opening_of
from pystore.recovery.torn_tail import Bound, Evidence
from pystore.verify.report import Damage, damage_of

__all__ = ["find_bound", "find_dispatched", "find_evidence"]


def find_bound(
    root: Path,
    segments: Segments,
    queues: ConsumeQueues,
    published_end: int | None,
    damages: list[Damage],
) -> Bound | Evidence:
    """
    Returns what an opening would use: the bound of pystore, or RocketMQ's evidence
    (A5, A8).

    Args:
        root: the directory of the store.
        segments: all segments of its log.
        queues: the consume queues of the store, loaded; empty if they cannot be: what
            the metadata promises does not rest on them.
        published_end: of the running writer; ``None``: there is none.
        damages: gets an entry for each small file that cannot be read.

    Raises:
        StorageError: the system refused.
    """
    if published_end is not None:
        return Bound(published_end, "published end")
    try:
        if (root / META_NAME).exists():
            bounds = find_bounds(root, queues)
            damages += [damage_of(root, one) for one in bounds.unreadable]
            if bounds.lost is not None:
                stored, now = bounds.lost
                text = f"the log begins at {now}, but its stored beginning is {stored}"
                path = str(segment_path(root, stored))
                damages.append(
                    Damage(
                        path,
                        stored,
                        text,
                        part="log",
                        basis=("stored bound",),
                        end=now,
                    )
                )
            return bounds.bound
    except StorageError:
        # No answer is no damage.
        raise
    except PystoreError as error:
        # A small file that cannot be read is damage. The records are checked
        # nevertheless, like those of a store without small files.
        damages.append(damage_of(root, error))
        opening = RocketmqEvidence(is_abort=(root / ABORT).exists())
        return gather_evidence(segments, queues, opening)
    return find_evidence(root, segments, queues, damages)


def find_dispatched(root: Path) -> int:
    """
    Returns the offset below which every record had its queue entry on disk; 0: it is
    not known.
    """
    try:
        with MetaStore.open_read_only(root / META_NAME) as metastore:
            return metastore.read(QUEUES).synced_end
    except PystoreError:
        # A store of RocketMQ has no metadata; `find_bound` reports those that are bad.
        return 0


def find_evidence(
    root: Path, segments: Segments, queues: ConsumeQueues, damages: list[Damage]
) -> Evidence:
    """
    Returns the evidence of RocketMQ's files, for a store without pystore's bounds (A8).
    """
    try:
        opening = opening_of(find(root), queues)
    except StorageError:
        # As in `find_bound`.
        raise
    except PystoreError as error:
        # As in `find_bound`.
        damages.append(damage_of(root, error))
        opening = RocketmqEvidence(is_abort=(root / ABORT).exists())
    return gather_evidence(segments, queues, opening)
