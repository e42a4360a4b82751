"""
Below which offset nothing of a log may be bad.
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
    Returns what opening the store would go by: our own bound, or RocketMQ's
    evidence (A5, A8).

    Args:
        root: of the store.
        segments: of its log, all of them.
        queues: of the store.
        page: the live page, if it binds.
        damages: gets a line for each small file that cannot be read.
    """
    if page is not None and running_writer(root) is not None:
        return Bound(page.read().published_end, "published end")
    try:
        if (root / META_NAME).exists():
            found = inspect_ours(root)
            if found is not None:
                return Bound(found.plan.bound, found.plan.bound_name)
    except PystoreError as error:
        # A small file that cannot be read is damage; the records are checked all
        # the same, as those of a store that nothing is known of.
        damages.append(Damage(error.path or str(root), error.offset, str(error)))
        opening = RocketmqEvidence(is_abort=(root / ABORT).exists())
        return gather_evidence(segments, queues, opening)
    return find_evidence(root, segments, queues, damages)


def find_evidence(
    root: Path, segments: Segments, queues: ConsumeQueues, damages: list[Damage]
) -> Evidence:
    """
    Returns what RocketMQ's files show, of a store without bounds of ours (A8).
    """
    try:
        opening = opening_of(find(root), queues)
    except PystoreError as error:
        # As above.
        damages.append(Damage(error.path or str(root), error.offset, str(error)))
        opening = RocketmqEvidence(is_abort=(root / ABORT).exists())
    return gather_evidence(segments, queues, opening)
