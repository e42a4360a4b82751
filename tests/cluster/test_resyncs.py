"""
Slaves below a master's minimum offset: which are filled again, from where.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.proxy import Proxy
from cluster.replica_process import ReplicaProcess
from lib.ha.master_fixture import WAIT_MS, MasterStage, data_of
from lib.store.stores import SEGMENT, fill, message

from pystore.ha.insync.ack import Ack, AckOutcome
from pystore.replicaset import AgreedSet, Incarnation, Member
from pystore.store.commit_log import CommitLog
from pystore.verify import verify_store

BEFORE, AFTER = 300, 2_500
"""Records that the slave holds, and that come while it is away."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A slave followed for a while; then its master's log grew, and the segments that
    the slave holds were deleted. Where both stores are.
    """
    folder = tmp_path_factory.mktemp("made")
    with MasterStage(folder / "master") as stage:
        fill(stage.log, BEFORE)
        with ReplicaProcess(stage.service.address, folder / "slave"):
            stage.controller.wait_for({1, 2})
            stage.wait_for_ack(stage.log.end_offset)
        fill(stage.log, AFTER)
        stage.log.sync()
        assert 0 < stage.log.delete_before(3 * SEGMENT)
    return folder


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """
    The slave's store.
    """
    return Path(shutil.copytree(made / "slave", tmp_path / "slave"))


@pytest.fixture
def outgrown(made: Path, tmp_path: Path) -> Path:
    """
    The master's store.
    """
    return Path(shutil.copytree(made / "master", tmp_path / "master"))


@pytest.fixture
def stage(outgrown: Path) -> Iterator[MasterStage]:
    """
    The master again: the slave is not in the set.
    """
    with MasterStage(outgrown) as made:
        yield made


def ends_of(root: Path) -> tuple[int, int]:
    """
    Where a store's log begins and ends.
    """
    with CommitLog(root, mode="r") as log:
        return log.min_offset, log.end_offset


def check_caught_up(stage: MasterStage, slave: ReplicaProcess, root: Path) -> None:
    """
    The slave acks what is appended now, ends well, and its store is whole; what it
    holds is what the master holds.
    """
    stage.controller.wait_for({1, 2})
    end = stage.log.append(message(1)).end
    settled = stage.service.wait(Ack.ALL_SYNCED, end, WAIT_MS)
    assert AckOutcome.REACHED is settled.outcome
    assert {1, 2} == settled.flushed_by
    assert 130 == slave.stop()
    first, last = ends_of(root)
    assert last == end
    assert "whole" == verify_store(root).verdict
    assert data_of(stage.log.path)[first - stage.log.min_offset :] == data_of(root)


def test_a_slave_below_the_minimum_is_told_the_range_and_stays_as_it_is(
    stage: MasterStage, root: Path
) -> None:
    """
    Nothing is wiped by itself. Both operators read what either log holds.
    """
    before, held = ends_of(root), data_of(root)
    with ReplicaProcess(stage.service.address, root) as slave:
        line = slave.wait_for("resync needed")
        stage.wait_for_links(0)

    low, high = stage.log.min_offset, stage.log.end_offset
    assert f"up to offset {before[1]}, and holds offsets {low} to {high}" in line
    assert f"log holds offsets 0 to {before[1]}" in line
    assert any(
        f"the master's log holds offsets {low} to {high}" in said for said in stage.said
    )
    assert (before, held) == (ends_of(root), data_of(root))
    assert [] == stage.controller.asked


def test_a_slave_that_is_no_member_begins_anew_at_the_minimum(
    stage: MasterStage, root: Path
) -> None:
    """
    If its operator said that it may; it is in sync again without a hand.
    """
    with ReplicaProcess(stage.service.address, root, 2, "b", "--may-wipe") as slave:
        check_caught_up(stage, slave, root)

    assert stage.log.min_offset == ends_of(root)[0] > 0


def test_a_member_below_the_minimum_is_never_wiped(outgrown: Path, root: Path) -> None:
    """
    Not even if it may: what it held may have been counted. One line says what it ends
    at, what the master holds, and that it has to leave the set first.
    """
    before, held = ends_of(root), data_of(root)
    listed = AgreedSet(frozenset({Member(1), Member(2, Incarnation(1, bytes(16)))}), 1)
    with MasterStage(outgrown, agreed=listed, ask=lambda _: None) as stage:
        with ReplicaProcess(stage.service.address, root, 2, "b", "--may-wipe") as slave:
            line = slave.wait_for("resync needed")
            stage.wait_for_links(0)
        low, high = stage.log.min_offset, stage.log.end_offset

    told = (
        f"the slave's log ends at offset {before[1]}, the master's log holds offsets "
        f"{low} to {high}; the slave is in the set"
    )
    assert told in line
    assert any(told in said for said in stage.said)
    assert (before, held) == (ends_of(root), data_of(root))


def test_a_member_that_comes_back_empty_is_not_filled(
    outgrown: Path, tmp_path: Path
) -> None:
    """
    A new disk under an old number: the same refusal, from the other side.
    """
    listed = AgreedSet(frozenset({Member(1), Member(2, Incarnation(1, bytes(16)))}), 1)
    with MasterStage(outgrown, agreed=listed, ask=lambda _: None) as stage:
        # What the slave of the set once acked is confirmed again.
        stage.log.writer.log.confirm(stage.log.end_offset)
        with ReplicaProcess(stage.service.address, tmp_path / "new") as slave:
            line = slave.wait_for("REJECTED")
    assert "the controller lists the slave in the set, and its log is empty" in line
    assert (0, 0) == ends_of(tmp_path / "new")


@pytest.mark.slow
def test_a_new_slave_begins_at_the_minimum(stage: MasterStage, tmp_path: Path) -> None:
    """
    Not at 0, where the master holds nothing.
    """
    with ReplicaProcess(stage.service.address, tmp_path / "new") as slave:
        check_caught_up(stage, slave, tmp_path / "new")

    assert stage.log.min_offset == ends_of(tmp_path / "new")[0] > 0


@pytest.mark.slow
def test_a_new_slave_may_begin_with_the_last_file(
    outgrown: Path, tmp_path: Path
) -> None:
    """
    If it asks for that; it counts all the same under a controller that grants leases,
    since that one does not elect it (B11).
    """
    with (
        MasterStage(outgrown, lease_ms=lambda: 2**62) as stage,
        ReplicaProcess(
            stage.service.address, tmp_path / "new", 2, "b", "--sync-from-last-file"
        ) as slave,
    ):
        check_caught_up(stage, slave, tmp_path / "new")
        first, last = ends_of(tmp_path / "new")
        assert (last - 1) // SEGMENT * SEGMENT == first > stage.log.min_offset


def test_a_late_replica_behind_a_legacy_link_is_no_member_and_a_whole_one_is(
    tmp_path: Path,
) -> None:
    """
    No controller hears on such a link where a log begins, so it would elect the late
    one (B11): also when its store begins late from an earlier link.
    """
    late, wishes = tmp_path / "late", ("--protocol", "legacy")
    with MasterStage(tmp_path / "master", lease_ms=lambda: 2**62) as stage:
        fill(stage.log, BEFORE)
        at = stage.service.address
        last = "--sync-from-last-file"
        with ReplicaProcess(at, late, 2, "b", *wishes, last):
            stage.wait_for_ack(stage.log.end_offset)
        assert ends_of(late)[0] > stage.log.min_offset
        fill(stage.log, 100)
        with ReplicaProcess(at, late, 2, "b", *wishes):
            stage.wait_for_ack(stage.log.end_offset)
            with ReplicaProcess(at, tmp_path / "whole", 3, "b", *wishes):
                stage.controller.wait_for({1, 3})
                end = stage.log.append(message(1)).end
                settled = stage.service.wait(Ack.ALL, end, WAIT_MS)
                assert {1, 3} == settled.received_by
        asked = {one.broker_id for it in stage.controller.asked for one in it.members}

    assert {1, 3} == asked


@pytest.mark.slow
def test_a_learner_begins_anew_and_is_never_waited_for(
    stage: MasterStage, root: Path
) -> None:
    """
    It gets everything from the minimum on, and no change of the set is asked for.
    """
    wishes = ("--learner", "--may-wipe")
    with ReplicaProcess(stage.service.address, root, 2, "b", *wishes) as slave:
        stage.wait_for_ack(stage.log.end_offset)
        assert 130 == slave.stop()

    assert data_of(stage.log.path) == data_of(root)
    assert stage.log.min_offset == ends_of(root)[0] > 0
    assert [] == stage.controller.asked


def test_a_slave_that_is_overtaken_while_it_follows_is_told(
    outgrown: Path, tmp_path: Path
) -> None:
    """
    Retention does not wait for a slow slave: it hears what it needs and what there is.
    """
    with (
        MasterStage(outgrown, bytes_per_second=100_000) as stage,
        Proxy(stage.service.address) as proxy,
        ReplicaProcess(proxy.address, tmp_path / "new") as slave,
    ):
        assert proxy.wait_for_bytes(50_000, WAIT_MS / 1000)
        stage.log.delete_before(stage.log.end_offset - SEGMENT)
        stage.service.monitor.notifier.notify()
        line = slave.wait_for("resync needed")
        high = stage.log.end_offset
    assert re.search(rf"holds offsets [1-9]\d* to {high}", line)
