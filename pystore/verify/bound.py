"""
The offset below which no byte of a log may be bad.
"""

from __future__ import annotations

from pathlib import Path

from pystore.consumequeue.queues import ConsumeQueues
from pystore.core.live_page import LivePage
from pystore.core.lock import running_writer
from pystore.errors import PystoreError
from pystore.fs.layout import ABORT, META_NAME
from pystore.recovery.dry_run import inspect_ours
from pystore.recovery.foreign_writer import find
from pystore.recovery.rocketmq import RocketmqEvidence, gather_evidence
from pystore.recovery.segments import Segments
from pystore.recovery.state import opening_of
from pystore.recovery.torn_tail import Bound, Evidence
from pystore.verify.report import Damage

__all__ = ["find_bound", "find_evidence"]


def find_bound(
    root: Path,
    segments: Segments,
    queues: ConsumeQueues,
    page: LivePage | None,
    damages: list[Damage],
) -> Bound | Evidence:
    """
    Returns what an opening would use: the bound of pystore, or RocketMQ's evidence
    (A5, A8).

    Args:
        root: the directory of the store.
        segments: all segments of its log.
        queues: the consume queues of the store.
        page: the live page, if it is valid.
        damages: gets an entry for each small file that cannot be read.
    """
    if page is not None and running_writer(root) is not None:
        return Bound(page.read().published_end, "published end")
    try:
        if (root / META_NAME).exists():
            found = inspect_ours(root)
            if found is not None:
                return Bound(found.plan.bound, found.plan.bound_name)
    except PystoreError as error:
        # A small file that cannot be read is damage. The records are checked
        # nevertheless, like those of a store without small files.
        damages.append(Damage(error.path or str(root), error.offset, str(error)))
        opening = RocketmqEvidence(is_abort=(root / ABORT).exists())
        return gather_evidence(segments, queues, opening)
    return find_evidence(root, segments, queues, damages)


def find_evidence(
    root: Path, segments: Segments, queues: ConsumeQueues, damages: list[Damage]
) -> Evidence:
    """
    Returns the evidence of RocketMQ's files, for a store without pystore's bounds (A8).
    """
    try:
        opening = opening_of(find(root), queues)
    except PystoreError as error:
        # As in `find_bound`.
        damages.append(Damage(error.path or str(root), error.offset, str(error)))
        opening = RocketmqEvidence(is_abort=(root / ABORT).exists())
    return gather_evidence(segments, queues, opening)
