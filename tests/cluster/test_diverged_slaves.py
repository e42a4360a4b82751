"""
Slaves whose log differs from their master's: what is cut, also with kills meanwhile.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from cluster.replica_process import ReplicaProcess
from lib.ha.master_fixture import EPOCH, WAIT_MS, MasterStage, data_of
from lib.store.stores import SEGMENT, fill, message

from pystore.ha.insync.ack import Ack, AckOutcome
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.store.commit_log import CommitLog
from pystore.verify import verify_store

KILLED = """
import os, signal
from pystore.cli import main
from pystore.core.log_writer import LogHandle

def die(log, *_):
    os.kill(os.getpid(), signal.SIGKILL)

LogHandle.{step} = die
main()
"""
"""The command, killed in the middle of a cut."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A slave's store that goes on in another way than the new master's, which was cut
    back behind its back and began an epoch of its own. Where both are.
    """
    folder = tmp_path_factory.mktemp("made")
    old, new, root = folder / "old", folder / "new", folder / "slave"
    with MasterStage(old) as stage:
        offsets = fill(stage.log, 500)
        stage.log.sync()
        shutil.copytree(old, new)
        fill(stage.log, 1_500, 500)
        with ReplicaProcess(stage.service.address, root) as slave:
            stage.wait_for_ack(stage.log.end_offset)
            assert 130 == slave.stop()
    with CommitLog(new, segment_size=SEGMENT) as log:
        log.cut(offsets[400])
        log.begin_epoch(EPOCH + 1)
        for number in range(1_000):
            log.append(message(number, "Other", 120))
    return folder


@pytest.fixture
def stores(made: Path, tmp_path: Path) -> tuple[Path, Path]:
    """
    Those of the new master and of the slave.
    """
    new, root = tmp_path / "new", tmp_path / "slave"
    shutil.copytree(made / "new", new)
    shutil.copytree(made / "slave", root)
    return new, root


def check_follows(new: Path, root: Path) -> None:
    """
    The next start ends what was begun, and makes the log the master's.
    """
    with MasterStage(new, {"epoch": EPOCH + 1}) as stage:
        with ReplicaProcess(stage.service.address, root) as slave:
            stage.controller.wait_for({1, 2})
            stage.wait_for_ack(stage.log.end_offset)
            assert 130 == slave.stop()
        assert data_of(new) == data_of(root)
        assert stage.log.epochs.pairs() == epochs_of(root)
    assert "whole" == verify_store(root).verdict


def epochs_of(root: Path) -> list[tuple[int, int]]:
    """
    Of a replica without a writer.
    """
    with ReplicaLog(root, segment_size=SEGMENT) as log:
        return log.log().epochs.pairs()


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("cut_publish", marks=pytest.mark.slow),
        "cut_apply",
        pytest.param("cut_end", marks=pytest.mark.slow),
    ],
)
def test_a_slave_that_is_killed_in_the_middle_of_its_cut_ends_it(
    stores: tuple[Path, Path], step: str
) -> None:
    """
    SIGKILL between the intent and the end of a cut: neither the old bytes nor half of
    them are ever taken for records, and the master is told only what is true.
    """
    new, root = stores
    with MasterStage(new, {"epoch": EPOCH + 1}) as stage:
        script = KILLED.format(step=step)
        dying = ReplicaProcess(stage.service.address, root, script=script)
        assert -signal.SIGKILL == dying.wait()
        stage.wait_for_links(0)
        assert [] == stage.controller.asked

    check_follows(new, root)


@pytest.mark.slow
def test_a_slave_ahead_of_a_master_that_was_cut_back_cuts_and_goes_on(
    stores: tuple[Path, Path],
) -> None:
    """
    A higher epoch decides: an election chose that log.
    """
    check_follows(*stores)


def test_a_slave_ahead_of_a_master_of_its_own_epoch_keeps_what_was_confirmed(
    tmp_path: Path,
) -> None:
    """
    A master that lost bytes and goes on as if nothing were: its slave has them, says
    so, and cuts nothing.
    """
    old, new, root = tmp_path / "old", tmp_path / "new", tmp_path / "slave"
    with MasterStage(old) as stage:
        fill(stage.log, 100)
        with ReplicaProcess(stage.service.address, root) as slave:
            stage.controller.wait_for({1, 2})
            stage.log.sync()
            shutil.copytree(old, new)
            fill(stage.log, 200, 100)
            stage.wait_for_ack(stage.log.end_offset)
            # The next frame tells the slave what is confirmed by its ack.
            end = stage.log.append(message(300)).end
            assert AckOutcome.REACHED is stage.service.wait(Ack.ALL, end).outcome
            assert 130 == slave.stop()
    held = data_of(root)
    with ReplicaLog(root, segment_size=SEGMENT) as replica:
        confirmed = replica.log().confirm_offset
    with MasterStage(new) as stage:
        fill(stage.log, 50, 1_000)
        with ReplicaProcess(stage.service.address, root) as slave:
            line = slave.wait_for("the one with the longer log")

    assert f"confirmed up to offset {confirmed} in epoch {EPOCH}" in line
    assert confirmed > len(data_of(old)) // 2
    assert held == data_of(root)


def test_five_thousand_epochs_and_those_without_bytes_arrive(tmp_path: Path) -> None:
    """
    Tables are told and compared whole; the last epochs come with their bytes. One that
    began without a byte is replaced by the next one, and no log has it (RMQ-R137).
    """
    path, root, last = tmp_path / "master", tmp_path / "slave", 5_000
    with CommitLog(path, segment_size=SEGMENT) as log:
        starts = fill(log, last)
        table = log.epochs
        for epoch, start in enumerate(starts, 1):
            table = table.append(epoch, start)
        with log.writer.metastore.change() as change:
            change.replace_epochs(table)
    shutil.copytree(path, root)
    with CommitLog(root, segment_size=SEGMENT) as log:
        log.cut(starts[-20])
    with CommitLog(path, segment_size=SEGMENT) as log:
        for epoch in (last + 1, last + 2):
            log.begin_epoch(epoch)
    with MasterStage(path, {"epoch": last + 2}) as stage:
        with ReplicaProcess(stage.service.address, root) as slave:
            stage.controller.wait_for({1, 2})
            end = stage.log.append(message(1)).end
            assert (
                AckOutcome.REACHED is stage.service.wait(Ack.ALL, end, WAIT_MS).outcome
            )
            assert 130 == slave.stop()
        expected = stage.log.epochs.pairs()
    assert expected == epochs_of(root)

    assert last + 1 == len(expected)
    assert last + 1 not in dict(expected)
    assert data_of(path) == data_of(root)
