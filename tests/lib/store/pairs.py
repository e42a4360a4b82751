"""
Two stores with the same log: one to be damaged, and a whole copy.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pystore import Message, Store
from pystore.store.sealer import seal_next

SEGMENT = 1 << 14


class Pair(NamedTuple):
    """
    Two stores with the same log.

    Attributes:
        store: to be damaged.
        copy: stays whole.
    """

    store: Path
    copy: Path


def fill(
    root: Path, records: int = 300, first: int = 0, segment: int = SEGMENT
) -> None:
    """
    Appends records of two topics; each topic has its own queue.
    """
    with Store(root, segment_size=segment, queue_file_bytes=20 * 400) as store:
        for number in range(first, first + records):
            body = b"body %d " % number * (number % 9 + 1)
            store.log.append(Message(f"t{number % 2}", body))
        store.dispatch()


def seal(root: Path) -> None:
    """
    Seals every full segment of a store.
    """
    with Store(root) as store:
        while seal_next(store.log.writer):
            pass
