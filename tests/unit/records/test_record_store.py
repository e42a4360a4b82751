"""
The six operations: the same tests over every backend.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from lib.remoting.record_stores import Space, keys_of, put

from pystore.errors import InvalidError
from pystore.records.ops import (
    ABSENT,
    KEY_BYTES_MAX,
    CheckVersion,
    Delete,
    Hold,
    Op,
    Put,
)
from pystore.records.record_store import RecordStore, StoredRecord


class TestReading:
    """What get and scan answer."""

    def test_a_new_store_is_empty(self, store: RecordStore) -> None:
        """Whatever a backend keeps for itself is no record."""
        assert [] == store.scan()
        assert store.get("a") is None

    def test_a_record_is_read_with_the_version_that_its_commit_answered(
        self, space: Space, store: RecordStore
    ) -> None:
        """By its own store and by another, by get and by scan."""
        record = StoredRecord("a/b", b"\0value", put(store, "a/b", b"\0value"))

        assert record == store.get("a/b")
        assert record == space.open().get("a/b")
        assert [record] == space.open().scan()

    def test_a_scan_is_in_the_order_of_the_bytes(self, store: RecordStore) -> None:
        """That of UTF-8, not that of the names that a backend gives its nodes."""
        keys = ["%25", "%2F", "a", "a b", "a%b", "a/b", "a/b/c", "ab", "ä", "｡", "🙂"]
        for key in reversed(keys):
            put(store, key)

        assert keys == keys_of(store)

    def test_a_scan_begins_behind_a_key_and_ends_at_its_prefix(
        self, store: RecordStore
    ) -> None:
        """The key need not be there; a prefix may end within a name."""
        for key in ("set/1", "set/2", "set/20", "set/3", "sets", "other"):
            put(store, key)

        def found(prefix: str, after: str = "", limit: int | None = None) -> list[str]:
            return [one.key for one in store.scan(prefix, after, limit)]

        assert ["set/1", "set/2", "set/20", "set/3"] == found("set/")
        assert ["set/2", "set/20"] == found("set/2")
        assert ["set/20", "set/3"] == found("set/", "set/2")
        assert ["set/20", "set/3"] == found("set/", "set/2!")
        assert ["set/1", "set/2"] == found("set/", "a", limit=2)
        assert [] == found("set/", limit=0)
        assert [] == found("set/", "set/3")
        assert [] == found("x")

    def test_a_scan_finds_the_keys_of_all_spaces_that_its_prefix_may_mean(
        self, space: Space, store: RecordStore
    ) -> None:
        """Those of one space, those of all, and those of a part of a name."""
        keys = ["controller/a", "r", "r/1", "r/1/x", "r/2", "ra/1", "s/1", "é/1"]
        for key in reversed(keys):
            put(store, key)
        other = space.open()

        def found(prefix: str, after: str = "", limit: int | None = None) -> list[str]:
            return [one.key for one in other.scan(prefix, after, limit)]

        assert keys == found("")
        assert ["r/1", "r/1/x", "r/2"] == found("r/")
        assert ["r/1/x"] == found("r/1/")
        assert ["r", "r/1", "r/1/x", "r/2", "ra/1"] == found("r")
        assert ["r/2", "ra/1"] == found("r", "r/1/x")
        assert ["controller/a"] == found("c") == found("controller/")
        assert ["é/1"] == found("é/")
        assert [] == found("none/")
        assert ["ra/1", "s/1"] == found("", "r/2", 2)

    def test_a_bound_that_is_not_text_is_refused(self, store: RecordStore) -> None:
        """JSON of a peer may contain half of a surrogate pair."""
        for bounds in (("\ud800", ""), ("", "\ud800")):
            with pytest.raises(InvalidError, match="is not text"):
                store.scan(*bounds)

    def test_pages_of_a_scan_are_the_whole(self, store: RecordStore) -> None:
        """A scan that continues after the last key misses none and repeats none."""
        for number in range(7):
            put(store, f"k{number}")
        seen: list[str] = []
        while page := store.scan("k", seen[-1] if seen else "", 3):
            seen += [record.key for record in page]

        assert [f"k{number}" for number in range(7)] == seen


class TestCommit:
    """All of it or nothing."""

    def test_all_of_a_commit_has_one_version(self, store: RecordStore) -> None:
        """And it is larger than any before it."""
        before = put(store, "a")
        version = store.commit([Put("a", b"2"), Put("b", b"2"), Hold("c", b"2")])

        assert version is not None
        assert before < version
        assert [version] * 3 == [record.version for record in store.scan()]

    def test_a_commit_may_change_several_spaces(
        self, space: Space, store: RecordStore
    ) -> None:
        """All of it or nothing, with checks across them."""
        leader = put(store, "controller/leader")
        ops: list[Op] = [Put("r/a", b"1"), Hold("s/a", b"2"), Put("a", b"3")]
        version = space.open().commit([CheckVersion("controller/leader", leader), *ops])
        assert version
        stale = put(store, "controller/leader")

        assert store.commit([CheckVersion("controller/leader", leader), *ops]) is None
        assert leader < version < stale
        assert ["a", "controller/leader", "r/a", "s/a"] == keys_of(store)
        versions = [one.version for one in store.scan()]
        assert [version, stale, version, version] == versions

    def test_a_version_of_any_space_never_comes_back(
        self, space: Space, store: RecordStore
    ) -> None:
        """ABA, where buckets and guards are not the same."""
        versions = []
        for _ in range(3):
            versions.append(put(store, "r/a"))
            assert space.open().commit([CheckVersion("r/a", versions[-1])])
            assert space.open().commit([Delete("r/a")])
        put(store, "r/a")

        assert sorted(set(versions)) == versions
        for version in versions:
            assert store.commit([CheckVersion("r/a", version), Delete("r/a")]) is None

    @pytest.mark.parametrize(
        "refused",
        [
            [CheckVersion("a", ABSENT)],
            [CheckVersion("a", 1 << 40)],
            [CheckVersion("none", 7)],
            [Hold("a", b"held")],
        ],
    )
    def test_a_failed_commit_changes_nothing(
        self, store: RecordStore, refused: list[Op]
    ) -> None:
        """Neither what stands before the check nor what stands behind it."""
        put(store, "a")
        put(store, "b")
        before = store.scan()
        token = store.wait(0, 0)

        others: list[Op] = [Put("0", b""), Put("b", b"new"), Put("c", b""), Delete("b")]
        assert store.commit([others[0], *refused, *others[1:3]]) is None
        assert store.commit([*refused, others[3]]) is None
        assert before == store.scan()
        assert token == store.wait(token, 0)

    def test_checks_alone_change_nothing(self, store: RecordStore) -> None:
        """But they say whether they hold."""
        version = put(store, "a")
        token = store.wait(0, 0)

        assert store.commit([CheckVersion("a", version), CheckVersion("b", ABSENT)])
        assert store.commit([])
        assert store.commit([Delete("b")])
        assert (
            store.commit([CheckVersion("a", version), CheckVersion("b", version)])
            is None
        )
        assert token == store.wait(token, 0)
        assert ["a"] == keys_of(store)

    def test_a_stale_version_is_refused(self, space: Space, store: RecordStore) -> None:
        """Two read, both write: the second one reads again."""
        version = put(store, "a")
        other = space.open()

        assert other.commit([CheckVersion("a", version), Put("a", b"other")])
        assert store.commit([CheckVersion("a", version), Put("a", b"mine")]) is None
        assert store.commit([CheckVersion("a", version), Delete("a")]) is None
        found = store.get("a")
        assert found is not None
        assert b"other" == found.value

    def test_a_version_never_comes_back(self, space: Space, store: RecordStore) -> None:
        """ABA: a record that was deleted and made again is another one."""
        first = put(store, "mark")
        other = space.open()
        assert other.commit([Delete("mark")])
        second = put(other, "mark")

        assert first < second
        assert store.commit([CheckVersion("mark", first), Delete("mark")]) is None
        assert store.commit([CheckVersion("mark", second), Delete("mark")])

    def test_a_version_survives_many_lives_of_a_record(
        self, store: RecordStore
    ) -> None:
        """Each life has the same number of writes; each has versions of its own."""
        versions = []
        for _ in range(4):
            versions.append(put(store, "a"))
            versions.append(put(store, "a"))
            assert store.commit([Delete("a")])
        put(store, "a")

        assert sorted(set(versions)) == versions
        for version in versions:
            assert store.commit([CheckVersion("a", version)]) is None

    def test_delete_and_put_need_no_check(self, store: RecordStore) -> None:
        """They say what will be, whatever was."""
        put(store, "a", b"1")
        put(store, "a", b"2")
        assert store.commit([Delete("a"), Delete("none")])

        assert [] == store.scan()

    def test_only_one_of_many_stores_creates_an_absent_record(
        self, space: Space
    ) -> None:
        """Whatever the stores and threads."""
        stores = [space.open() for _ in range(4)]

        def take(store: RecordStore) -> bool:
            return bool(store.commit([CheckVersion("lock", ABSENT), Hold("lock", b"")]))

        with ThreadPoolExecutor(4) as pool:
            assert [False] * 3 + [True] == sorted(pool.map(take, stores))

    def test_no_count_is_lost_between_threads(self, space: Space) -> None:
        """Each thread reads, checks and writes, and retries after a refusal."""
        put(space.open(), "n", b"0")

        def add(store: RecordStore) -> None:
            for _ in range(5):
                while True:
                    found = store.get("n")
                    assert found is not None
                    value = b"%d" % (int(found.value) + 1)
                    if store.commit(
                        [CheckVersion("n", found.version), Put("n", value)]
                    ):
                        break

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(add, [space.open() for _ in range(3)]))
        found = space.open().get("n")
        assert found is not None
        assert b"15" == found.value

    @pytest.mark.parametrize(
        "ops",
        [
            [Put("", b"")],
            [Put("k" * (KEY_BYTES_MAX + 1), b"")],
            [Put("a\0", b"")],
            [Put("\ud800", b"")],
            [Put("a", b""), Delete("a")],
            [CheckVersion("a", 1), CheckVersion("a", 1)],
            [CheckVersion("a", -1)],
            [Put("a", bytes(1 << 20))],
            [Put(f"k{number}", b"") for number in range(5000)],
        ],
    )
    def test_an_invalid_commit_is_refused(
        self, store: RecordStore, ops: list[Op]
    ) -> None:
        """The same on every backend, so that a test on one is worth something."""
        with pytest.raises(InvalidError):
            store.commit(ops)

        assert [] == store.scan()

    def test_the_largest_key_and_a_large_value_are_accepted(
        self, store: RecordStore
    ) -> None:
        """What is not refused works."""
        key = "ä" * (KEY_BYTES_MAX // 2)
        put(store, key, bytes(800_000))

        found = store.get(key)
        assert found is not None
        assert bytes(800_000) == found.value
