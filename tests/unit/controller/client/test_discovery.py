"""
The search for the leader: the order of requests, and its end.
"""

from __future__ import annotations

import pytest

from pystore.controller.client.discovery import (
    AskMetadata,
    Discovery,
    Resolve,
    Rest,
    parse_addresses,
)
from pystore.controller.protocol.calls import CallRefused, CallUnanswered, Metadata
from pystore.errors import InvalidError, LocalViolation

LEADS = Metadata(is_leader=True, leader_address="inside:1")
KNOWS_NOBODY = Metadata(is_leader=False)
SILENT = CallUnanswered("no answer for 3000 ms")
NAMES = ("a:1", "b:1", "c:1")


def _knows(address: str) -> Metadata:
    return Metadata(is_leader=False, leader_address=address)


@pytest.fixture
def search() -> Discovery:
    """A search over three controllers, whose names are their addresses."""
    found = Discovery(NAMES, 500)
    found.resolved({})
    return found


def _asked(
    search: Discovery, *answers: Metadata | CallRefused | CallUnanswered
) -> list[str]:
    """Gives answers one by one; returns the asked addresses."""
    asked = []
    for answer in answers:
        effect = search.next_effect()
        assert isinstance(effect, AskMetadata)
        assert 500 == effect.timeout_ms
        asked.append(effect.address)
        search.answered(effect.address, answer)
    return asked


def test_a_controller_that_says_that_it_leads_is_the_leader(search: Discovery) -> None:
    """The leader is the asked address, not the address that the answer names."""
    assert ["a:1", "b:1"] == _asked(search, KNOWS_NOBODY, LEADS)
    assert ("b:1", None) == (search.leader, search.next_effect())


def test_a_hint_is_asked_next_and_not_believed(search: Discovery) -> None:
    """A controller may name the former leader (RMQ-R224)."""
    assert ["a:1", "c:1", "b:1"] == _asked(search, _knows("c:1"), SILENT, LEADS)
    assert "b:1" == search.leader


def test_a_hint_to_an_address_that_is_not_configured_is_followed(
    search: Discovery,
) -> None:
    """The configured list need not be complete."""
    assert ["a:1", "d:1"] == _asked(search, _knows("d:1"), LEADS)
    assert "d:1" == search.leader


def test_controllers_that_name_each_other_are_asked_once_each(
    search: Discovery,
) -> None:
    """The round ends: unknown addresses do not add more unknown ones."""
    chain = (_knows("x:1"), _knows("y:1"), _knows("a:1"), _knows("b:1"))

    assert ["a:1", "x:1", "b:1", "c:1"] == _asked(search, *chain)
    assert isinstance(search.next_effect(), Rest)


def test_a_round_without_a_leader_is_followed_by_a_pause(search: Discovery) -> None:
    """RMQ-R3: the reason has each answer; then the names are resolved again."""
    for failures in (1, 2, 3):
        _asked(search, SILENT, CallRefused(1), KNOWS_NOBODY)
        rest = search.next_effect()
        assert isinstance(rest, Rest)
        assert failures == rest.failures
        assert (
            "no controller leads: a:1 no answer for 3000 ms; b:1 refuses with code 1; "
            "c:1 knows no leader"
        ) == rest.reason
        search.rested()
        assert Resolve(NAMES) == search.next_effect()
        search.resolved({})


def test_a_leader_that_no_longer_leads_is_asked_first(search: Discovery) -> None:
    """2007: it may know the new leader."""
    _asked(search, KNOWS_NOBODY, LEADS)
    search.lost("b:1", is_reachable=True)
    search.resolved({})

    assert ["b:1", "c:1"] == _asked(search, _knows("c:1"), LEADS)
    assert "c:1" == search.leader


