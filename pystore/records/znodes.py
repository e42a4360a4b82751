"""
The paths in ZooKeeper: records, sessions and the generation. Pure.

ZooKeeper's Java client refuses a reply above 1 MiB, which limits the names in a
directory. So records are spread over 256 buckets by a hash of their keys. The version
of a bucket's own node counts the records that were created in it.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

import xxhash

__all__ = ["BUCKETS", "Znodes"]

BUCKETS = 256
"""With 10 000 names each that is 2 560 000 records."""

_MARK = "k"  # without it the names of two keys would be "." and ".."


class Znodes:
    """
    The paths below a root.

    Args:
        root: such as ``/pystore``.

    Attributes:
        generation: the node that each change sets.
        sessions: the directory with one ephemeral node per store.
        records: the directory of the buckets.
        buckets: all of them.
    """

    def __init__(self, root: str) -> None:
        self.root = "/" + root.strip("/")
        self.generation = f"{self.root}/generation"
        self.sessions = f"{self.root}/sessions"
        self.records = f"{self.root}/records"
        self.buckets = tuple(f"{self.records}/{n:02x}" for n in range(BUCKETS))

    def bucket(self, key: str) -> str:
        """
        Returns the directory of a record.
        """
        return self.buckets[xxhash.xxh3_64_intdigest(key.encode()) % BUCKETS]

    def node(self, key: str) -> str:
        """
        Returns the node of a record.
        """
        return f"{self.bucket(key)}/{_MARK}{quote(key, safe='')}"

    @staticmethod
    def key(name: str) -> str:
        """
        Returns the key of a name in a bucket.
        """
        return unquote(name.removeprefix(_MARK))
