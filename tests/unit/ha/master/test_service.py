"""
A master service over a real store, and real followers of it, over real sockets.
"""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path

import pytest
from lib.ha.master_bench import BITS
from lib.ha.master_fixture import EPOCH, WAIT_MS, MasterStage, Slave, data_of
from lib.ha.scripted_slave import RawSlave
from lib.store.stores import fill, message

from pystore.errors import InvalidError, StorageError
from pystore.ha.insync.ack import Ack, AckOutcome
from pystore.ha.master.insync_monitor import PACE_MS
from pystore.ha.wire.codes import CheckResult
from pystore.ha.wire.legacy import LegacyHandshake, encode_legacy
from pystore.ha.wire.proof import LinkGuard
from pystore.replicaset import Incarnation, ids_of
from pystore.store.commit_log import CommitLog


@pytest.fixture
def stage(tmp_path: Path) -> MasterStage:
    """A master with 2000 records of two epochs."""
    with CommitLog(tmp_path / "master", segment_size=1 << 16) as log:
        log.begin_epoch(1)
        fill(log, 1000)
    made = MasterStage(tmp_path / "master")
    fill(made.log, 1000, 1000)
    return made


@pytest.mark.parametrize("is_legacy", [False, True], ids=["v3", "legacy"])
def test_a_slave_catches_up_and_stays_so_while_others_append(
    stage: MasterStage, tmp_path: Path, is_legacy: bool
) -> None:
    """Byte for byte and epoch for epoch; every `all` is reached."""
    root = tmp_path / "slave"
    with stage, Slave(stage.service.address, root, is_legacy=is_legacy) as slave:
        stage.controller.wait_for({1, 2})
        for number in range(2000, 2300):
            end = stage.log.append(message(number)).end
            settled = stage.service.wait(Ack.ALL, end, WAIT_MS)
            assert settled.outcome is AckOutcome.REACHED
            assert settled.received_by == {1, 2}
            assert settled.is_legacy == is_legacy
        assert stage.log.confirm_offset == end
        assert slave.log.log().epochs.pairs() == stage.log.epochs.pairs()
        slave.stop()

    assert data_of(root) == data_of(tmp_path / "master")


def test_a_slave_that_was_away_goes_on_where_it_was(
    stage: MasterStage, tmp_path: Path
) -> None:
    """Its log is not sent again, and it comes back into the set."""
    root = tmp_path / "slave"
    with stage:
        with Slave(stage.service.address, root):
            stage.controller.wait_for({1, 2})
        stage.controller.wait_for({1})
        held = len(data_of(root))
        fill(stage.log, 50, 2000)
        with Slave(stage.service.address, root, incarnation=2) as slave:
            stage.controller.wait_for({1, 2})
            assert slave.status().appended_bytes == stage.log.end_offset - held

    assert data_of(root) == data_of(tmp_path / "master")


def test_a_member_that_leaves_holds_acks_until_the_set_shrank(
    stage: MasterStage, tmp_path: Path
) -> None:
    """RMQ-R213: and then the master is alone, and says so."""
    with stage:
        with Slave(stage.service.address, tmp_path / "slave"):
            stage.controller.wait_for({1, 2})
        stage.controller.wait_for({1})
        settled = stage.service.wait(Ack.ALL, stage.log.append(message(1)).end, WAIT_MS)

    assert settled.outcome is AckOutcome.REACHED
    assert settled.received_by == {1}


def test_two_slaves_get_the_same_log(stage: MasterStage, tmp_path: Path) -> None:
    """One of them late, one as a Java slave, while records are appended."""
    address = stage.service.address
    with stage, Slave(address, tmp_path / "two", 2):
        fill(stage.log, 500, 2000)
        with Slave(address, tmp_path / "three", 3, is_legacy=True):
            stage.controller.wait_for({1, 2, 3})
            fill(stage.log, 500, 2500)
            settled = stage.service.wait(Ack.ALL, stage.log.end_offset, WAIT_MS)

    assert settled.received_by == {1, 2, 3}
    expected = data_of(tmp_path / "master")
    assert data_of(tmp_path / "two") == expected
    assert data_of(tmp_path / "three") == expected


