"""
What a store durably knows about itself: frozen values, no I/O. Pure.

`pystore.metastore.schema` is how each is stored, `pystore.metastore.database` where,
and which change together. Rules: docs/crash-safety.md (A3, A5, A7, A9, A15, B1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import xxhash

from pystore.errors import FormatError, InvalidError
from pystore.rocketmq.side_files import BrokerIdentity, TemporaryIdentity
from pystore.stored_names import stored

__all__ = [
    "NO_FORMAT",
    "Bounds",
    "CleanMark",
    "CutState",
    "Exports",
    "Identity",
    "QueueBounds",
    "QueueMark",
    "QueueOffsets",
    "StoreFingerprint",
    "StoreFormat",
    "digest_of",
]


def digest_of(content: bytes | None) -> bytes:
    """
    The digest by which an export is known again; empty for an absent file.
    """
    return b"" if content is None else xxhash.xxh3_128_digest(content)


@dataclass(frozen=True, slots=True)
class StoreFormat:
    """
    Which pystore can read the store.

    Attributes:
        version: of the records' layout.
        incompatible: bits of features that a reader must know.
        compatible: bits of features that a reader may ignore.
    """

    version: int = 1
    incompatible: int = 0
    compatible: int = 0

    VERSION = 1
    KNOWN = 0

    def refuse_unknown(self, path: str) -> None:
        """
        Stop before a store that a newer pystore wrote.

        Raises:
            FormatError: the version or an incompatible bit is unknown, or there
                is no such record.
        """
        if self == NO_FORMAT:
            raise FormatError(
                f"{path}: no format record, so pystore did not write it: "
                "restore meta/ from a backup, or move meta/ away and open again",
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


NO_FORMAT = StoreFormat(version=0)
"""What a database says that pystore did not make."""


Identity = BrokerIdentity | TemporaryIdentity | None
"""Who the broker is: settled, not confirmed by a controller, or nobody yet."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """
    Lower bounds, as of the last time they were stored (safety A5).

    Attributes:
        synced_end: nothing below it may be bad, in whatever boot.
        confirm_offset: the confirm offset.
        boot_id: the boot in which they were stored.
        mount_id: the mount of the store then.
    """

    synced_end: int = 0
    confirm_offset: int = 0
    boot_id: str = ""
    mount_id: str = ""

    def __post_init__(self) -> None:
        if self.synced_end < 0 or self.confirm_offset < 0:
            raise InvalidError(f"{self}: an offset is negative")


class QueueMark(NamedTuple):
    """
    A number that belongs to a queue: its next offset, or a length in bytes.
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
class QueueBounds:
    """
    How far the consume queues are on disk: a lower bound, as `Bounds`.

    Attributes:
        synced_end: every record below it has its entry.
        synced_ms: the store time of the last such record.
    """

    synced_end: int = 0
    synced_ms: int = 0


@stored
@dataclass(frozen=True, slots=True)
class CutState:
    """
    How often the log was cut, and the cut that is not finished (safety A3).

    Attributes:
        generation: grows with every cut.
        intent: the offset of a cut that was decided and not finished, or
            ``None``.
    """

    generation: int = 0
    intent: int | None = None


@dataclass(frozen=True, slots=True)
class Exports:
    """
    What our exports may hold, by file name (safety A7).

    The digest of an export is stored with the fact, before the file is written.
    Until the file is known to be written it may hold any content since the one
    that is known: so a name has several digests, the intended one last.
    """

    digests: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)

    def intend(self, name: str, content: bytes | None) -> Exports:
        """
        The file is going to hold ``content``; ``None``: it is going away.
        """
        digest = digest_of(content)
        earlier = tuple(old for old in self.digests.get(name, (b"",)) if old != digest)
        return Exports({**self.digests, name: (*earlier, digest)})

    def settle(self, name: str) -> Exports:
        """
        The file holds what was intended last, durably.
        """
        digests = self.digests.get(name, (b"",))
        return Exports({**self.digests, name: digests[-1:]})

    def is_ours(self, name: str, content: bytes | None) -> bool:
        """
        Whether the file as found can be what we left.

        A name that we never exported must be absent.
        """
        return digest_of(content) in self.digests.get(name, (b"",))

    def is_current(self, name: str, content: bytes | None) -> bool:
        """
        Whether the file as found is what was intended last.
        """
        return digest_of(content) == self.digests.get(name, (b"",))[-1]


@dataclass(frozen=True, slots=True)
class CleanMark:
    """
    The log was closed with everything on disk (safety A9).

    Attributes:
        end_offset: where it ended.
        last_offset: of the last record; ``None`` if there is none.
        last_digest: digest of that record's bytes; empty if there is none.
    """

    end_offset: int
    last_offset: int | None = None
    last_digest: bytes = b""


@dataclass(frozen=True, slots=True)
class StoreFingerprint:
    """
    What another program would change, as we left it (safety A7).

    Attributes:
        segments: (base offset, size in bytes) of each segment, ascending.
        queue_lengths: bytes of each consume queue.
    """

    segments: tuple[tuple[int, int], ...] = ()
    queue_lengths: tuple[QueueMark, ...] = ()
