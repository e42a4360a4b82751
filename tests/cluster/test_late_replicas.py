"""
Replicas that begin late, as processes: never elected before they are whole, and queues
that go on at their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lib.broker_process import until
from lib.controller.controller_process import ControllerProcess
from lib.late_set import (
    LateSet,
    check_records,
    late_set,
    tell_of_a_late_replica,
    tell_of_a_replacement,
)
from lib.mended_set import Traffic, fill, mended
from lib.store.segment_files import restart_machine

from pystore.errors import PystoreError


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[LateSet]:
    """
    A set without brokers, and its controller.
    """
    words = ("--store", tmp_path / "records")
    with (
        ControllerProcess(*words) as controller,
        late_set(tmp_path, controller.address) as made,
    ):
        yield made


def test_a_replica_that_begins_late_counts_and_is_not_elected_before_it_is_whole(
    brokers: LateSet,
) -> None:
    """
    The set waits for its master instead; afterwards it takes over.
    """
    tell_of_a_late_replica(brokers, counts=True)


def test_a_member_that_lost_power_and_no_record_leads_beside_a_filling_one(
    brokers: LateSet,
) -> None:
    """
    Nobody knows what its machine lost. The log of the filling replica proves that it is
    nothing that was acknowledged, so no operator has to decide.
    """
    master = brokers.start("one")
    master.await_role("master")
    filled = fill(master, 4)
    late = brokers.start("two", syncFromLastFile="true")
    until(lambda: brokers.members() == {1, 2})
    with Traffic(master, late, filled - 1) as traffic:
        until(lambda: traffic.errors or traffic.acknowledged > 100)
    epoch = brokers.told().master_epoch
    master.kill()
    restart_machine(brokers.folder / "one")
    until(lambda: brokers.told().master is None)
    master.restart()
    assert epoch + 1 < master.await_role("master")["masterEpoch"]
    assert late.status()["isFilling"]
    until(lambda: brokers.members() == {1, 2})
    acknowledged = {number: number for number in range(filled)}
    check_records(master, acknowledged | traffic.numbers)
    with Traffic(master, late, filled - 1, 2_000_000) as more:
        until(lambda: more.errors or more.acknowledged > 100)
    assert [] == more.errors


def test_a_quiet_queue_goes_on_after_retention_a_replacement_and_a_failover(
    brokers: LateSet,
) -> None:
    """
    On every replica, and consumers see every acknowledged record.
    """
    tell_of_a_replacement(brokers)


def test_a_set_that_lost_two_of_three_writes_while_the_next_one_is_filled(
    brokers: LateSet,
) -> None:
    """
    The acks of the filling replica count: without them no append would reach `all`
    until all of its history is there.
    """
    least = {"minInSyncReplicas": 2}
    master = brokers.start("one", **least)
    master.await_role("master")
    lost = [brokers.start(name, **least) for name in ("two", "three")]
    until(lambda: brokers.members() == {1, 2, 3})
    filled = fill(master, 6)
    for one in lost:
        one.kill()
    until(lambda: brokers.members() == {1})
    with master.client() as client, pytest.raises(PystoreError, match="2"):
        client.append("t", [b"x"])
    late = brokers.start("four", syncFromLastFile="true", **least)
    until(lambda: brokers.members() == {1, 4})
    with Traffic(master, late, filled - 1) as traffic:
        until(lambda: traffic.errors or traffic.acknowledged > 100)
        assert late.status()["isFilling"]
        done = mended(brokers.folder / "four", brokers.folder / "one")
        assert {"fill"} == {one["action"] for one in done["steps"]}
    assert [] == traffic.errors
    until(lambda: not late.status()["isFilling"])
