"""
Which records below the first one of a log have an entry in their queue. Pure.

A log that began late is filled downwards. The records of one queue in the segment
before it go on with lower queue offsets, in the order of the log. A queue offset that
does not rise shows that the topic was deleted and made again behind it: the records
before are of no queue any more.

Source: A16; RocketMQ 5.3, ``ConsumeQueue``.
"""

from __future__ import annotations

import numpy as np

from pystore.consumequeue.build import Group

__all__ = ["below_first"]


def below_first(group: Group, limit: int | None) -> Group:
    """
    Returns the records of a group that have an entry: the last ones, with queue offsets
    that rise and stay below a limit.

    Args:
        group: of one queue, in the order of the log.
        limit: the first queue offset with a record above them, or the next one to be
            given; ``None``: not known.
    """
    indexes = group.indexes
    start = len(indexes)
    if start and indexes[-1] >= 0 and (limit is None or indexes[-1] < limit):
        is_broken = (np.diff(indexes) <= 0) | (indexes[:-1] < 0)
        broken = np.flatnonzero(is_broken)
        start = int(broken[-1]) + 1 if len(broken) else 0
    return group._replace(indexes=indexes[start:], entries=group.entries[start:])
