"""
Claims on each backend, and with lost answers.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.autorecovery.marks import a_mark, segment
from lib.remoting.record_stores import Space, put

from pystore.autorecovery.claim import Claim, begin_claim, end_claim, holder_of
from pystore.autorecovery.mark import encode_mark
from pystore.autorecovery.segment_key import DISABLED
from pystore.errors import ClosedError, SessionLostError
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.records.ops import Delete, Op
from pystore.records.record_store import RecordStore

KEY = segment(1)


def marked(store: RecordStore) -> int:
    """
    The version of a new mark.
    """
    return put(store, KEY.mark, encode_mark(a_mark()))


def begun(
    store: RecordStore, version: int, worker: str = "w/0", nonce: str = "1"
) -> Claim | None:
    """
    A claim of the one segment.
    """
    return begin_claim(store, KEY, a_mark(), version, worker=worker, nonce=nonce)


def keys(store: RecordStore) -> list[str]:
    """
    Those of mark and lock that there are.
    """
    return [one for one in (KEY.mark, KEY.lock) if store.get(one) is not None]


class TestBegin:
    """One commit with three checks."""

    def test_a_segment_has_one_holder(self, space: Space, store: RecordStore) -> None:
        """Neither another process nor another slot of the same one takes it."""
        version = marked(store)
        assert begun(store, version)

        assert begun(space.open(), version, "other/0") is None
        assert begun(store, version, "w/1", "2") is None
        assert "w/0" == holder_of(store, KEY) == holder_of(space.open(), KEY)

    def test_a_mark_that_changed_is_not_taken(self, store: RecordStore) -> None:
        """BK-A59: there is no lock without its mark."""
        stale = marked(store)
        version = marked(store)

        assert begun(store, stale) is None
        assert store.commit([Delete(KEY.mark)])
        assert begun(store, version) is None
        assert store.get(KEY.lock) is None

    def test_nothing_is_taken_while_taking_is_disabled(
        self, store: RecordStore
    ) -> None:
        """From the very commit on that disables it."""
        version = marked(store)
        put(store, DISABLED)
        assert begun(store, version) is None
        assert store.commit([Delete(DISABLED)])

        assert begun(store, version)

    def test_the_lock_of_a_holder_that_ended_is_free(
        self, space: Space, store: RecordStore
    ) -> None:
        """BK-A52."""
        version = marked(store)
        other = space.open()
        assert begun(other, version, "dead/0")
        other.close()

        assert holder_of(store, KEY) is None
        assert begun(store, version)


class TestEnd:
    """All of it or nothing."""

    def test_mark_and_lock_go_together(self, store: RecordStore) -> None:
        """BK-A57; a second end changes nothing."""
        claim = begun(store, marked(store))
        assert claim
        done: list[Op] = [claim.is_unmarked, Delete(KEY.mark)]

        assert end_claim(store, claim, done)
        assert [] == keys(store)
        assert not end_claim(store, claim, done)

    def test_a_stale_version_keeps_mark_and_lock(
        self, space: Space, store: RecordStore
    ) -> None:
        """The mark came during the repair."""
        claim = begun(store, marked(store))
        assert claim
        marked(space.open())

        assert not end_claim(store, claim, [claim.is_unmarked, Delete(KEY.mark)])
        assert [KEY.mark, KEY.lock] == keys(store)

    def test_the_end_of_an_earlier_claim_changes_nothing(
        self, space: Space, store: RecordStore
    ) -> None:
        """The mark has the same version, the lock is another one's."""
        version = marked(store)
        first = begun(store, version)
        assert first
        assert end_claim(store, first, [])
        assert begun(space.open(), version, "other/0")

        assert not end_claim(store, first, [first.is_unmarked, Delete(KEY.mark)])
        assert [KEY.mark, KEY.lock] == keys(store)

    def test_a_session_that_ended_commits_nothing_more(
        self, space: Space, store: RecordStore
    ) -> None:
        """A paused worker, whose segment was repaired and marked again."""
        paused = space.open()
        claim = begun(paused, marked(store))
        assert claim
        paused.close()
        assert store.commit([Delete(KEY.mark)])
        version = marked(store)
        assert begun(store, version, "other/0")

        with pytest.raises((ClosedError, SessionLostError)):
            end_claim(paused, claim, [claim.is_unmarked, Delete(KEY.mark)])
        assert "other/0" == holder_of(store, KEY)
        found = store.get(KEY.mark)
        assert found is not None
        assert version == found.version
        # The same by another session: each check of the claim fails.
        for check in ([claim.is_unmarked], []):
            assert not end_claim(store, claim, check)
        mine = replace(claim, version=version)
        assert not end_claim(store, mine, [mine.is_unmarked, Delete(KEY.mark)])


class Faulty(MemoryStore):
    """
    A store whose next commits have faults.
    """

    def __init__(self, *faults: Fault) -> None:
        self.faults = list(faults)
        super().__init__(MemorySpace(), faults=self._next)

    def _next(self, verb: str) -> Fault:
        is_commit = verb == "commit" and self.faults
        return self.faults.pop(0) if is_commit else Fault.NONE


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_ANSWER])
def test_a_claim_whose_answer_was_lost_is_known_by_its_lock(fault: Fault) -> None:
    """
    A lock without its claim would last as long as the process.
    """
    store = Faulty(Fault.NONE, fault)
    version = marked(store)
    claim = begun(store, version)

    assert (claim is not None) is (fault is Fault.LOST_ANSWER)
    assert (store.get(KEY.lock) is not None) is (claim is not None)
    if claim is not None:
        assert end_claim(store, claim, [claim.is_unmarked, Delete(KEY.mark)])


def test_the_lock_of_another_slot_is_not_taken_for_the_own_one() -> None:
    """
    After a lost answer.
    """
    store = Faulty(Fault.NONE, Fault.NONE, Fault.LOST_ANSWER)
    version = marked(store)
    assert begun(store, version, "w/0", "1")

    assert begun(store, version, "w/0", "2") is None


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_ANSWER])
def test_an_end_whose_answer_was_lost_is_done(fault: Fault) -> None:
    """
    It is committed again, unless the lock is gone.
    """
    store = Faulty(Fault.NONE, Fault.NONE, fault)
    claim = begun(store, marked(store))
    assert claim

    assert end_claim(store, claim, [claim.is_unmarked, Delete(KEY.mark)])
    assert [] == keys(store)
