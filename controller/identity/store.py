"""
The store of a broker's identity: one checksummed record in the metastore.

RocketMQ's two files, ``brokerIdentity`` and ``brokerIdentity-temp``, are exports of it,
so that a Java broker that takes the store over is the same broker. The record and the
digests of both files change in one transaction. The files follow: the final file is
written before the temporary file is removed, because the final one wins if both exist
(RMQ-R11, RMQ-R17). The next read repairs the files after a crash in between. Changes by
another program are imported when the store is opened
(`pystore.recovery.foreign_writer`).

Source: RMQ-R10 to RMQ-R18; A7; formats 5.1; docs/identity.md.
"""

from __future__ import annotations

from pystore.errors import InvalidError
from pystore.fs.layout import IDENTITY_FILE, TEMPORARY_IDENTITY_FILE
from pystore.metastore.schema import EXPORTS, IDENTITY
from pystore.metastore.values import Identity, digest_of
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity
from pystore.store.writer import Writer

__all__ = ["IdentityStore"]


class IdentityStore:
    """
    The identity in an open store. One thread at a time.

    Each method blocks for a sync, and is durable when it returns. If one raises, the
    change may be done: `read` returns the truth.

    Args:
        writer: `pystore.store.commit_log.CommitLog.writer`.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def read(self) -> Identity:
        """
        Returns the identity; exports the files again if a crash, a full disk or an
        operator left them out of date.

        Raises:
            FormatError: the record is damaged; it never counts as none (RMQ-R16).
            StorageError: the operating system refused.
        """
        identity = self._writer.metastore.read(IDENTITY)
        if not self._is_exported(identity):
            with self._writer.metastore.change() as change:
                change.store_identity(identity)
            self._export(identity)
        return identity

    def write_temporary(self, temporary: TemporaryIdentity) -> None:
        """
        Stores an id before the application for it.

        Raises:
            InvalidError: another identity is stored, which would be lost.
            StorageError: the operating system refused.
        """
        self._replace(temporary, (None, temporary))

    def confirm(self, identity: BrokerIdentity) -> None:
        """
        Confirms the id of the application.

        Raises:
            InvalidError: it is not the id of the application.
            StorageError: the operating system refused.
        """
        stored = self._writer.metastore.read(IDENTITY)
        if isinstance(stored, TemporaryIdentity) and stored.identity == identity:
            self._replace(identity, (stored,))
        else:
            self._replace(identity, (identity,))

    def delete_temporary(self, temporary: TemporaryIdentity) -> None:
        """
        Deletes a temporary id that belongs to another broker.

        Raises:
            InvalidError: another identity is stored.
            StorageError: the operating system refused.
        """
        self._replace(None, (None, temporary))

    def _replace(self, identity: Identity, allowed: tuple[Identity, ...]) -> None:
        with self._writer.metastore.change() as change:
            stored = change.read(IDENTITY)
            if stored not in allowed:
                raise InvalidError(
                    f"{self._writer.root}: the store belongs to {_text(stored)}, so it "
                    f"cannot become {_text(identity)}",
                    path=str(self._writer.root),
                )
            change.store_identity(identity)
        self._export(identity)

    def _is_exported(self, identity: Identity) -> bool:
        digests = self._writer.metastore.read(EXPORTS).digests
        return all(
            digests.get(name, (b"",)) == (digest_of(content),)
            for name, content in _contents(identity)
        )

    def _export(self, identity: Identity) -> None:
        # Writes go before removals, so that one of the files always exists.
        for name, content in sorted(_contents(identity), key=lambda it: it[1] is None):
            self._writer.export(name, content)


def _contents(identity: Identity) -> list[tuple[str, bytes | None]]:
    """
    Returns RocketMQ's files for an identity; ``None``: there is no such file.
    """
    content = None if identity is None else identity.encode()
    is_temporary = isinstance(identity, TemporaryIdentity)
    return [
        (IDENTITY_FILE, None if is_temporary else content),
        (TEMPORARY_IDENTITY_FILE, content if is_temporary else None),
    ]


def _text(identity: Identity) -> str:
    if identity is None:
        return "no broker"
    if isinstance(identity, TemporaryIdentity):
        return f"{_text(identity.identity)} (not confirmed)"
    return f"broker {identity.broker_id} of {identity.cluster}/{identity.broker}"
