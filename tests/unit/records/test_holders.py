"""
Holds, waits, campaigns and the end of a store: the same tests over every backend.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from lib.remoting.record_stores import Space, keys_of, put

from pystore.errors import ClosedError, ForkedError
from pystore.records.ops import ABSENT, CheckVersion, Delete, Hold, Op, Put
from pystore.records.record_store import RecordStore, StoredRecord

TIMEOUT_S = 10  # of a condition that holds within milliseconds


class TestHold:
    """What disappears with its holder."""

    def test_the_holds_of_a_store_end_when_it_closes(
        self, space: Space, store: RecordStore
    ) -> None:
        """And can be taken at once; what it put stays."""
        other = space.open()
        assert other.commit([Hold("lock", b"other"), Put("a", b"")])
        assert store.commit([CheckVersion("lock", ABSENT), Hold("lock", b"")]) is None
        other.close()

        assert ["a"] == keys_of(store)
        assert store.get("lock") is None
        assert store.commit([CheckVersion("lock", ABSENT), Hold("lock", b"")])

    def test_a_hold_is_refused_if_the_record_belongs_to_another_store(
        self, space: Space, store: RecordStore
    ) -> None:
        """Held or put: a holder never takes what is not its own."""
        other = space.open()
        assert other.commit([Hold("held", b"other"), Put("put", b"other")])

        assert store.commit([Hold("held", b"mine")]) is None
        assert store.commit([Hold("put", b"mine")]) is None
        assert other.commit([Hold("held", b"again")])

    def test_a_hold_of_what_the_same_store_holds_needs_a_check_for_absence(
        self, store: RecordStore
    ) -> None:
        """Two threads of one store would both get the lock."""
        first = store.commit([CheckVersion("lock", ABSENT), Hold("lock", b"1")])
        assert first
        assert store.commit([CheckVersion("lock", ABSENT), Hold("lock", b"2")]) is None
        second = store.commit([Hold("lock", b"2")])

        assert second
        assert first < second

    def test_a_put_leaves_a_record_to_its_holder(
        self, space: Space, store: RecordStore
    ) -> None:
        """The value changes, the life does not."""
        other = space.open()
        assert other.commit([Hold("held", b"1")])
        put(store, "held", b"2")
        found = store.get("held")
        other.close()

        assert found is not None
        assert b"2" == found.value
        assert store.get("held") is None

    def test_a_put_after_the_death_of_a_holder_stays(
        self, space: Space, store: RecordStore
    ) -> None:
        """The new record has no holder."""
        other = space.open()
        assert other.commit([Hold("held", b"1")])
        other.close()
        put(store, "held", b"2")
        store.close()

        assert ["held"] == keys_of(space.open())

    def test_a_lock_goes_with_the_work_in_one_commit(
        self, space: Space, store: RecordStore
    ) -> None:
        """Done: the record and its lock, or with a stale version neither."""
        stale = put(store, "mark", b"1")
        version = put(store, "mark", b"2")
        lock = space.open().commit([CheckVersion("mark", version), Hold("lock", b"")])
        assert lock
        done: list[Op] = [CheckVersion("lock", lock), Delete("mark"), Delete("lock")]

        assert store.commit([CheckVersion("mark", stale), *done]) is None
        assert ["lock", "mark"] == keys_of(store)
        assert store.commit([CheckVersion("mark", version), *done])
        assert [] == store.scan()


class TestWait:
    """Waiting for commits."""

    def test_a_commit_before_the_wait_ends_it_at_once(
        self, space: Space, store: RecordStore
    ) -> None:
        """The token is of before, so nothing is missed in between."""
        token = store.wait(0, 0)
        put(space.open(), "a")

        assert token < store.wait(token, TIMEOUT_S)

    def test_a_commit_during_the_wait_ends_it(
        self, space: Space, store: RecordStore
    ) -> None:
        """Of another store."""
        token = store.wait(0, 0)
        other = space.open()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.wait, token, TIMEOUT_S)
            put(other, "a")

            assert token < waiting.result(TIMEOUT_S)

    def test_a_time_out_answers_the_same_token(self, store: RecordStore) -> None:
        """Nothing was committed."""
        token = store.wait(0, 0)

        assert token == store.wait(token, 0.01)

    @pytest.mark.parametrize(
        ("space_name", "mine", "others"),
        [
            ("", ["a", "controller/a"], ["recovery/a", "other/a"]),
            ("recovery", ["recovery/a", "recovery/b/c"], ["a", "controller/a", "r/a"]),
        ],
    )
    def test_only_commits_to_its_space_end_a_wait(
        self,
        space: Space,
        store: RecordStore,
        space_name: str,
        mine: list[str],
        others: list[str],
    ) -> None:
        """Commits to other spaces, deletes there and new stores change no token."""
        token = store.wait(0, 0, space_name)
        assert token
        for key in others:
            put(space.open(), key)
            assert space.open().commit([Delete(key), CheckVersion(mine[0], ABSENT)])
            assert token == store.wait(token, 0, space_name)
        for key in mine:
            put(space.open(), key)
            before, token = token, store.wait(token, TIMEOUT_S, space_name)
            assert before < token
            assert space.open().commit([Delete(key), Put(others[0], b"")])
            before, token = token, store.wait(token, TIMEOUT_S, space_name)
            assert before < token
        assert token == store.wait(token, 0.01, space_name)

    def test_a_wait_for_a_new_space_ends_with_its_first_commit(
        self, space: Space, store: RecordStore
    ) -> None:
        """Also in a thread that waits since before there was the space."""
        token = store.wait(0, 0, "new")
        other = space.open()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.wait, token, TIMEOUT_S, "new")
            put(other, "new/a")

            assert token < waiting.result(TIMEOUT_S)

    def test_a_controller_waits_in_the_common_space(self, store: RecordStore) -> None:
        """It has two names, as long as there are keys of before."""
        put(store, "controller/a")

        assert store.wait(0, 0) == store.wait(0, 0, "controller")


class TestCampaign:
    """Campaigns and terms."""

    def test_the_record_names_the_leader(
        self, space: Space, store: RecordStore
    ) -> None:
        """Every store can read it."""
        term = store.campaign("leader", "controller-1")

        assert StoredRecord("leader", b"controller-1", term.number) == space.open().get(
            "leader"
        )
        assert store.commit([term.check, Put("a", b"")])

    def test_a_leader_gets_its_term_at_once(self, store: RecordStore) -> None:
        """It does not wait for itself."""
        assert store.campaign("leader", "me") is store.campaign("leader", "me")

    def test_the_next_one_leads_when_the_first_has_closed(
        self, space: Space, store: RecordStore
    ) -> None:
        """With a greater number; the number before it is worth nothing."""
        first = store.campaign("leader", "1")
        other = space.open()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(other.campaign, "leader", "2")
            assert store.commit([first.check, Put("a", b"")])
            store.close()
            second = waiting.result(TIMEOUT_S)

        assert first.number < second.number
        assert other.commit([first.check, Put("a", b"zombie")]) is None
        assert other.commit([second.check, Put("a", b"")])

    def test_two_paths_have_two_leaders(self, space: Space, store: RecordStore) -> None:
        """A campaign is about its path alone."""
        other = space.open()

        assert store.campaign("a", "1").path == "a"
        assert other.campaign("b", "2").path == "b"

    def test_only_a_commit_with_the_check_proves_a_term(self, space: Space) -> None:
        """C2: its send time counts, not that of its answer, and reads prove nothing."""
        times = count(100)
        store = space.open(lambda: next(times))
        term = store.campaign("leader", "me")
        begun_ns = term.sent_ns
        store.get("leader")
        store.scan()
        store.wait(0, 0)
        put(store, "a")
        assert store.commit([term.check, CheckVersion("a", ABSENT)]) is None

        assert begun_ns == term.sent_ns
        before_ns = next(times)
        assert store.commit([term.check])
        assert before_ns < term.sent_ns < next(times)

    def test_a_close_ends_the_campaign_of_another_thread(
        self, space: Space, store: RecordStore
    ) -> None:
        """The waiting thread gets an error."""
        store.campaign("leader", "1")
        other = space.open()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(other.campaign, "leader", "2")
            other.close()

            with pytest.raises(ClosedError):
                waiting.result(TIMEOUT_S)

    def test_a_leader_whose_record_was_changed_leads_anew(
        self, space: Space, store: RecordStore
    ) -> None:
        """It holds the record, so it must not wait for itself."""
        first = store.campaign("leader", "me")
        put(space.open(), "leader", b"another writer")
        assert store.commit([first.check]) is None
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(store.campaign, "leader", "me").result(TIMEOUT_S)

        assert first.number < second.number
        assert store.commit([second.check])

    def test_a_store_that_holds_the_record_leads(self, store: RecordStore) -> None:
        """As after a campaign whose answer was lost."""
        assert store.commit([Hold("leader", b"")])
        with ThreadPoolExecutor(1) as pool:
            term = pool.submit(store.campaign, "leader", "me").result(TIMEOUT_S)

        assert store.commit([term.check])

    def test_campaigns_of_several_threads_have_one_term(
        self, space: Space, store: RecordStore
    ) -> None:
        """All threads of one store get the same term."""
        other = space.open()
        other.campaign("leader", "other")
        with ThreadPoolExecutor(4) as pool:
            waiting = [pool.submit(store.campaign, "leader", "me") for _ in range(4)]
            other.close()
            terms = {id(one.result(TIMEOUT_S)): one.result() for one in waiting}

        assert 1 == len(terms)
        (term,) = terms.values()
        assert store.commit([term.check])

    def test_a_close_ends_all_campaigns_of_a_store(
        self, space: Space, store: RecordStore
    ) -> None:
        """Also those that wait for another one of the same store."""
        store.campaign("leader", "1")
        other = space.open()
        with ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(other.campaign, "leader", "2") for _ in range(3)]
            other.close()

            for one in waiting:
                with pytest.raises(ClosedError):
                    one.result(TIMEOUT_S)

    def test_a_close_ends_the_terms_of_a_store(
        self, space: Space, store: RecordStore
    ) -> None:
        """Another store may lead at once, so old proofs must end."""
        term = store.campaign("leader", "1")
        store.close()

        assert term.sent_ns == term.proven_until_ns
        assert space.open().campaign("leader", "2").number > term.number


class TestEnd:
    """Closed stores."""

    def test_a_closed_store_raises(self, store: RecordStore) -> None:
        """In every operation; closing is idempotent."""
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.get("a"),
            store.scan,
            lambda: store.commit([]),
            lambda: store.wait(0, 0),
            lambda: store.campaign("a", "b"),
        ]

        for call in calls:
            with pytest.raises(ClosedError, match="closed"):
                call()

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_a_store_that_was_used_is_not_for_forked_children(
        self, store: RecordStore
    ) -> None:
        """The child gets an error; the parent's store and its holds stay."""
        assert store.commit([Hold("held", b"")])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                store.get("held")
            except ForkedError:
                store.close()
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)

        assert 0 == os.waitstatus_to_exitcode(status)
        assert ["held"] == keys_of(store)
