"""
The term of the Auditor, on each backend.

BookKeeper's tests of its election, by name:

| AuditorBookieTest | here |
|---|---|
| testEnsureOnlySingleAuditor | kept: `test_one_of_many_candidates_is_the_auditor` |
| testSuccessiveAuditorCrashes, testBookieClusterRestart | kept: `test_each_death_makes_another_one_the_auditor` |
| testShutdown | kept: `test_an_auditor_that_ends_leaves_no_record` |
| testRestartAuditorBookieAfterCrashing | kept: `test_an_auditor_that_comes_back_is_a_candidate` |
"""  # noqa: E501 - a table

from __future__ import annotations

import pytest
from lib.remoting.record_stores import Space, put

from pystore.autorecovery.auditor_term import (
    AUDITOR,
    AuditorTerm,
    auditor_name,
    check_term,
)
from pystore.errors import FencedError, PystoreError
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.records.ops import CheckVersion, Delete, Put
from pystore.records.record_store import RecordStore

KEY = "recovery/x"


def test_one_of_many_candidates_is_the_auditor(space: Space) -> None:
    """BK-A7, BK-A9: the others know its name, and stay what they are."""
    terms = [AuditorTerm(space.open(), f"n{number}") for number in range(4)]
    for _ in range(3):
        assert [True, False, False, False] == [one.begin() for one in terms]
    assert ["", "n0", "n0", "n0"] == [one.holder for one in terms]
    assert "n0" == auditor_name(space.open())


def test_each_death_makes_another_one_the_auditor(space: Space) -> None:
    """BK-A10: any number of times, and each term is another one."""
    stores = [space.open() for _ in range(4)]
    terms = [AuditorTerm(one, f"n{number}") for number, one in enumerate(stores)]
    versions = []
    for number, store in enumerate(stores):
        alive = terms[number:]
        leads = [one for one in alive if one.begin()]
        assert leads == [terms[number]]
        check = terms[number].check
        assert check is not None
        versions.append(check.version)
        store.close()
    assert sorted(set(versions)) == versions


def test_an_auditor_that_ends_leaves_no_record(space: Space) -> None:
    """BK-A11."""
    store, other = space.open(), space.open()
    assert AuditorTerm(store, "one").begin()
    store.close()

    assert auditor_name(other) is None
    assert [] == other.scan("recovery/")


def test_an_auditor_that_comes_back_is_a_candidate(space: Space) -> None:
    """BK-A10: under the same name, too."""
    store = space.open()
    assert AuditorTerm(store, "one").begin()
    two = AuditorTerm(space.open(), "two")
    assert not two.begin()
    store.close()
    assert two.begin()
    again = AuditorTerm(space.open(), "one")

    assert not again.begin()
    assert "two" == again.holder


def test_each_write_proves_the_term(store: RecordStore, space: Space) -> None:
    """BK-A15, P2: an earlier Auditor changes nothing."""
    one, two = AuditorTerm(store, "one"), AuditorTerm(space.open(), "two")
    with pytest.raises(FencedError):
        one.write([Put(KEY, b"1")])
    assert one.begin()
    one.write([Put(KEY, b"1")])
    put(store, "recovery/y")
    store.commit([Delete(AUDITOR)])
    assert two.begin()
    two.write([Put(KEY, b"2")])
    with pytest.raises(FencedError, match="another Auditor"):
        one.write([Put(KEY, b"3")])
    found = store.get(KEY)

    assert found is not None
    assert b"2" == found.value
    assert not one.begin()


def test_a_session_that_was_lost_writes_nothing() -> None:
    """A paused process that wakes up has another session, or none."""
    space = MemorySpace()
    store = MemoryStore(space)
    one = AuditorTerm(store, "one")
    assert one.begin()
    store.lose_session()
    assert AuditorTerm(MemoryStore(space), "two").begin()
    with pytest.raises(PystoreError):
        one.write([Put(KEY, b"1")])
    with pytest.raises(PystoreError):
        one.begin()


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST])
def test_a_lost_answer_is_settled_at_the_next_turn(fault: Fault) -> None:
    """Whether the record was held by then or not."""
    faults = [fault]
    space = MemorySpace()
    store = MemoryStore(
        space,
        faults=lambda verb: faults.pop() if verb == "commit" and faults else Fault.NONE,
    )
    one, two = AuditorTerm(store, "one"), AuditorTerm(MemoryStore(space), "two")
    assert not one.begin()
    assert one.begin()
    assert not two.begin()
    faults.append(fault)
    one.write([Put(KEY, b"1")])
    found = store.get(KEY)

    assert found is not None
    assert b"1" == found.value


def test_a_lost_answer_takes_no_term_of_another_one() -> None:
    """It became the Auditor meanwhile."""
    faults = [Fault.LOST_REQUEST]
    space = MemorySpace()
    store = MemoryStore(
        space,
        faults=lambda verb: faults.pop() if verb == "commit" and faults else Fault.NONE,
    )
    one, two = AuditorTerm(store, "one"), AuditorTerm(MemoryStore(space), "two")
    assert not one.begin()
    assert two.begin()

    assert not one.begin()
    assert "two" == one.holder
    assert two.begin()


def test_a_refused_commit_is_told_from_the_end_of_the_term() -> None:
    """Another check may have refused it."""
    store = MemoryStore()
    version = put(store, AUDITOR)
    check_term(store, None)
    check_term(store, CheckVersion(AUDITOR, version))
    with pytest.raises(FencedError):
        check_term(store, CheckVersion(AUDITOR, version + 1))
