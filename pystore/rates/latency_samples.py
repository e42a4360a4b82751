"""
How long appends took lately: what repairs of the host have to yield to.

A disk that is busy shows in the waits of synced acks, of a master and of its slaves.
These are few, so each of them counts; of appends, which are many, one in sixteen.

Source: AR-R20; docs/autorecovery.md, *Rates*.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import IntEnum
from time import monotonic_ns

__all__ = ["LatencyKind", "LatencySamples", "p99"]

_SAMPLES_MAX = 4096
_EACH = 16
_MS = 1_000_000
_NO_WAIT_NS = 50_000
"""A shorter wait for a disk was none: the bytes were there already."""


class LatencyKind(IntEnum):
    """
    What is measured. Each kind is judged alone: many short appends do not hide the
    waits for a disk.
    """

    APPEND = 0
    """A call that puts records into the log's memory."""
    SYNC = 1
    """A wait until records are on the disk."""


class LatencySamples:
    """
    The last samples of all replicas of a host. Any thread.

    Args:
        now_ns: a clock that never steps back.

    Attributes:
        is_wanted: whether samples are of use; without it none is taken.
    """

    def __init__(self, now_ns: Callable[[], int] = monotonic_ns) -> None:
        self.is_wanted = False
        self._now_ns = now_ns
        self._calls = 0
        self._samples: tuple[deque[tuple[int, int]], ...] = tuple(
            deque(maxlen=_SAMPLES_MAX) for _ in LatencyKind
        )

    def begin(self) -> int:
        """
        Returns the time before a wait; 0: no sample is taken.
        """
        return self._now_ns() if self.is_wanted else 0

    def begin_some(self) -> int:
        """
        As `begin`, for one call in sixteen.
        """
        # Two threads may count one call: it is a sample.
        self._calls = calls = self._calls + 1
        return self.begin() if not calls % _EACH else 0

    def end(self, kind: LatencyKind, began_ns: int) -> None:
        """
        Takes a sample, if *began_ns* is not 0.
        """
        if began_ns:
            now_ns = self._now_ns()
            taken_ns = now_ns - began_ns
            if kind is not LatencyKind.SYNC or taken_ns >= _NO_WAIT_NS:
                self._samples[kind].append((now_ns, taken_ns))

    def p99_ms(self, lately_ms: int) -> float | None:
        """
        Returns the 99th percentile of what ended within the last ms, of the kind that
        has the highest; ``None``: there are no samples.
        """
        since_ns = self._now_ns() - lately_ms * _MS
        found = [
            # A copy in one step: other threads append meanwhile.
            p99(taken for ended, taken in list(one) if ended >= since_ns)
            for one in self._samples
        ]
        known = [one for one in found if one is not None]
        return max(known) / _MS if known else None


def p99(values: Iterable[int]) -> int | None:
    """
    Returns the 99th percentile: at most one in a hundred is above it; ``None``: there
    are no values.
    """
    ordered = sorted(values)
    return ordered[-1 - len(ordered) // 100] if ordered else None