def test_a_leader_that_is_silent_is_asked_last(search: Discovery) -> None:
    """Otherwise its time-out would delay the search once more."""
    _asked(search, LEADS)
    search.lost("a:1", is_reachable=False)
    search.resolved({})

    assert ["b:1", "c:1", "a:1"] == _asked(search, SILENT, SILENT, SILENT)
    search.rested()
    search.resolved({})
    assert ["a:1"] == _asked(search, LEADS)


def test_a_late_failure_of_a_former_leader_does_not_lose_the_leader(
    search: Discovery,
) -> None:
    """A late time-out must not end a search that has succeeded."""
    _asked(search, LEADS)
    search.lost("b:1", is_reachable=False)

    assert "a:1" == search.leader


def test_finding_a_leader_resets_the_count_of_failures(search: Discovery) -> None:
    """The next pause is a short one again."""
    _asked(search, SILENT, SILENT, SILENT)
    search.rested()
    search.resolved({})
    _asked(search, LEADS)
    search.lost("a:1", is_reachable=True)
    search.resolved({})
    _asked(search, SILENT, SILENT, SILENT)
    rest = search.next_effect()

    assert isinstance(rest, Rest)
    assert 1 == rest.failures


class TestNames:
    """A name may have several addresses, which may change."""

    def test_each_address_of_a_name_is_asked(self) -> None:
        """A shared address of two names is asked once."""
        search = Discovery(("all:1", "b:1"), 500)
        assert Resolve(("all:1", "b:1")) == search.next_effect()
        search.resolved({"all:1": ["10.0.0.1:1", "10.0.0.2:1"], "b:1": ["10.0.0.2:1"]})

        assert ("10.0.0.1:1", "10.0.0.2:1") == search.known
        assert ["10.0.0.1:1", "10.0.0.2:1"] == _asked(search, SILENT, SILENT)
        assert isinstance(search.next_effect(), Rest)

    def test_a_name_moves_with_the_next_round(self) -> None:
        """A pod has another address after its restart."""
        search = Discovery(("all:1",), 500)
        search.resolved({"all:1": ["10.0.0.1:1"]})
        _asked(search, SILENT)
        search.rested()
        search.resolved({"all:1": ["10.0.0.9:1"]})

        assert ["10.0.0.9:1"] == _asked(search, LEADS)

    def test_an_unresolved_name_keeps_its_addresses(self) -> None:
        """A DNS failure removes no controller."""
        search = Discovery(("all:1",), 500)
        search.resolved({"all:1": ["10.0.0.1:1"]})
        _asked(search, SILENT)
        search.rested()
        search.resolved({"all:1": [], "unknown:1": ["10.0.0.3:1"]})

        assert ["10.0.0.1:1"] == _asked(search, LEADS)


def test_an_answer_from_an_address_that_was_not_asked_is_an_error(
    search: Discovery,
) -> None:
    """This is an error of the caller, not of a controller."""
    with pytest.raises(LocalViolation, match="was not asked"):
        search.answered("c:1", LEADS)
    _asked(search, LEADS)
    with pytest.raises(LocalViolation, match="was not asked"):
        search.answered("b:1", LEADS)


def test_the_list_of_controllers_is_read_as_rocketmq_does() -> None:
    """``controllerAddr``: parts with ``;`` between."""
    assert ("a:1", "b:2", "[::1]:3") == parse_addresses(" a:1;b:2;; a:1 ;[::1]:3;")


@pytest.mark.parametrize(
    "text", ["", " ; ", "a", "a:", ":1", "a:0", "a:65536", "::1:3"]
)
def test_a_list_without_an_address_is_refused(text: str) -> None:
    """The error is one line with the expected form."""
    with pytest.raises(InvalidError, match=r"HOST:PORT|within 1 and|brackets"):
        parse_addresses(text)


def test_a_search_needs_an_address_and_a_time_out() -> None:
    """Neither an empty list nor a time-out of nothing."""
    for addresses, timeout_ms in (((), 1), (("a:1",), 0)):
        with pytest.raises(InvalidError, match="takes an address and a time-out"):
            Discovery(addresses, timeout_ms)
