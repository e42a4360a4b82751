"""
How a rate yields to writers. Pure.

It halves while appends take too long, and grows again in small steps. Between the two
it stays: near the limit it does not swing.

Source: AR-R20; docs/autorecovery.md, *Rates*.
"""

from __future__ import annotations

__all__ = ["LEAST_BYTES_PER_SECOND", "UNLIMITED", "yielded_rate"]

LEAST_BYTES_PER_SECOND = 1 << 20
"""A repair that yields still goes on."""

UNLIMITED = 1 << 30
"""The ceiling where there is none: more than a disk that is shared takes."""

_STEPS = 16


def yielded_rate(
    rate: int, ceiling: int, moved: int, p99_ms: float | None, limit_ms: int
) -> int:
    """
    Returns the next rate, in bytes per second.

    Args:
        rate: that was allowed.
        ceiling: the rate that is never exceeded; 0: `UNLIMITED`.
        moved: bytes per second that were moved: where that is less than allowed, it is
            the amount that was too much; 0: the repair is not the cause.
        p99_ms: of appends since the rate was changed; ``None``: there were none, or
            none were sampled.
        limit_ms: that it should not exceed; 0: the rate is the ceiling.
    """
    most = ceiling or UNLIMITED
    least = min(most, LEAST_BYTES_PER_SECOND)
    if not limit_ms:
        return ceiling
    rate = min(rate or most, most)
    if p99_ms is not None and p99_ms > limit_ms:
        if not moved:
            return rate
        return max(least, min(rate, max(moved, rate // 4)) // 2)
    if p99_ms is None or p99_ms <= 0.75 * limit_ms:
        return min(most, rate + max(1, most // _STEPS))
    return rate
