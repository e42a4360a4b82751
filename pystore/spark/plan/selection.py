"""
The records that a read needs. Pure.

A selection comes from the options of a read, and holds exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from glob import has_magic
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """
    Conditions that every wanted record meets; ``None``: no condition.

    Attributes:
        topics: names.
        queues: queue ids.
        from_offset: the least offset.
        to_offset: the end of the offsets, exclusive.
        from_ms: the least store time, ms since 1970.
        to_ms: the largest store time.
        from_queue_offset: the least queue offset.
        to_queue_offset: the end of the queue offsets, exclusive.
        topic_globs: shell patterns; the topic must match one.
    """

    topics: frozenset[str] | None = None
    queues: frozenset[int] | None = None
    from_offset: int = 0
    to_offset: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    from_queue_offset: int | None = None
    to_queue_offset: int | None = None
    topic_globs: tuple[str, ...] | None = None

    def only_like(self, patterns: tuple[str, ...]) -> Selection:
        """
        Narrowed to topics that match a shell pattern.
        """
        if any(has_magic(one) for one in patterns):
            return replace(self, topic_globs=patterns)
        return self.only_topics(frozenset(patterns))

    def only_topics(self, names: frozenset[str]) -> Selection:
        """
        Narrowed to these topics.
        """
        return replace(self, topics=_both(self.topics, names))

    def only_queues(self, ids: frozenset[int]) -> Selection:
        """
        Narrowed to these queue ids.
        """
        return replace(self, queues=_both(self.queues, ids))

    def offsets(self, least: int | None, above: int | None) -> Selection:
        """
        Narrowed to offsets in ``[least, above)``.
        """
        start = max(self.from_offset, least or 0)
        ends = [end for end in (self.to_offset, above) if end is not None]
        return replace(self, from_offset=start, to_offset=min(ends, default=None))

    def queue_offsets(self, least: int | None, above: int | None) -> Selection:
        """
        Narrowed to queue offsets in ``[least, above)``.
        """
        starts = [one for one in (self.from_queue_offset, least) if one is not None]
        ends = [one for one in (self.to_queue_offset, above) if one is not None]
        return replace(
            self,
            from_queue_offset=max(starts, default=None),
            to_queue_offset=min(ends, default=None),
        )

    def times(self, least_ms: int | None, most_ms: int | None) -> Selection:
        """
        Narrowed to store times in ``[least_ms, most_ms]``.
        """
        starts = [one for one in (self.from_ms, least_ms) if one is not None]
        ends = [one for one in (self.to_ms, most_ms) if one is not None]
        return replace(
            self, from_ms=max(starts, default=None), to_ms=min(ends, default=None)
        )

    @property
    def needs_topics(self) -> bool:
        """
        Whether rows must hold topic ids.
        """
        return self.topics is not None or self.topic_globs is not None

    @property
    def needs_queues(self) -> bool:
        """
        Whether consume queues may show segments without a wanted record.
        """
        bounds = (self.from_queue_offset, self.to_queue_offset)
        return self.needs_topics or any(
            one is not None for one in (self.queues, *bounds)
        )

    def mask(
        self, rows: NDArray[Any], topic: Callable[[int], str]
    ) -> NDArray[np.bool_] | None:
        """
        Returns the mask of the rows that may be wanted; ``None``: all of them.

        Args:
            rows: of ``RECORD_DTYPE``.
            topic: returns the name for a topic id.
        """
        masks = []
        if self.needs_topics:
            known = np.unique(rows["topic_id"])
            wanted = [one for one in known.tolist() if self.has_topic(topic(one))]
            masks.append(np.isin(rows["topic_id"], wanted))
        if self.queues is not None:
            masks.append(np.isin(rows["queue_id"], list(self.queues)))
        if self.from_queue_offset is not None:
            masks.append(rows["queue_offset"] >= self.from_queue_offset)
        if self.to_queue_offset is not None:
            masks.append(rows["queue_offset"] < self.to_queue_offset)
        if self.from_ms is not None:
            masks.append(rows["store_ms"] >= self.from_ms)
        if self.to_ms is not None:
            masks.append(rows["store_ms"] <= self.to_ms)
        if not masks:
            return None
        found: NDArray[np.bool_] = np.logical_and.reduce(masks)
        return found

    def has_topic(self, topic: str) -> bool:
        """
        Whether records of a topic may be wanted.
        """
        if self.topics is not None and topic not in self.topics:
            return False
        globs = self.topic_globs
        return globs is None or any(fnmatchcase(topic, one) for one in globs)


def _both(one: frozenset[Any] | None, other: frozenset[Any]) -> frozenset[Any]:
    return other if one is None else one & other
