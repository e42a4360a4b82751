"""
A replica of pystore follows a running Java master through kills and epochs.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from interop.broker_set import SEGMENT, BrokerSet, running
from lib.command_line import PYSTORE, run_json

from pystore.core.log_reader import LogReader
from pystore.fs.layout import EPOCH_FILE

PATIENCE_S = 180


@pytest.fixture
def brokers(compiled_tool: None, tmp_path: Path) -> Iterator[BrokerSet]:  # noqa: ARG001
    """
    A name server, a controller and a master.
    """
    with running(tmp_path / "java") as found:
        yield found


@contextmanager
def following(root: Path, brokers: BrokerSet) -> Iterator[subprocess.Popen[bytes]]:
    """
    Runs a learner of the master; kills it at the end if it still runs.
    """
    command = [*PYSTORE, "replica", str(root), "--master", brokers.ha_address]
    wishes = ["--protocol", "legacy", "--learner", "--segment-size", str(SEGMENT)]
    with subprocess.Popen(
        [*command, *wishes, "--json"], stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(process: subprocess.Popen[bytes], end: int) -> dict[str, Any]:
    """
    Reads reports until the replica has all bytes below an offset.
    """
    deadline = time.monotonic() + PATIENCE_S
    assert process.stdout is not None
    for line in process.stdout:
        report: dict[str, Any] = json.loads(line)
        if report["endOffset"] >= end and report["state"] == "TRANSFER":
            return report
        assert time.monotonic() < deadline, report
    raise AssertionError(f"the replica ended with {process.wait()}")


def master_log(brokers: BrokerSet) -> bytes:
    """
    Returns the bytes of the master's log files up to its end.
    """
    with LogReader(brokers.store) as log:
        end = log.scan(log.ends().min_offset).finish().offset
    files = sorted((brokers.store / "commitlog").iterdir())
    return b"".join(path.read_bytes() for path in files)[:end]


def test_a_replica_equals_its_java_master_through_kills_and_epochs(
    brokers: BrokerSet, tmp_path: Path
) -> None:
    """
    The replica is killed while messages arrive; its master is killed and restarts with
    a new epoch. Segments, epoch file and queues are those of the master.
    """
    root = tmp_path / "copy"
    producer = brokers.produce(3000)
    for least in (1, SEGMENT):
        with following(root, brokers) as replica:
            wait_until(replica, least)
            replica.kill()
    assert 0 == producer.wait(PATIENCE_S)
    before = (brokers.store / EPOCH_FILE).read_bytes()
    with following(root, brokers) as replica:
        wait_until(replica, len(master_log(brokers)))
        brokers.kill_master()
        brokers.restart_master()
        assert 0 == brokers.produce(2000, first=3000).wait(PATIENCE_S)
        expected = master_log(brokers)
        report = wait_until(replica, len(expected))
        replica.terminate()
        assert 0 == replica.wait(PATIENCE_S)

    epochs = (brokers.store / EPOCH_FILE).read_bytes()
    assert before != epochs == (root / EPOCH_FILE).read_bytes()
    assert report["epoch"] > 1
    segments = sorted((root / "commitlog").iterdir())
    assert (len(expected) - 1) // SEGMENT + 1 == len(segments)
    for segment in segments:
        theirs = brokers.store / "commitlog" / segment.name
        assert theirs.read_bytes() == segment.read_bytes(), segment.name
    (verified,) = run_json("verify", root)["stores"]
    assert "whole" == verified["verdict"]
    # Messages that the producer repeated after a timeout may be stored twice.
    assert verified["records"] >= 5000
