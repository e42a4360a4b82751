"""
Where a broker's identity is kept: one checksummed record of the metastore.

RocketMQ's two files, ``brokerIdentity`` and ``brokerIdentity-temp``, are exports of it,
so that a Java broker that takes the store over is the same broker. The record and the
digests of both files change in one transaction; the files follow, the final one before
the temporary one goes, as the final one wins where both are there (R11, R17). A crash
in between is seen and mended at the next look. What another program wrote meanwhile was
imported when the store was opened (`pystore.recovery.foreign_writer`).

Source: R10 to R18; safety A7; formats 5.1; docs/identity.md.
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

    Every verb is durable when it returns, and blocks for a sync. If one raises, it may
    have been done: `read` says.

    Args:
        writer: `pystore.store.commit_log.CommitLog.writer`.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def read(self) -> Identity:
        """
        Who the broker is; the files are written where a crash, a full disk or somebody
        who removed them left them behind.

        Raises:
            FormatError: the record is damaged; it is never taken for none (R16).
            StorageError: the system refused.
        """
        identity = self._writer.metastore.read(IDENTITY)
        if not self._is_exported(identity):
            with self._writer.metastore.change() as change:
                change.store_identity(identity)
            self._export(identity)
        return identity

    def write_temporary(self, temporary: TemporaryIdentity) -> None:
        """
        Remember an id that will be applied for.

        Raises:
            InvalidError: another identity is stored, which would be forgotten.
            StorageError: the system refused.
        """
        self._replace(temporary, (None, temporary))

    def confirm(self, identity: BrokerIdentity) -> None:
        """
        The id that was applied for is this broker's.

        Raises:
            InvalidError: it is not the one that was applied for.
            StorageError: the system refused.
        """
        stored = self._writer.metastore.read(IDENTITY)
        if isinstance(stored, TemporaryIdentity) and stored.identity == identity:
            self._replace(identity, (stored,))
        else:
            self._replace(identity, (identity,))

    def delete_temporary(self, temporary: TemporaryIdentity) -> None:
        """
        The id is another broker's: forget that it was applied for.

        Raises:
            InvalidError: another identity is stored.
            StorageError: the system refused.
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
        # What is written goes before what is removed: a name stays, whenever it ends.
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
        return "nobody"
    if isinstance(identity, TemporaryIdentity):
        return f"{_text(identity.identity)} (not confirmed)"
    return f"broker {identity.broker_id} of {identity.cluster}/{identity.broker}"
