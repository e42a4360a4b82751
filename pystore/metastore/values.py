"""
The metadata of a store: frozen values. Pure.

`pystore.metastore.schema` has their stored form, `pystore.metastore.transaction` the
changes, `pystore.metastore.database` the database.

Rules: docs/crash-safety.md (A3, A5, A7, A9, A15, B1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import xxhash

from pystore.errors import FormatError, InvalidError
from pystore.fs.cut_history import CutHistory
from pystore.fs.layout import META_ADVICE
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity
from pystore.stored_names import stored

__all__ = [
    "NOT_LOSSY",
    "NO_FORMAT",
    "Bounds",
    "CleanMark",
    "CutState",
    "Exports",
    "Identity",
    "JoinMark",
    "QueueBounds",
    "QueueMark",
    "QueueOffsets",
    "StoreFingerprint",
    "StoreFormat",
    "digest_of",
]


NOT_LOSSY = -1
"""No record was given up that a broker may have acknowledged (B4)."""


def digest_of(content: bytes | None) -> bytes:
    """
    The digest that identifies the content of an export; empty: the file is absent.
    """
    return b"" if content is None else xxhash.xxh3_128_digest(content)


@dataclass(frozen=True, slots=True)
class StoreFormat:
    """
    The format of the metastore: the versions of pystore that can read it.

    Attributes:
        version: of the records' layout.
        incompatible: bits of features that a reader must know.
        compatible: bits of features that a reader may ignore.
    """

    version: int = 1
    incompatible: int = 1  # ROWS
    compatible: int = 0

    VERSION = 1
    ROWS = 1
    """Queue marks have rows of their own."""
    KNOWN = ROWS

    @property
    def has_rows(self) -> bool:
        """
        Whether each queue mark has a row of its own.
        """
        return bool(self.incompatible & self.ROWS)

    def with_rows(self) -> StoreFormat:
        """
        The format with a row for each queue mark.
        """
        return replace(self, incompatible=self.incompatible | self.ROWS)

    def refuse_unknown(self, path: str) -> None:
        """
        Refuse a store of a newer pystore.

        Raises:
            FormatError: the version or an incompatible bit is unknown, or there
                is no such record.
        """
        if self == NO_FORMAT:
            raise FormatError(
                f"{path}: no format record, so pystore did not write it: {META_ADVICE}",
                path=path,
            )
        unknown = self.incompatible & ~self.KNOWN
        if self.version != self.VERSION or unknown:
            raise FormatError(
                f"{path}: format version {self.version} with unknown features "
                f"{unknown:#x}: this pystore reads version {self.VERSION} with "
                f"features {self.KNOWN:#x}: use the pystore that wrote it",
                path=path,
            )


NO_FORMAT = StoreFormat(version=0, incompatible=0)
"""The default, in a database that pystore did not make."""


Identity = BrokerIdentity | TemporaryIdentity | None
"""Of the broker: final, temporary (no controller confirmed it), or none."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """
    Lower bounds of the log, from the time of the store operation (A5).

    Attributes:
        synced_end: no record below it may be bad, in any boot.
        confirm_offset: the confirm offset.
        boot_id: the boot in which they were stored.
        mount_id: the mount of the store at that time.
    """

    synced_end: int = 0
    confirm_offset: int = 0
    boot_id: str = ""
    mount_id: str = ""

    def __post_init__(self) -> None:
        if self.synced_end < 0 or self.confirm_offset < 0:
            raise InvalidError(f"{self}: an offset is negative")


@stored
class QueueMark(NamedTuple):
    """
    A number of one queue: its next offset, or a length.
    """

    topic: str
    queue_id: int
    value: int


@stored
@dataclass(frozen=True, slots=True)
class QueueOffsets:
    """
    The next queue offset of every queue, when the log ended at ``as_of``.
    """

    as_of: int = 0
    next_offsets: tuple[QueueMark, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinMark:
    """
    What a replica lacks since its log began above 0 (B11, A20).

    Attributes:
        floor: where the log of its set began then: it lacks the records from there to
            its own begin; -1: none, or the set has none of them any more.
        has_queue_offsets: whether it got the next queue offsets as of its begin.
    """

    floor: int = -1
    has_queue_offsets: bool = True

    @property
    def is_filling(self) -> bool:
        """
        Whether the replica is elected only unclean.
        """
        return self.floor >= 0 or not self.has_queue_offsets

    def reached(self, begin: int) -> JoinMark:
        """
        Returns the mark of a replica whose log begins lower now.
        """
        return replace(self, floor=-1) if begin <= self.floor else self


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """
    The synced end of the consume queues: a lower bound, as `Bounds`.

    Attributes:
        synced_end: the entries of all records below are on disk.
        synced_ms: the store time of the last such record.
    """

    synced_end: int = 0
    synced_ms: int = 0


@stored
@dataclass(frozen=True, slots=True)
class CutState:
    """
    The number of cuts of the log, and the unfinished cut (A3).

    Attributes:
        generation: rises with every cut.
        intent: the offset of the unfinished cut, or ``None``.
        history: the cuts so far.
    """

    generation: int = 0
    intent: int | None = None
    history: CutHistory = field(default=CutHistory(), compare=False)


@dataclass(frozen=True, slots=True)
class Exports:
    """
    The possible contents of the exports, by file name (A7).

    The digest of an export is stored before the file is written. Until the write is
    known to be durable, the file may have any content since the last durable one: so a
    name has several digests, the intended one last.
    """

    digests: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)

    def intend(self, name: str, content: bytes | None) -> Exports:
        """
        Add the next content of a file; ``None``: it will be removed.
        """
        digest = digest_of(content)
        earlier = tuple(old for old in self.digests.get(name, (b"",)) if old != digest)
        return Exports({**self.digests, name: (*earlier, digest)})

    def settle(self, name: str) -> Exports:
        """
        The file has durably the content that was intended last.
        """
        digests = self.digests.get(name, (b"",))
        return Exports({**self.digests, name: digests[-1:]})

    def is_ours(self, name: str, content: bytes | None) -> bool:
        """
        Whether pystore can have written the content of the file.

        A file that was never exported must be absent.
        """
        return digest_of(content) in self.digests.get(name, (b"",))

    def is_ours_but_for_a_bit(self, name: str, content: bytes) -> bool:
        """
        Whether one bit of a file changed since pystore wrote it: no program does that.

        It takes some 2 us for each bit of the file.
        """
        digests = self.digests.get(name, (b"",))
        changed = bytearray(content)
        for at in range(8 * len(content)):
            changed[at // 8] ^= 1 << at % 8
            if xxhash.xxh3_128_digest(changed) in digests:
                return True
            changed[at // 8] ^= 1 << at % 8
        return False

    def is_current(self, name: str, content: bytes | None) -> bool:
        """
        Whether the file has the content that was intended last.
        """
        return digest_of(content) == self.digests.get(name, (b"",))[-1]


@dataclass(frozen=True, slots=True)
class CleanMark:
    """
    The clean mark: the log was closed with everything on disk (A9).

    Attributes:
        end_offset: the end of the log.
        last_offset: of the last record; ``None`` if there is none.
        last_digest: digest of that record's bytes; empty if there is none.
        physic_ms: the store time that ``checkpoint`` got; 0: not known.
    """

    end_offset: int
    last_offset: int | None = None
    last_digest: bytes = b""
    physic_ms: int = 0


@dataclass(frozen=True, slots=True)
class StoreFingerprint:
    """
    Sizes of the files that another program would change, when pystore last stored
    them (A7).

    Attributes:
        segments: (base offset, size in bytes) of each segment, ascending.
        old_lengths: the length of each consume queue, in the record of an older
            pystore.
    """

    segments: tuple[tuple[int, int], ...] = ()
    old_lengths: tuple[QueueMark, ...] = ()
