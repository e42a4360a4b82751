"""
Which blocks of a segment a check reads that does not read all. Pure.

The choice is the same on every host, and every block is read within a known number of
rounds.

Source: docs/spark.md, *Rounds*; docs/autorecovery.md, *The worker*.
"""

from __future__ import annotations

import xxhash

__all__ = ["sample_blocks"]


def sample_blocks(
    segment: int, blocks: int, percent: int, round_number: int
) -> tuple[int, ...]:
    """
    Returns the indexes of the blocks to read, ascending.

    These are the first block, the last one and *percent* of the blocks between them,
    rounded up.

    Args:
        segment: base offset.
        blocks: number of the segment's blocks.
        percent: 0 to 100.
        round_number: from 0 on.
    """
    inner = max(0, blocks - 2)
    strata = -(-inner * percent // 100)
    chosen = {0, blocks - 1} if blocks else set()
    for stratum in range(strata):
        start = inner * stratum // strata
        size = inner * (stratum + 1) // strata - start
        at = xxhash.xxh3_64_intdigest(f"{segment}/{stratum}".encode()) + round_number
        chosen.add(1 + start + at % size)
    return tuple(sorted(chosen))
