"""
One repair, turn by turn, with replicas that answer late, not at all, or with a refusal.
"""

from __future__ import annotations

import pytest
from lib.autorecovery.marks import ABSENT_COPY, Clock, a_mark, corrupt
from lib.autorecovery.model_set import ROTTEN, ModelSet

from pystore.autorecovery.claim import Claim
from pystore.autorecovery.mark import Missing
from pystore.autorecovery.repair_verdict import RepairVerdict, VerdictKind
from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.autorecovery.segment_key import SegmentKey
from pystore.autorecovery.segment_repair import SILENT_MS, SegmentRepair
from pystore.autorecovery.settings import RecoverySettings
from pystore.controller.protocol.set_descriptions import SetDescription
from pystore.errors import FormatError, InvalidError, UnavailableError
from pystore.segments.order import (
    OrderAction,
    OrderOutcome,
    OrderProgress,
    SegmentOrder,
)


class Replicas(ModelSet):
    """
    Notes what it is asked, and answers as the test says.

    Attributes:
        orders: broker id and order.
        stopped: broker ids.
        answers: instead of the replica's, by broker id; an error is raised.
        no_answers: how many calls a replica does not answer, by broker id.
    """

    def __init__(self) -> None:
        super().__init__(3, 1)
        self.orders: list[tuple[int, SegmentOrder]] = []
        self.stopped: list[int] = []
        self.answers: dict[int, OrderProgress | Exception] = {}
        self.no_answers: dict[int, int] = {}

    def order(self, replica: ReplicaAddress, order: SegmentOrder) -> OrderProgress:
        """As of `ReplicaPeers`."""
        self.orders.append((replica.broker_id, order))
        self._silence(replica)
        progress = super().order(replica, order)
        return self._answer(replica, progress)

    def progress(self, replica: ReplicaAddress, claim: str) -> OrderProgress:
        """As of `ReplicaPeers`."""
        self._silence(replica)
        return self._answer(replica, super().progress(replica, claim))

    def stop(self, replica: ReplicaAddress, claim: str) -> None:
        """As of `ReplicaPeers`."""
        self.stopped.append(replica.broker_id)
        super().stop(replica, claim)

    def _silence(self, replica: ReplicaAddress) -> None:
        left = self.no_answers.get(replica.broker_id, 0)
        if left:
            self.no_answers[replica.broker_id] = left - 1
            raise UnavailableError("timed out")

    def _answer(self, replica: ReplicaAddress, own: OrderProgress) -> OrderProgress:
        answer = self.answers.get(replica.broker_id, own)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Repair:
    """
    A repair of one segment and its clock.
    """

    def __init__(
        self, replicas: ModelSet, missing: dict[int, Missing], *, is_held: bool = True
    ) -> None:
        self.clock = Clock()
        claim = Claim(SegmentKey("cluster", "set", 0), a_mark(missing), 5, 6, "w/0")
        self.repair = SegmentRepair(
            claim,
            RecoverySettings(),
            controllers=replicas,
            peers=replicas,
            now_ms=self.clock,
            is_held=lambda: is_held,
        )

    def end(self, turn_ms: int = 1000) -> RepairVerdict:
        """
        Its verdict.
        """
        for _ in range(2000):
            found = self.repair.step()
            if found is not None:
                return found
            self.clock.now_ms += turn_ms
        pytest.fail("no verdict")


def test_an_order_is_given_again_until_it_is_answered() -> None:
    """
    The same claim is the same job.
    """
    replicas = Replicas()
    replicas.replicas[2].copies[0][1] = ROTTEN
    replicas.no_answers = {2: 3}
    assert VerdictKind.DONE is Repair(replicas, {2: corrupt(1)}).end().kind

    claims = [order.claim for one, order in replicas.orders if one == 2]
    assert [claims[0]] * 4 == claims[:4]
    assert [5, 2] == [len(claims), len(set(claims))]
    assert all(one.startswith("cluster/set/00000000000000000000@6.") for one in claims)


def test_a_replica_that_is_silent_for_long_is_unknown() -> None:
    """
    Its job is told to stop, and nothing else is asked of it.
    """
    replicas = Replicas()
    replicas.no_answers = {2: 10**6}
    repair = Repair(replicas, {2: corrupt(1)})
    found = repair.end()

    assert VerdictKind.BACK_OFF is found.kind
    assert "is unknown: timed out" in found.why
    assert [2] == replicas.stopped
    assert SILENT_MS <= repair.clock.now_ms - Clock().now_ms <= SILENT_MS + 1000


@pytest.mark.parametrize(
    "answer",
    [InvalidError("no such segment"), OrderProgress(OrderOutcome.FAILED, "disk full")],
)
def test_a_refusal_is_no_damage(answer: OrderProgress | Exception) -> None:
    """
    Nor is a job that ended early; no copy is repaired.
    """
    replicas = Replicas()
    replicas.answers = {2: answer}
    found = Repair(replicas, {2: corrupt(1)}).end()

    assert VerdictKind.BACK_OFF is found.kind
    assert {OrderAction.CHECK} == {order.action for _, order in replicas.orders}


def test_a_job_without_progress_ends() -> None:
    """
    The replica answers, but it hangs.
    """
    replicas = Replicas()
    replicas.answers = {2: OrderProgress(OrderOutcome.RUNNING)}
    found = Repair(replicas, {2: corrupt(1)}).end(30_000)

    assert VerdictKind.BACK_OFF is found.kind
    assert [2] == replicas.stopped


def test_nothing_is_changed_after_the_claim_has_ended() -> None:
    """
    Another worker may repair the segment.
    """
    replicas = Replicas()
    replicas.replicas[2].copies[0] = []
    found = Repair(replicas, {2: ABSENT_COPY}, is_held=False).end()

    assert VerdictKind.ABANDON is found.kind
    assert [] == replicas.replicas[2].copies[0]


def test_a_stop_is_told_to_all_that_have_a_job() -> None:
    """
    As far as they answer.
    """
    replicas = Replicas()
    replicas.answers = dict.fromkeys((1, 2, 3), OrderProgress(OrderOutcome.RUNNING))
    repair = Repair(replicas, {2: corrupt(1)})
    assert repair.repair.step() is None
    assert "check on broker 1 at 127.0.0.1:1" in repair.repair.doing
    replicas.replicas[1].is_silent = True
    repair.repair.stop()

    assert [1, 2, 3] == replicas.stopped
    assert "" == repair.repair.doing


def test_a_set_whose_record_is_unreadable_is_left() -> None:
    """
    An operator has to mend it.
    """

    class Unreadable(ModelSet):
        """Its controllers cannot read its record."""

        def one_set(self, cluster: str, name: str) -> SetDescription | None:
            """As of `Controllers`."""
            raise FormatError(f"record of {cluster}/{name}", path=name)

    found = Repair(Unreadable(3, 1), {2: corrupt(1)}).end()

    assert (VerdictKind.BACK_OFF, "record of cluster/set") == (found.kind, found.why)
