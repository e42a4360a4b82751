"""
The brake, as a value.
"""

from __future__ import annotations

from lib.autorecovery.audits import a_replica

from pystore.autorecovery.mark_brake import BRAKE_LEAST, MarkBrake


def a_brake(segments: int, *, is_forced: bool = False) -> MarkBrake:
    """Two replicas with so many segments each were looked at."""
    brake = MarkBrake()
    brake.begin(is_forced=is_forced)
    brake.looked_at(a_replica(1), segments)
    brake.looked_at(a_replica(2), segments)
    brake.looked_at(a_replica(2), segments)
    return brake


def test_a_share_of_the_segments_of_a_replica_is_admitted() -> None:
    """And not one more; the check is over then."""
    brake = a_brake(1000)
    assert brake.admits(a_replica(1), 50, 5)
    assert not brake.admits(a_replica(2), 51, 5)
    assert "51 of 1000 segments (cluster/set/2)" in brake.tripped
    assert not brake.admits(a_replica(1), 1, 5)
    assert brake.admits(a_replica(1), 0, 5)
    brake.begin(is_forced=False)

    assert "" == brake.tripped


def test_many_replicas_with_some_damage_each_stop_a_check_together() -> None:
    """The share of all that was looked at."""
    brake = a_brake(1000)
    assert [True, True, False] == [
        brake.admits(a_replica(number), 45, 5) for number in (1, 2, 1)
    ]
    assert "135 of 2000 segments (all)" in brake.tripped


def test_a_few_marks_never_stop_a_check() -> None:
    """A small store with a bad disk is no mass damage."""
    brake = a_brake(20)

    assert brake.admits(a_replica(1), BRAKE_LEAST, 5)
    assert not brake.admits(a_replica(2), 1, 0)


def test_an_operator_can_force_a_check() -> None:
    """Nothing stops it."""
    brake = a_brake(20, is_forced=True)

    assert brake.admits(a_replica(1), 20, 5)
    assert (20, "") == (brake.marks, brake.tripped)
