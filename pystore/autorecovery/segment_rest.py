"""
Why a claimed segment goes back to the queue, and for how long it rests there. Pure.

Source: AR-R9, AR-R11, AR-R18; docs/autorecovery.md, *The worker*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pystore.autorecovery.mark import SegmentMark
from pystore.autorecovery.settings import RecoverySettings

__all__ = ["SegmentRest"]


@dataclass(frozen=True, slots=True)
class SegmentRest:
    """
    The end of a claim that did not repair its segment.

    Attributes:
        why: what it needs, one line.
        found: what was found at each copy, one line, by broker id.
        for_ms: the time of the rest, which is no failed try; ``None``: it is one, and
            the time follows from their number.
        is_without_copy: every copy answered, and none has the bytes that are needed.
    """

    why: str = ""
    found: Mapping[int, str] = field(default_factory=dict)
    for_ms: int | None = None
    is_without_copy: bool = False

    def rested(
        self, mark: SegmentMark, now_ms: int, settings: RecoverySettings
    ) -> SegmentMark:
        """
        Returns the mark of the segment that rests.

        Args:
            mark: as it is.
            now_ms: Unix time.
            settings: of the cluster.
        """
        tries = mark.tries + (self.for_ms is None)
        for_ms = settings.back_off_ms(tries) if self.for_ms is None else self.for_ms
        return replace(
            mark,
            tries=tries,
            not_before_ms=now_ms + for_ms,
            why=self.why,
            found=dict(self.found),
            no_copy_tries=mark.no_copy_tries + 1 if self.is_without_copy else 0,
        )
