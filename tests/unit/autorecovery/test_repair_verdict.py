"""
What a worker decides from what it found.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from lib.autorecovery.marks import LOST_COPY, a_mark, corrupt

from pystore.autorecovery.copy_look import CopyLook, CopyState
from pystore.autorecovery.mark import Missing, Reason
from pystore.autorecovery.repair_verdict import (
    VerdictKind,
    compared,
    next_repair,
    verdict,
)
from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.autorecovery.settings import RecoverySettings

GOOD, DAMAGED, DEAD = CopyState.GOOD, CopyState.DAMAGED, CopyState.DEAD
UNKNOWN, OUTSIDE, BEHIND = CopyState.UNKNOWN, CopyState.OUTSIDE, CopyState.BEHIND
JAVA, LACKING = CopyState.UNVERIFIED, CopyState.LACKING
DIVERGENT, OUTVOTED = CopyState.DIVERGENT, CopyState.OUTVOTED
SETTINGS = RecoverySettings(dead_after=3)


def look(
    broker_id: int,
    state: CopyState,
    bad: tuple[int, ...] = (),
    digest: str = "",
    *,
    is_sealed: bool = False,
    is_tried: bool = False,
) -> CopyLook:
    """
    Of a copy; that of broker 1 is the master's.
    """
    return CopyLook(
        ReplicaAddress("cluster", "set", broker_id, f"host:{broker_id}"),
        state,
        "",
        f"1-{broker_id}",
        is_master=broker_id == 1,
        address=f"serves:{broker_id}",
        blocks=4,
        bad_blocks=bad,
        digest=digest,
        is_sealed=is_sealed,
        is_tried=is_tried,
    )


def looks(*states: CopyState) -> dict[int, CopyLook]:
    """
    Copies from broker 1 on; damaged ones could not be repaired.
    """
    return {
        one: look(one, state, (0,) if state is DAMAGED else (), is_tried=True)
        for one, state in enumerate(states, 1)
    }


def test_what_no_copy_opens_is_said_with_what_an_operator_does() -> None:
    """
    The others are good: the segment is not lost, and the replica waits for an operator.
    """
    found = looks(GOOD, DAMAGED, GOOD)
    found[2] = replace(
        found[2], is_ill=True, is_unsettled=True, why="the two histories part at 7"
    )
    mark = replace(a_mark(), no_copy_tries=SETTINGS.dead_after - 1)
    end = verdict(found, mark, SETTINGS, 3)

    assert VerdictKind.BURY is end.kind
    assert "part at 7" in end.why
    assert "opens the store of cluster/set/2: `pystore recovery replace`" in end.why
    others = verdict(looks(GOOD, DAMAGED), mark, SETTINGS, 2)
    assert "recovery replace" not in others.why


def test_a_hole_that_no_copy_has_settled_yet_is_no_failed_try() -> None:
    """
    The set goes on, and settles it.
    """
    found = looks(BEHIND, DAMAGED, BEHIND)
    hole = replace(found[2], is_ill=True, is_unsettled=True, is_tried=False)

    end = verdict({**found, 2: hole}, a_mark(), SETTINGS, 3)
    assert (VerdictKind.REST, 1000 * SETTINGS.open_grace_s) == (end.kind, end.for_ms)
    assert VerdictKind.BACK_OFF is verdict(found, a_mark(), SETTINGS, 3).kind


def test_what_was_repaired_is_named() -> None:
    """
    At the end of the claim.
    """
    found = looks(GOOD, GOOD, GOOD)
    again = {**found, 2: replace(found[2], is_repaired=True)}

    assert "every copy is good" == verdict(found, a_mark(), SETTINGS, 3).why
    text = "every copy is good; repaired now: broker 2"
    assert text == verdict(again, a_mark(), SETTINGS, 3).why


def test_an_ill_replica_needs_what_retention_deleted_at_the_master() -> None:
    """
    It cannot be opened without the segment, so the end says that no copy has it.
    """
    found = looks(OUTSIDE, DAMAGED, OUTSIDE)
    one = replace(found[2], is_ill=True, why="the file is missing")

    assert verdict(found, a_mark(), SETTINGS, 3).kind is VerdictKind.DONE
    for tries, kind in ((0, VerdictKind.BACK_OFF), (2, VerdictKind.BURY)):
        mark = replace(a_mark(), no_copy_tries=tries)
        assert verdict({**found, 2: one}, mark, SETTINGS, 3).kind is kind


@pytest.mark.parametrize(
    ("states", "kind"),
    [
        ((GOOD, GOOD, GOOD), VerdictKind.DONE),
        ((GOOD, GOOD, UNKNOWN), VerdictKind.BACK_OFF),
        ((UNKNOWN, UNKNOWN, UNKNOWN), VerdictKind.BACK_OFF),
        ((DAMAGED, UNKNOWN, DAMAGED), VerdictKind.BACK_OFF),
        ((GOOD, GOOD, DEAD), VerdictKind.DONE),
        ((GOOD, DEAD, GOOD), VerdictKind.BACK_OFF),
        ((GOOD, JAVA, GOOD), VerdictKind.BACK_OFF),
        ((GOOD, GOOD, JAVA), VerdictKind.DONE),
        ((OUTSIDE, GOOD, GOOD), VerdictKind.DONE),
        ((DEAD, OUTSIDE, OUTSIDE), VerdictKind.BURY),
        ((BEHIND, BEHIND, BEHIND), VerdictKind.REST),
        ((GOOD, BEHIND, GOOD), VerdictKind.REST),
        ((GOOD, GOOD, BEHIND), VerdictKind.DONE),
        ((GOOD, OUTSIDE, GOOD), VerdictKind.DONE),
        ((DAMAGED, DAMAGED, BEHIND), VerdictKind.BURY),
        ((DAMAGED, DAMAGED, DEAD), VerdictKind.BURY),
        ((DAMAGED, DAMAGED, JAVA), VerdictKind.BURY),
        ((GOOD, DAMAGED, GOOD), VerdictKind.BURY),
        ((GOOD, DIVERGENT, DIVERGENT), VerdictKind.BURY),
        ((GOOD, OUTVOTED, GOOD), VerdictKind.BURY),
        ((UNKNOWN, DIVERGENT, DIVERGENT), VerdictKind.BACK_OFF),
        ((), VerdictKind.DONE),
    ],
)
def test_a_claim_ends_as_its_copies_say(
    states: tuple[CopyState, ...], kind: VerdictKind
) -> None:
    """
    The copy of broker 2 is named, in the last try before the segment counts as dead.
    """
    mark = a_mark({2: corrupt(0)})
    found = verdict(looks(*states), replace(mark, no_copy_tries=2), SETTINGS, 3)

    assert kind is found.kind, found.why


def test_a_source_that_can_be_opened_comes_before_one_that_cannot() -> None:
    """
    And one with writers before one whose store is to be repaired.
    """
    found = {
        1: replace(look(1, GOOD), is_ill=True),
        2: replace(look(2, GOOD), is_master=True),
        3: look(3, DAMAGED, (0,)),
        4: look(4, GOOD),
    }
    repair = next_repair(found, a_mark({3: corrupt(0)}))
    assert repair is not None
    target, sources = repair
    assert 3 == target.replica.broker_id
    assert [4, 2, 1] == [one.replica.broker_id for one in sources]


def test_a_segment_counts_as_dead_after_as_many_tries_as_the_settings_say() -> None:
    """
    The only copy of a set at once.
    """
    mark, found = a_mark({1: corrupt(0)}), looks(DAMAGED, DAMAGED)
    ends = [
        verdict(found, replace(mark, no_copy_tries=tries), SETTINGS, 2).kind
        for tries in range(3)
    ]

    assert [VerdictKind.BACK_OFF, VerdictKind.BACK_OFF, VerdictKind.BURY] == ends
    assert VerdictKind.BURY is verdict(looks(DAMAGED), mark, SETTINGS, 1).kind
    assert VerdictKind.BACK_OFF is verdict(looks(DAMAGED), mark, SETTINGS, 2).kind


def test_a_copy_that_has_to_be_replaced_keeps_its_mark() -> None:
    """
    Members are the controller's; a lost one that is back has no reason left (AR-R17).
    """
    drained = a_mark({2: Missing(Reason.DRAIN)})
    lost = a_mark({2: LOST_COPY})

    assert VerdictKind.BACK_OFF is verdict(looks(GOOD, GOOD), drained, SETTINGS, 2).kind
    assert VerdictKind.DONE is verdict(looks(GOOD), drained, SETTINGS, 1).kind
    assert VerdictKind.DONE is verdict(looks(GOOD, GOOD), lost, SETTINGS, 2).kind


def test_a_copy_said_to_differ_waits_for_one_to_compare_it_with() -> None:
    """
    Unless it is the only one of its set.
    """
    mark = a_mark({1: Missing(Reason.DIVERGENT)})

    assert VerdictKind.BACK_OFF is verdict(looks(GOOD, DEAD), mark, SETTINGS, 2).kind
    assert VerdictKind.DONE is verdict(looks(GOOD), mark, SETTINGS, 1).kind
    assert VerdictKind.DONE is verdict(looks(GOOD, GOOD), mark, SETTINGS, 2).kind


class TestRepairs:
    """The next copy, and its sources."""

    def test_whole_slaves_come_before_the_master_and_damaged_copies_last(self) -> None:
        """A damaged one gives what it has."""
        found = {
            1: look(1, GOOD),
            2: look(2, DAMAGED, (0,)),
            3: look(3, GOOD),
            4: look(4, DAMAGED, (1, 2)),
        }
        repair = next_repair(found, a_mark({2: corrupt(0)}))
        assert repair is not None
        target, sources = repair

        assert (2, [3, 1, 4]) == (
            target.replica.broker_id,
            [one.replica.broker_id for one in sources],
        )

    @pytest.mark.parametrize("state", [UNKNOWN, DEAD, JAVA, BEHIND, OUTSIDE, LACKING])
    def test_nothing_else_is_a_source(self, state: CopyState) -> None:
        """A definite answer is needed."""
        found = {1: look(1, state), 2: look(2, DAMAGED, (0,))}

        assert next_repair(found, a_mark({2: corrupt(0)})) is None

    @pytest.mark.parametrize("state", [UNKNOWN, DEAD, JAVA, BEHIND, OUTSIDE, GOOD])
    def test_nothing_else_is_a_target(self, state: CopyState) -> None:
        """What is unknown is no damage, though a mark names it."""
        found = {1: look(1, GOOD), 2: look(2, state)}

        assert next_repair(found, a_mark({2: corrupt(0)})) is None

    def test_a_fill_needs_an_offer_and_a_whole_copy(self) -> None:
        """The Auditor offers some segments at a time."""
        found = {1: look(1, GOOD), 2: look(2, LACKING)}
        offer, other = a_mark({2: Missing(Reason.FILL)}), a_mark({1: corrupt(0)})

        assert next_repair(found, offer) is not None
        assert next_repair(found, other) is None
        assert next_repair({**found, 1: look(1, DAMAGED, (0,))}, offer) is None

    def test_where_copies_diverge_nothing_is_repaired(self) -> None:
        """A person decides which one is right."""
        found = {1: look(1, DIVERGENT), 2: look(2, DAMAGED, (0,)), 3: look(3, GOOD)}

        assert next_repair(found, a_mark({2: corrupt(0)})) is None


class TestVotes:
    """Whole copies that differ."""

    @staticmethod
    def states(*digests: str, sealed: tuple[int, ...] = ()) -> list[CopyState] | None:
        """Of copies from broker 1 on, after the comparison."""
        found = {
            one: look(one, GOOD, digest=digest, is_sealed=one in sealed)
            for one, digest in enumerate(digests, 1)
        }
        after = compared(found, ())
        return None if after is None else [it.state for it in after.values()]

    def test_two_equal_copies_decide_against_one(self) -> None:
        """Where no seal speaks for the one alone."""
        expected = [GOOD, OUTVOTED, GOOD]
        assert expected == self.states("a", "b", "a")
        assert expected == self.states("a", "b", "a", sealed=(1, 2, 3))
        assert expected == self.states("a", "b", "a", sealed=(1,))
        assert [DIVERGENT] * 3 == self.states("a", "b", "a", sealed=(2,))

    @pytest.mark.parametrize("digests", ["ab", "abc", "aabb", "aaabc", "aabbc"])
    def test_no_other_majority_decides(self, digests: str) -> None:
        """A person does."""
        assert [DIVERGENT] * len(digests) == self.states(*digests)

    def test_a_vote_that_is_missing_stops_the_decision(self) -> None:
        """It may turn it."""
        found = {
            **{one: look(one, GOOD, digest="aba"[one - 1]) for one in (1, 2, 3)},
            4: look(4, UNKNOWN),
        }
        after = compared(found, ())
        assert after is not None

        assert [DIVERGENT] * 3 + [UNKNOWN] == [it.state for it in after.values()]

    @pytest.mark.parametrize("state", [JAVA, DEAD, DAMAGED, BEHIND])
    def test_only_whole_copies_vote(self, state: CopyState) -> None:
        """That of RocketMQ proves nothing."""
        found = {
            1: look(1, GOOD, digest="a"),
            2: look(2, GOOD, digest="b"),
            3: look(3, state, digest="a"),
        }
        after = compared(found, ())
        assert after is not None

        assert [DIVERGENT, DIVERGENT, state] == [it.state for it in after.values()]

    def test_copies_that_were_sampled_are_read_as_a_whole_first(self) -> None:
        """Of a copy without a seal the digest is not known before."""
        found = {1: look(1, GOOD, digest="a"), 2: look(2, GOOD)}

        assert compared(found, ()) == found
        assert compared(found, (2,)) is None
        assert compared({**found, 3: look(3, GOOD, digest="b")}, ()) is None
        assert compared(found, (7,)) == found
