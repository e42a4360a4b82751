"""
``pystore broker`` with a table ``[recovery]``: the process is a candidate for the
Auditor, and a worker, beside its broker.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from lib.broker_process import BrokerProcess, node_text, until
from lib.command_line import run, run_json, segment_file
from lib.controller.controller_process import ControllerProcess
from lib.mended_set import SEGMENT, Traffic, damage, fill
from lib.remoting.zookeeper_server import ZookeeperServer, free_ports, missing

_NAMES = ("one", "two", "three")
_REPAIRED_S = 240  # worker and Auditor look for work every few seconds


@contextmanager
def a_set(
    folder: Path, recovery: str, records: Path
) -> Iterator[dict[str, BrokerProcess]]:
    """
    A controller and three brokers, of which the first, the master, repairs.
    """
    with ExitStack() as stack:
        controller = stack.enter_context(ControllerProcess("--store", records))
        brokers: dict[str, BrokerProcess] = {}
        for name in _NAMES:
            text = node_text(
                folder / name,
                controller.address,
                name=name,
                mappedFileSizeCommitLog=SEGMENT,
            )
            text += recovery if name == "one" else ""
            broker = BrokerProcess.of(folder, name, text)
            brokers[name] = stack.enter_context(broker)
            brokers["one"].await_role("master")
        until(lambda: len(brokers["one"].status()["syncStateSet"]) == 3)
        fill(brokers["one"], 8)
        for name in _NAMES:
            seals = folder / name / "meta/seals"
            until(lambda: len(list(seals.iterdir())) >= 7)  # noqa: B023
        yield brokers


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_broker_that_repairs_serves_on_without_its_record_store(
    tmp_path: Path,
) -> None:
    """
    A rotten bit of one slave and a missing file of another are found and repaired by
    the process of the master. Then the record store is killed, which stops the repairs
    alone. The controller has a record store of its own here, so that nothing but the
    recovery loses one.
    """
    zookeeper = ZookeeperServer(tmp_path / "zookeeper", free_ports(1)[0])
    try:
        zookeeper.await_mode()
        text = f'[recovery]\nrecords = "{zookeeper.hosts}"\nslots = 3\n'
        with a_set(tmp_path, text, tmp_path / "records") as brokers:
            master = brokers["one"]
            assert "recovery runs as" in master.said
            until(lambda: "is the Auditor" in master.said)
            with Traffic(master, brokers["two"]) as traffic:
                rotten = segment_file(tmp_path / "two", 2 * SEGMENT)
                whole = rotten.read_bytes()
                damage(tmp_path / "two", 2 * SEGMENT, "payload bit")
                assert whole != rotten.read_bytes()
                damage(tmp_path / "three", 2 * SEGMENT, "missing")
                words = ("recovery", "kick", "--records", zookeeper.hosts)
                assert 0 == run(*words).exit_code
                gone = segment_file(tmp_path / "three", 2 * SEGMENT)
                until(lambda: gone.exists() and whole == gone.read_bytes(), _REPAIRED_S)
                until(lambda: whole == rotten.read_bytes(), _REPAIRED_S)
                words = ("recovery", "list", "--records", zookeeper.hosts)
                until(lambda: [] == run_json(*words)["segments"])

                zookeeper.kill()
                before = traffic.acknowledged
                until(lambda: traffic.acknowledged > before + 300)
                assert "master" == master.status()["role"]
            assert [] == traffic.errors
            for broker in brokers.values():
                assert 0 == broker.stop()
        for name in _NAMES:
            (found,) = run_json("verify", tmp_path / name)["stores"]
            assert ("whole", 0) == (found["verdict"], found["missingEntries"]), found
    finally:
        zookeeper.kill()


def test_a_broker_serves_before_there_is_a_record_store(tmp_path: Path) -> None:
    """It says so once, and repairs as soon as there is one."""
    records = tmp_path / "late"
    text = f'[recovery]\nrecords = "{records}"\n'
    with a_set(tmp_path, text, tmp_path / "records") as brokers:
        master = brokers["one"]
        until(lambda: f"{records}: there is no record store" in master.said)
        assert not records.exists()
        with ControllerProcess("--store", records):
            until(lambda: "is the Auditor" in master.said)
            damage(tmp_path / "two", 2 * SEGMENT, "missing")
            assert 0 == run("recovery", "kick", "--records", records).exit_code
            until(segment_file(tmp_path / "two", 2 * SEGMENT).exists, _REPAIRED_S)
        assert 0 == master.stop(signal.SIGTERM)
