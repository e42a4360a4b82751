"""
Every error that pystore raises, in one tree.

An error carries what the caller needs: the path, the offset, the rule. Its text is
one line: what is wrong, where, and what to do.
"""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

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
    "check_integers",
]


class PystoreError(Exception):
    """
    The root of the tree.

    Attributes:
        offset: the log offset of the problem, or ``None``.
        path: the file or directory of the problem, or ``None``.
        records_appended: how many records of a failed append of columns are in the
            log; 0 in all other cases.
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
    The operating system refused; ``errno`` is its reason.
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
    No space is left; nothing was written, try again later.
    """


class PoisonedError(StorageError):
    """
    A write-back failed, or the store may be another writer's by now (A18): nothing
    above the last good synced end is promised.

    Close the log and open it again: opening rewrites and checks the rest.
    """


class CorruptError(PystoreError):
    """
    Promised bytes fail a check.
    """

    @property
    def reason(self) -> str:
        """
        The message without the path and offset that it may begin with, in one line.
        """
        text = " ".join(str(self).split("\n")).removeprefix(f"{self.path}: ")
        return text.removeprefix(f"record at offset {self.offset}: ")


class FormatError(PystoreError):
    """
    A small file (epochs, identity, checkpoint, seal, meta) cannot be read.
    """


class NotAStoreError(PystoreError):
    """
    The path is missing, or is not the directory of a store.
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
    A held block or a running cut prevents the call; release the block, try again.
    """


class FencedError(PystoreError):
    """
    The write authority is gone: a newer epoch began, or the deadline passed.
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
    Java, a package or a cluster is missing that the work needs; or a task failed.
    """


class SessionLostError(PystoreError):
    """
    The session of a record store ended, so its holds may be gone; open it again.
    """


class UnknownOutcomeError(PystoreError):
    """
    A commit was sent and its answer was lost: read the records, then decide.
    """


class ProtocolViolation(PystoreError):
    """
    A rule of a protocol was broken.
    """


class LocalViolation(ProtocolViolation):
    """
    Our own caller broke the protocol.
    """


class RemoteViolation(ProtocolViolation):
    """
    The peer broke the protocol.
    """


def check_integers(**arguments: SupportsIndex) -> None:
    """
    Returns if every argument is an integer.

    Raises:
        InvalidError: one is not; the text has its name.
    """
    for name, value in arguments.items():
        try:
            index(value)
        except TypeError as error:
            # The error of Python does not name the parameter.
            raise InvalidError(f"{name} must be an integer, not {value!r}") from error
