"""
Every error that pystore raises, in one tree.

An error carries what a caller needs to act: the path, the offset, the rule.
Its text is one line that says what is wrong, where, and what to do.
"""

from __future__ import annotations

__all__ = [
    "BusyError",
    "ClosedError",
    "CorruptError",
    "CutError",
    "FencedError",
    "ForkedError",
    "FormatError",
    "FullError",
    "InvalidError",
    "LocalViolation",
    "LockedError",
    "NotAStoreError",
    "OffsetOutOfRange",
    "PoisonedError",
    "ProtocolViolation",
    "PystoreError",
    "RemoteViolation",
    "SessionLostError",
    "StorageError",
    "UnavailableError",
    "UnknownOutcomeError",
]


class PystoreError(Exception):
    """
    The root of the tree.

    Attributes:
        offset: the log offset it is about, or ``None``.
        path: the file or directory it is about, or ``None``.
        records_appended: how many records of a refused append of columns are
            there all the same; 0 in every other case.
    """

    records_appended: int = 0

    def __init__(
        self,
        message: str,
        *,
        offset: int | None = None,
        path: str | None = None,
    ) -> None:
        super().__init__(message)
        self.offset = offset
        self.path = path


class InvalidError(PystoreError, ValueError):
    """
    An argument that no store could accept; nothing was changed.
    """


class StorageError(PystoreError, OSError):
    """
    The operating system refused; ``errno`` says why.
    """

    def __init__(
        self,
        message: str,
        *,
        errno: int | None = None,
        offset: int | None = None,
        path: str | None = None,
    ) -> None:
        super().__init__(message, offset=offset, path=path)
        self.errno = errno


class FullError(StorageError):
    """
    No space is left; nothing of the refused write is there, try again later.
    """


class PoisonedError(StorageError):
    """
    A write-back failed: nothing above the last good synced end is promised.

    Close the log and open it again: opening rewrites and checks the rest.
    """


class CorruptError(PystoreError):
    """
    Bytes that were promised do not prove what they should.
    """


class FormatError(PystoreError):
    """
    A small file (epochs, identity, checkpoint, seal, meta) cannot be read.
    """


class NotAStoreError(PystoreError):
    """
    The path is missing, or it is not a store directory.
    """


class LockedError(PystoreError):
    """
    Another writer holds the store: a pystore or a Java process.
    """


class OffsetOutOfRange(PystoreError, LookupError):
    """
    The offset is below the minimum offset or not below the end.
    """


class CutError(PystoreError):
    """
    The log was cut below what a reader had read; read again from the end.
    """


class BusyError(PystoreError):
    """
    A held block or a running cut stands in the way; release it, try again.
    """


class FencedError(PystoreError):
    """
    The write authority is gone: another epoch is in charge, or it ran out.
    """


class ClosedError(PystoreError, ValueError):
    """
    The handle was closed.
    """


class ForkedError(PystoreError):
    """
    The handle belongs to the parent process; open the store again here.
    """


class UnavailableError(PystoreError):
    """
    What the work needs is not there: Java, a package, a cluster; or a task failed.
    """


class SessionLostError(PystoreError):
    """
    What a record store held may be another's; close it and open it again.
    """


class UnknownOutcomeError(PystoreError):
    """
    A commit was sent and its answer was lost: read what it wrote, then decide.
    """


class ProtocolViolation(PystoreError):
    """
    A protocol rule was broken.
    """


class LocalViolation(ProtocolViolation):
    """
    Our own caller broke the protocol.
    """


class RemoteViolation(ProtocolViolation):
    """
    The peer broke the protocol.
    """