def test_a_window_of_appends_is_under_way_at_once(
    stage: MasterStage, tmp_path: Path
) -> None:
    """One by one or many in one, and each is acknowledged by itself."""
    with stage, Slave(stage.service.address, tmp_path / "slave"):
        stage.controller.wait_for({1, 2})
        service = stage.service
        futures = [service.submit(message(number), Ack.ALL) for number in range(100)]
        futures.append(service.submit(map(message, range(100, 150)), Ack.ALL))
        settled = service.wait_all(futures, WAIT_MS)
        appended, last = service.append(map(message, range(3)), Ack.ALL, WAIT_MS)

    assert [{1, 2}] * 101 == [one.received_by for one in settled]
    assert [one.appended.end for one in futures] == [one.end_offset for one in settled]
    assert all(one.is_reached for one in (*settled, last))
    assert (50, 3) == (futures[-1].appended.count, appended.count)


def test_a_learner_is_served_and_never_waited_for(
    stage: MasterStage, tmp_path: Path
) -> None:
    """RMQ-R203: it is never proposed for the set."""
    with stage, Slave(stage.service.address, tmp_path / "slave", is_learner=True):
        end = stage.log.append(message(1)).end
        settled = stage.service.wait(Ack.ALL, end, WAIT_MS)
        assert settled.outcome is AckOutcome.REACHED
        assert settled.received_by == {1}
        stage.wait_for_ack(end)
        stage.service.close(drain_ms=WAIT_MS)

    assert stage.controller.asked == []
    assert data_of(tmp_path / "slave") == data_of(tmp_path / "master")


def test_a_graceful_end_gives_slaves_the_rest(
    stage: MasterStage, tmp_path: Path
) -> None:
    """Everything is acknowledged before the links are closed."""
    with stage, Slave(stage.service.address, tmp_path / "slave"):
        stage.controller.wait_for({1, 2})
        fill(stage.log, 3000, 2000)
        stage.service.close(drain_ms=WAIT_MS)
        stage.service.close()

    assert data_of(tmp_path / "slave") == data_of(tmp_path / "master")
    assert any("the master shuts down" in line for line in stage.said)


def test_the_end_of_a_master_removes_no_slave_from_the_set(
    stage: MasterStage, tmp_path: Path
) -> None:
    """Its slaves hold all that it acknowledged: one of them is elected next."""
    with stage, Slave(stage.service.address, tmp_path / "slave"):
        stage.controller.wait_for({1, 2})
        monitor = stage.service.monitor
        close = monitor.close

        def close_after_links() -> None:
            stage.wait_for_links(0)
            monitor.rest(20 * PACE_MS)
            close()

        monitor.close = close_after_links  # type: ignore[method-assign]
        stage.service.close()

    assert {1, 2} == ids_of(stage.controller.agreed.members)


def test_the_newest_session_of_a_slave_wins(stage: MasterStage) -> None:
    """RMQ-R95: the older one is closed, and what it said last changes nothing."""
    with stage, RawSlave(stage).begin() as old, RawSlave(stage).begin() as new:
        assert old.is_closed()
        stage.wait_for_links(1)
        assert {link.session_id for link in stage.service.links()} == {new.session_id}
        assert stage.service.monitor.set_view().sessions.keys() == {2}


def test_an_older_process_does_not_replace_a_newer_one(stage: MasterStage) -> None:
    """RMQ-K.3: it is told that it is a duplicate."""
    with stage, RawSlave(stage, incarnation=7).begin():
        with RawSlave(stage, incarnation=6) as late:
            assert late.greet().result is CheckResult.DUPLICATE
        assert stage.service.monitor.set_view().sessions[2] == Incarnation(7, BITS)


def test_a_newer_epoch_that_a_slave_tells_is_told_and_ends_its_link(
    stage: MasterStage,
) -> None:
    """B16: the mastership goes on until the controller confirms the epoch."""
    newer: list[int] = []
    stage.service.close()
    with (
        MasterStage(stage.log.path.parent / "other", newer_epoch=newer.append) as other,
        RawSlave(other).begin() as slave,
    ):
        slave.ack(0, epoch=EPOCH + 1)
        assert slave.is_closed()
        end = other.log.append(message(1)).end

        assert other.service.wait(Ack.LEADER, end, WAIT_MS).is_reached
        assert newer == [EPOCH + 1]
    stage.log.close()


