"""
Losses that are due and become replacements, on a cluster in memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from lib.autorecovery.replacement_auditor import Recovery
from lib.autorecovery.replacement_model import ModelCluster

from pystore.autorecovery.loss import ReplicaLoss
from pystore.autorecovery.loss_audit import DueLoss
from pystore.autorecovery.loss_replacement import HostReplacements
from pystore.autorecovery.replacement_record import ReplacementReason
from pystore.autorecovery.replica_key import ReplicaKey
from pystore.errors import UnavailableError
from pystore.records.memory import MemoryStore

LOST = ReplicaKey("cluster", "set", 2)


class Losing:
    """
    Three hosts with a set, a spare, and an Auditor.
    """

    def __init__(self, spares: str = "d") -> None:
        self.cluster = ModelCluster(dict.fromkeys("abc" + spares, ""))
        self.cluster.add_set("set", "a", "b", "c")
        self.recovery = Recovery(MemoryStore(), self.cluster)
        self.replaces = HostReplacements(
            self.recovery.replacements, lambda: self.cluster.now_ms
        )

    def turn(self, *lost: ReplicaKey) -> Mapping[ReplicaKey, str]:
        """
        A second, and a turn of the Auditor.
        """
        self.cluster.tick()
        self.cluster.check()
        view = self.cluster.all_sets()
        loss = ReplicaLoss(self.cluster.now_ms)
        due = [DueLoss(one, loss, view.sets["cluster", "set"]) for one in lost]
        recovery = self.recovery
        return self.replaces.replace(due, view, recovery.settings, recovery.term)


def test_a_loss_that_is_due_is_replaced_and_says_how_far_it_is() -> None:
    """
    Once; what was begun goes on without it.
    """
    one = Losing()
    one.cluster.kill("b")
    said = [one.turn(LOST)[LOST] for _ in range(10)]
    assert said[0].startswith("planned on d")
    (record,) = one.recovery.records.values()
    assert ReplacementReason.LOST is record.reason
    for _ in range(60):
        one.turn()
    assert ["add d set", "clean set 2"] == one.cluster.asked


def test_a_replacement_is_moving_until_5_s_after_its_last_phase_began() -> None:
    """
    One that waits longer, such as for its bytes, needs no other turns than the rest.
    """
    one = Losing()
    one.turn()
    assert not one.replaces.is_moving
    one.cluster.kill("b")
    one.turn(LOST)
    began_ms, phase, moving = one.cluster.now_ms, "planned", set()
    for _ in range(60):
        (record,) = one.recovery.records.values()
        if record.phase.value != phase:
            began_ms, phase = one.cluster.now_ms, record.phase.value
        is_early = one.cluster.now_ms - began_ms < 5_000
        assert is_early == one.replaces.is_moving
        moving.add(is_early)
        one.turn()
    assert {True, False} == moving
    assert not one.replaces.is_moving


def test_a_loss_without_a_host_says_why_of_each_host() -> None:
    """
    All others have a replica of the set.
    """
    one = Losing(spares="")
    one.cluster.kill("b")
    one.turn(LOST)
    why = one.turn(LOST)[LOST]
    assert "wanted: no host can take it: a: it has a replica of the set" in why


def test_hosts_that_are_not_known_are_the_reason() -> None:
    """
    The loss waits, and the next turn goes on.
    """
    one = Losing()
    one.cluster.kill("b")
    known = one.cluster.all_hosts

    def unknown() -> Mapping[str, object]:
        raise UnavailableError("the leading controller does not know all hosts yet")

    one.cluster.all_hosts = unknown  # type: ignore[assignment,method-assign]
    assert "does not know all hosts yet" in one.turn(LOST)[LOST]
    one.cluster.all_hosts = known  # type: ignore[method-assign]
    assert one.turn(LOST)[LOST].startswith("planned on d")
