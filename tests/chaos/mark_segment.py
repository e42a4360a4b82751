"""
Marks a segment of the set ``b`` as a verification does that found a bad block.

    python tests/chaos/mark_segment.py RECORDS OFFSET BROKER_ID
"""

from __future__ import annotations

import sys

from pystore.autorecovery.mark import Missing, Priority, Reason
from pystore.autorecovery.segment_key import SegmentKey
from pystore.cli.recovery.records import open_queue


def main(records: str, base: int, broker_id: int) -> None:
    """
    Marks the first block of a segment.
    """
    fact = Missing(Reason.CORRUPT, "a verification has found it", blocks=(0,))
    key = SegmentKey("DefaultCluster", "b", base)
    with open_queue(records, None) as queue:
        queue.mark(key, {broker_id: fact}, Priority.FEWER_THAN_WANTED, by="chaos")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
