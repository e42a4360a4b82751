"""
The identity of a store: one record, RocketMQ's two files, and what a crash leaves.

Every crash of its writes is replayed from a recorded process in tests/crash (the story
``exports``); here are the states between its steps, made by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.store.stores import SEGMENT

from pystore.controller.identity.store import IdentityStore
from pystore.errors import FormatError, InvalidError, StorageError
from pystore.fs.layout import IDENTITY_FILE, TEMPORARY_IDENTITY_FILE
from pystore.metastore.values import Identity
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity
from pystore.store.commit_log import CommitLog

BROKER = BrokerIdentity("c", "b", 3)
DRAFT = TemporaryIdentity(BROKER, "127.0.0.1:10911;1;00")
OTHER = TemporaryIdentity(BrokerIdentity("c", "b", 4), "127.0.0.1:10911;2;00")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "store"


@pytest.fixture
def log(root: Path) -> Iterator[CommitLog]:
    """A new store, open."""
    with CommitLog(root, segment_size=SEGMENT) as log:
        yield log


def _files(root: Path) -> tuple[bytes | None, bytes | None]:
    """What a Java broker would read."""
    paths = (root / IDENTITY_FILE, root / TEMPORARY_IDENTITY_FILE)
    final, draft = (path.read_bytes() if path.exists() else None for path in paths)
    return final, draft


def _reopened(root: Path) -> Identity:
    with CommitLog(root) as log:
        return IdentityStore(log.writer).read()


def test_a_new_store_has_no_identity(root: Path, log: CommitLog) -> None:
    """A read writes nothing."""
    assert IdentityStore(log.writer).read() is None
    assert (None, None) == _files(root)


def test_an_identity_goes_from_one_file_to_the_other(
    root: Path, log: CommitLog
) -> None:
    """Formats 5.1: byte for byte as RocketMQ's brokers write them."""
    store = IdentityStore(log.writer)
    store.write_temporary(DRAFT)
    assert (None, b"c#b#3#127.0.0.1:10911;1;00") == _files(root)
    assert DRAFT == store.read()
    store.confirm(BROKER)
    assert (b"c#b#3", None) == _files(root)
    assert BROKER == store.read()


def test_a_temporary_id_is_deleted_from_record_and_file(
    root: Path, log: CommitLog
) -> None:
    """RMQ-R23."""
    store = IdentityStore(log.writer)
    store.write_temporary(DRAFT)
    store.delete_temporary(DRAFT)

    assert (None, (None, None)) == (store.read(), _files(root))


def test_a_repeated_operation_changes_nothing(root: Path, log: CommitLog) -> None:
    """After an unknown outcome a broker may repeat it."""
    store = IdentityStore(log.writer)
    store.delete_temporary(DRAFT)
    for _ in range(2):
        store.write_temporary(DRAFT)
    for _ in range(2):
        store.confirm(BROKER)

    assert (BROKER, (b"c#b#3", None)) == (store.read(), _files(root))


def test_an_identity_is_never_overwritten(log: CommitLog) -> None:
    """An id that is lost by mistake leaks, or goes to another broker."""
    store = IdentityStore(log.writer)
    with pytest.raises(InvalidError, match="belongs to no broker"):
        store.confirm(BROKER)
    store.write_temporary(DRAFT)
    with pytest.raises(InvalidError, match="broker 3 of c/b \\(not confirmed\\)"):
        store.write_temporary(OTHER)
    with pytest.raises(InvalidError, match="cannot become broker 4 of c/b"):
        store.confirm(OTHER.identity)
    with pytest.raises(InvalidError, match="cannot become no broker"):
        store.delete_temporary(OTHER)
    store.confirm(BROKER)
    for verb, argument in (
        (store.write_temporary, DRAFT),
        (store.delete_temporary, DRAFT),
    ):
        with pytest.raises(InvalidError, match="belongs to broker 3 of c/b"):
            verb(argument)
    assert BROKER == store.read()


@pytest.mark.parametrize("identity", [DRAFT, BROKER], ids=["temporary", "confirmed"])
@pytest.mark.parametrize("files_done", [0, 1])
def test_the_next_read_repairs_the_files_after_a_crash(
    root: Path, identity: TemporaryIdentity | BrokerIdentity, files_done: int
) -> None:
    """The record is the truth; neither file alone is taken for another's work."""
    with CommitLog(root, segment_size=SEGMENT) as log:
        store = IdentityStore(log.writer)
        if identity is BROKER:
            store.write_temporary(DRAFT)
        with log.writer.metastore.change() as change:
            change.store_identity(identity)
        if files_done:
            name = IDENTITY_FILE if identity is BROKER else TEMPORARY_IDENTITY_FILE
            log.writer.export(name, identity.encode())
    with CommitLog(root) as log:
        assert () == log.recovery.foreign
        assert identity == IdentityStore(log.writer).read()
    expected = (b"c#b#3", None) if identity is BROKER else (None, DRAFT.encode())
    assert expected == _files(root)


def test_a_file_that_was_removed_comes_back(root: Path) -> None:
    """RMQ-R18: unlike a Java broker, it does not request a new id then."""
    with CommitLog(root, segment_size=SEGMENT) as log:
        store = IdentityStore(log.writer)
        store.write_temporary(DRAFT)
        store.confirm(BROKER)
    (root / IDENTITY_FILE).unlink()

    assert (BROKER, (b"c#b#3", None)) == (_reopened(root), _files(root))


def test_a_negotiation_of_a_java_broker_goes_on_and_its_result_counts(
    root: Path,
) -> None:
    """What it wrote is imported: its code as well as its id."""
    with CommitLog(root, segment_size=SEGMENT) as log:
        IdentityStore(log.writer).write_temporary(DRAFT)
    (root / TEMPORARY_IDENTITY_FILE).write_bytes(OTHER.encode())
    assert OTHER == _reopened(root)
    (root / IDENTITY_FILE).write_bytes(OTHER.identity.encode())
    # The final one wins, whatever the temporary one says (RMQ-R11).
    (root / TEMPORARY_IDENTITY_FILE).write_bytes(b"half writ")
    assert (OTHER.identity, (b"c#b#4", None)) == (_reopened(root), _files(root))


@pytest.mark.parametrize("content", [b"", b"c#b", b"c#b#", b"c#b#1#x", b"\xff#b#1"])
def test_a_file_that_cannot_be_read_stops_the_opening(
    root: Path, content: bytes
) -> None:
    """RMQ-R15, RMQ-R16: half-written, empty, or of names that hold a #."""
    with CommitLog(root, segment_size=SEGMENT):
        pass
    (root / IDENTITY_FILE).write_bytes(content)

    with pytest.raises(
        FormatError, match=r"brokerIdentity: .*restore it, or remove it"
    ):
        CommitLog(root)


def test_a_file_that_cannot_be_written_loses_nothing(
    root: Path, log: CommitLog
) -> None:
    """The record has the identity, and the file follows later."""
    store = IdentityStore(log.writer)
    (root / TEMPORARY_IDENTITY_FILE).mkdir()
    for verb in (lambda: store.write_temporary(DRAFT), store.read):
        with pytest.raises(StorageError, match=r"cannot replace .*brokerIdentity-temp"):
            verb()
    (root / TEMPORARY_IDENTITY_FILE).rmdir()

    assert (DRAFT, (None, DRAFT.encode())) == (store.read(), _files(root))
