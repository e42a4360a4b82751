"""
A worker that holds a segment until it is killed.

    python bench/recovery_claim_child.py DIRECTORY | HOST:PORT
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.records.lmdb_store import LmdbStore
from pystore.records.record_store import RecordStore
from pystore.records.zookeeper_store import ZookeeperStore


def opened(place: str) -> RecordStore:
    """
    Returns a session with the record store of a directory, or of a server.
    """
    return LmdbStore(Path(place)) if "/" in place else ZookeeperStore(place)


def main() -> None:
    """
    Takes a segment, tells it, and holds it.
    """
    queue = UnderReplicationQueue(opened(sys.argv[1]), lambda: int(time.time() * 1000))
    claim = queue.take(queue.slot("killed/0", lambda: 0.0))
    assert claim is not None
    print(claim.key.text, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
