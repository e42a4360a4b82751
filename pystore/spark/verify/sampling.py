"""
Which blocks of a segment a round reads. Pure.

The first and the last block are always read. The rest is cut into equal strata,
and of each one block is read; which one moves on by one with every round. So a
share of p percent reads every block at least once in 100/p rounds, and the choice
can be made again by anybody.

Source: docs/spark.md, sampling.
"""

from __future__ import annotations

import xxhash

__all__ = ["sample_blocks"]


def sample_blocks(
    segment: int, blocks: int, percent: int, round_number: int
) -> tuple[int, ...]:
    """
    Returns the indexes of the blocks to read, ascending.

    There are ``min(blocks, 2 + k)`` of them, where k is *percent* of the blocks
    between the first and the last one, rounded up.

    Args:
        segment: base offset.
        blocks: how many the segment has.
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