def test_more_links_than_allowed_are_turned_away(tmp_path: Path) -> None:
    """Those that are here go on; a place that gets free is given away."""
    with MasterStage(tmp_path, links_max=1) as stage:
        with RawSlave(stage).begin(), RawSlave(stage, broker_id=3) as late:
            assert late.greet().result is CheckResult.BUSY
        stage.wait_for_links(0)
        with RawSlave(stage) as again:
            assert again.greet().result is CheckResult.SUCCESS


def test_handshakes_of_strangers_take_no_place_of_a_slave(tmp_path: Path) -> None:
    """The oldest handshake ends for the next one, and no session ends."""
    with (
        MasterStage(tmp_path, handshakes_max=2) as stage,
        RawSlave(stage).begin(),
        stage.dial() as first,
        stage.dial() as second,
    ):
        stage.wait_for_links(3)
        with RawSlave(stage, broker_id=3) as late:
            assert first.recv(1) == b""
            late.begin()
            stage.wait_for_links(3)
        second.settimeout(0)
        with pytest.raises(BlockingIOError):
            second.recv(1)


@pytest.mark.parametrize("may_lack", [False, True])
def test_a_legacy_slave_is_taken_at_named_addresses_where_proofs_are_required(
    tmp_path: Path, *, may_lack: bool
) -> None:
    """B16: its frames have room neither for a proof nor for a refusal."""
    hosts: list[str] = []

    def named(host: str) -> bool:
        hosts.append(host)
        return may_lack

    guard = LinkGuard(is_required=True, may_lack=named)
    with MasterStage(tmp_path, guard=lambda: guard) as stage, stage.dial() as slave:
        slave.sendall(encode_legacy(LegacyHandshake(2)))
        assert may_lack == bool(slave.recv(1))
    assert set(hosts) == {"127.0.0.1"}
    assert may_lack != any("did not prove" in one for one in stage.said)


def test_a_segment_that_went_takes_the_slave_with_it(
    stage: MasterStage, tmp_path: Path
) -> None:
    """RMQ-R100: told so, wiped, and filled anew from the minimum on."""
    root = tmp_path / "slave"
    with stage:
        with Slave(stage.service.address, root) as slave:
            stage.controller.wait_for({1, 2})
        stage.controller.wait_for({1})
        fill(stage.log, 2000, 2000)
        assert stage.log.delete_before(stage.log.end_offset)
        with Slave(stage.service.address, root, incarnation=2):
            stage.controller.wait_for({1, 2})

    assert data_of(root) == data_of(tmp_path / "master")
    assert slave.said == []


def test_another_epoch_or_segment_size_is_refused(tmp_path: Path) -> None:
    """A mastership that the log has not begun would label bytes wrongly."""
    with pytest.raises(InvalidError, match="the mastership has epoch 9, and the log"):
        MasterStage(tmp_path / "one", {"epoch": 9})
    with pytest.raises(InvalidError, match="segments of 4096 bytes, and the log"):
        MasterStage(tmp_path / "two", {"segment_size": 4096})


def test_a_port_that_is_taken_is_named(stage: MasterStage, tmp_path: Path) -> None:
    """And nothing was begun."""
    host, port = stage.service.address
    with stage, pytest.raises(StorageError, match=f"cannot listen on {host}:{port}"):
        MasterStage(tmp_path / "other", port=port)


def test_threads_end_with_the_service(stage: MasterStage) -> None:
    """Whatever state their links are in."""
    with stage, RawSlave(stage).begin(), RawSlave(stage, broker_id=3), stage.dial():
        stage.service.close()

    names = [thread.name for thread in threading.enumerate()]
    assert [] == [name for name in names if name.startswith("pystore-ha")]


def test_a_closed_service_is_freed_with_its_last_reference(tmp_path: Path) -> None:
    """No knot that only the collector of garbage could untie holds the log."""
    gc.collect()
    gc.disable()
    try:
        with MasterStage(tmp_path) as stage, RawSlave(stage).begin():
            log = weakref.ref(stage.log)
        del stage
        assert log() is None
    finally:
        gc.enable()
