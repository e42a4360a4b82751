"""
Faults of the store in memory: each named one does what the others' real ones do.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pystore.errors import (
    FullError,
    PystoreError,
    SessionLostError,
    UnavailableError,
    UnknownOutcomeError,
)
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.records.ops import ABSENT, CheckVersion, Hold, Put


class Faults:
    """Faults in a row, then none; and the verbs that were called."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = list(faults)
        self.verbs: list[str] = []

    def __call__(self, verb: str) -> Fault:
        """The fault of this call."""
        self.verbs.append(verb)
        return self.faults.pop(0) if self.faults else Fault.NONE


@pytest.mark.parametrize(
    ("fault", "error", "is_made"),
    [
        (Fault.UNREACHABLE, UnavailableError, False),
        (Fault.FULL, FullError, False),
        (Fault.LOST_REQUEST, UnknownOutcomeError, False),
        (Fault.LOST_ANSWER, UnknownOutcomeError, True),
    ],
)
def test_a_commit_of_unknown_outcome_is_settled_by_reading(
    fault: Fault, error: type[PystoreError], *, is_made: bool
) -> None:
    """
    Where the outcome is unknown the error is the same, made or not.
    """
    store = MemoryStore(faults=Faults(fault))

    with pytest.raises(error):
        store.commit([CheckVersion("a", ABSENT), Put("a", b"1")])

    assert is_made is (store.get("a") is not None)
    assert is_made is (
        store.commit([CheckVersion("a", ABSENT), Put("a", b"1")]) is None
    )


def test_a_refused_commit_whose_answer_is_lost_changes_nothing() -> None:
    """
    Unknown to the caller, but a failed check all the same.
    """
    store = MemoryStore(faults=Faults(Fault.LOST_ANSWER))

    with pytest.raises(UnknownOutcomeError):
        store.commit([CheckVersion("a", 7), Put("a", b"1")])

    assert [] == store.scan()


@pytest.mark.parametrize("verb", ["get", "scan", "wait", "commit"])
def test_a_lost_session_loses_its_holds_and_every_operation_raises(verb: str) -> None:
    """
    Another store has the lock at once.
    """
    space = MemorySpace()
    faults = Faults(Fault.NONE, Fault.SESSION_LOST)
    store, other = MemoryStore(space, faults=faults), MemoryStore(space)
    assert store.commit([Hold("lock", b""), Put("a", b"")])
    calls: dict[str, Callable[[], object]] = {
        "get": lambda: store.get("a"),
        "scan": store.scan,
        "wait": lambda: store.wait(0, 0),
        "commit": lambda: store.commit([Put("a", b"zombie")]),
    }

    with pytest.raises(SessionLostError, match="open the record store again"):
        calls[verb]()
    with pytest.raises(SessionLostError):
        store.get("a")

    assert ["commit", verb] == faults.verbs
    assert other.commit([CheckVersion("lock", ABSENT), Hold("lock", b"")])


def test_a_campaign_ends_when_the_session_is_lost() -> None:
    """
    The campaign does not continue.
    """
    space = MemorySpace()
    MemoryStore(space).campaign("leader", "other")
    store = MemoryStore(space, faults=Faults(Fault.NONE, Fault.SESSION_LOST))
    store.get("a")

    with pytest.raises(SessionLostError):
        store.campaign("leader", "me")
