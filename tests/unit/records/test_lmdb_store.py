"""
The record store in LMDB between real processes, full, and with many records.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.remoting.record_stores import filled, keys_of, put
from lib.store.forked import forked

from pystore.errors import ForkedError, FullError
from pystore.records.lmdb_store import LmdbStore
from pystore.records.ops import ABSENT, CheckVersion, Hold, Op, Put

TIMEOUT_S = 10


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A directory that was never opened."""
    return tmp_path / "records"


@pytest.fixture
def store(path: Path) -> Iterator[LmdbStore]:
    """A store over it, not opened yet."""
    made = LmdbStore(path)
    yield made
    made.close()


class TestProcesses:
    """Several on one host."""

    def test_a_store_made_before_a_fork_is_opened_in_the_child(
        self, path: Path, store: LmdbStore
    ) -> None:
        """Lazily, by the first call; the parent opens it for itself."""
        with forked(lambda: store.commit([Put("child", b"")])) as kill:
            put(store, "parent")
            assert ["child", "parent"] == keys_of(store)
            kill()
        assert ["child", "parent"] == keys_of(LmdbStore(path))

    def test_a_forked_child_cannot_use_an_open_store(
        self, path: Path, store: LmdbStore
    ) -> None:
        """With the parent's store and with its own; the parent continues."""
        put(store, "a")

        def reopened() -> str:
            with pytest.raises(ForkedError, match="'spawn'"):
                LmdbStore(path).get("a")
            store.get("a")
            return "not reached"

        with forked(reopened) as kill:
            assert ForkedError.__name__ == kill()
        put(store, "a")

    def test_the_holds_of_a_killed_process_end_at_once(
        self, path: Path, store: LmdbStore
    ) -> None:
        """Its other records stay."""
        ops: list[Op] = [Hold("lock", b""), Put("a", b"")]
        with forked(lambda: LmdbStore(path).commit(ops)) as kill:
            assert (
                store.commit([CheckVersion("lock", ABSENT), Hold("lock", b"")]) is None
            )
            assert ["a", "lock"] == keys_of(store)
            kill()

            assert ["a"] == keys_of(store)
            assert store.commit([CheckVersion("lock", ABSENT), Hold("lock", b"")])

    def test_a_store_that_closes_leaves_the_locks_of_its_neighbour(
        self, path: Path, store: LmdbStore
    ) -> None:
        """POSIX: closing any descriptor of a file drops all of a process's locks."""

        def hold_and_close_another() -> None:
            kept, closed = LmdbStore(path), LmdbStore(path)
            assert kept.commit([Hold("lock", b"")])
            assert closed.commit([Hold("other", b"")])
            closed.close()
            LmdbStore(path).close()

        with forked(hold_and_close_another):
            assert ["lock"] == keys_of(store)

    def test_the_leader_is_followed_when_it_is_killed(
        self, path: Path, store: LmdbStore
    ) -> None:
        """The zombie's number is worth nothing."""
        with forked(lambda: LmdbStore(path).campaign("leader", "1").number) as kill:
            first = int(kill())
        second = store.campaign("leader", "2")

        assert first < second.number
        assert second.proven_until_ns is None
        assert (
            store.commit([CheckVersion("leader", first), Put("a", b"zombie")]) is None
        )

    def test_a_wait_ends_with_a_commit_of_another_process(
        self, path: Path, store: LmdbStore
    ) -> None:
        """And reads it then: a wait ends only when the commit can be read."""
        reader, writer = os.pipe()

        def commit_later() -> None:
            if os.fork() == 0:
                os.read(reader, 1)
                LmdbStore(path).commit([Put("a", b"")])
                os._exit(0)

        with forked(commit_later):
            token = store.wait(0, 0)
            os.write(writer, b"!")

            assert token < store.wait(token, TIMEOUT_S)
            while store.get("a") is None:
                assert token < (token := store.wait(token, TIMEOUT_S))
        os.close(reader)
        os.close(writer)


def test_a_full_map_changes_nothing_and_a_larger_one_goes_on(path: Path) -> None:
    """
    Half a commit is not there, what was there is.
    """
    store = LmdbStore(path, map_bytes=1 << 18)
    value = bytes(20_000)
    filled(store, ["k0", "k1", "k2", "k3"], value)
    before = store.scan()
    too_much: list[Op] = [Put("a", b""), *(Put(f"m{n}", value) for n in range(20))]
    with pytest.raises(FullError, match="its 262144 bytes are full, nothing was"):
        store.commit(too_much)

    assert before == store.scan()
    assert store.commit([Put("b", b"")])
    store.close()
    store = LmdbStore(path)
    assert store.commit(too_much)
    store.close()


def test_ten_thousand_records_are_read_by_one_scan(
    path: Path, store: LmdbStore
) -> None:
    """
    A controller with as many sets has them all when it starts.
    """
    keys = [f"sets/cluster/broker-{number:05}" for number in range(10_000)]
    filled(store, keys, os.urandom(600))
    store.close()
    again = LmdbStore(path)
    found = keys_of(again)
    again.close()

    assert keys == found
