"""
The paths in ZooKeeper: records, sessions, spaces and generations. Pure.

ZooKeeper's Java client refuses a reply above 1 MiB, which limits the names in a
directory. So records are spread over buckets by a hash of their keys. A *guard* is a
node whose version counts the records that were created in a part of a space.

In the common space a bucket is its own guard. Every other space has few buckets, so
that it costs few requests to list it, and many guards, so that commits on different
keys seldom disturb each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from urllib.parse import quote, unquote

import xxhash

from pystore.records.spaces import COMMON, space_of

__all__ = ["BUCKETS", "SPACE_BUCKETS", "SpaceNodes", "Znodes"]

BUCKETS = 256
"""Of the common space; also the guards of every other one. With 10 000 names in each
bucket that is 2 560 000 records."""

SPACE_BUCKETS = 16
"""Of every other space: 160 000 records with 10 000 names in each."""

_MARK = "k"  # without it the names of two keys would be "." and ".."


@dataclass(frozen=True, slots=True)
class SpaceNodes:
    """
    The permanent nodes of one space.

    Attributes:
        generation: the node that each change of the space sets.
        buckets: the directories of its records.
        guards: the nodes whose versions count created records.
        directories: the other ones, each before what is in it.
    """

    generation: str
    buckets: tuple[str, ...]
    guards: tuple[str, ...]
    directories: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """
        All of them, each before what is in it, and the generation last.
        """
        apart = () if self.guards == self.buckets else self.guards
        return (*self.directories, *self.buckets, *apart, self.generation)


class Znodes:
    """
    The paths below a root.

    Args:
        root: such as ``/pystore``.

    Attributes:
        sessions: the directory with one ephemeral node per store.
        spaces: the directory of all spaces but the common one.
        common: the nodes of the common space.
    """

    def __init__(self, root: str) -> None:
        self.root = "/" + root.strip("/")
        self.sessions = f"{self.root}/sessions"
        self.spaces = f"{self.root}/spaces"
        records = f"{self.root}/records"
        buckets = _numbered(records, BUCKETS)
        self.common = SpaceNodes(
            f"{self.root}/generation", buckets, buckets, (records,)
        )
        self.of_space = cache(self._of_space)

    def _of_space(self, space: str) -> SpaceNodes:
        if space == COMMON:
            return self.common
        top = f"{self.spaces}/{_name(space)}"
        records, guards = f"{top}/records", f"{top}/guards"
        return SpaceNodes(
            f"{top}/generation",
            _numbered(records, SPACE_BUCKETS),
            _numbered(guards, BUCKETS),
            (top, records, guards),
        )

    def bucket(self, key: str) -> str:
        """
        Returns the directory of a record.
        """
        return _hashed(self.of_space(space_of(key)).buckets, key)

    def guard(self, key: str) -> str:
        """
        Returns the node whose version rises when the record is created.
        """
        return _hashed(self.of_space(space_of(key)).guards, key)

    def node(self, key: str) -> str:
        """
        Returns the node of a record.
        """
        return f"{self.bucket(key)}/{_name(key)}"

    @staticmethod
    def key(name: str) -> str:
        """
        Returns the key of a name in a bucket, or the space of a name in `spaces`.
        """
        return unquote(name.removeprefix(_MARK))


def _name(text: str) -> str:
    return f"{_MARK}{quote(text, safe='')}"


def _numbered(directory: str, count: int) -> tuple[str, ...]:
    return tuple(f"{directory}/{n:02x}" for n in range(count))


def _hashed(paths: tuple[str, ...], key: str) -> str:
    return paths[xxhash.xxh3_64_intdigest(key.encode()) % len(paths)]
