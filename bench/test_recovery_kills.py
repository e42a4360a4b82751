"""
From SIGKILL of the Auditor, or of a worker, to the next step of another process, over
LMDB and over ZooKeeper.

The Auditors are `pystore recovery daemon` as they ship. The killed worker is a process
that holds a segment; the other one takes it.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from contest import Figure
from lib.autorecovery.marks import new_marks
from lib.controller.controller_process import ControllerProcess
from lib.recovery_process import RecoveryProcess
from lib.remoting.zookeeper_server import ZookeeperServer, free_ports, missing
from recovery_claim_child import opened
from table import Table

from pystore.autorecovery.idle_wait import IdleWait
from pystore.autorecovery.queue import UnderReplicationQueue

ROUNDS = 5
LOOK_S = 0.005
PATIENCE_S = 150
SESSION_S = 10.0  # of ZooKeeper, as the processes ask for it
_CHILD = Path(__file__).with_name("recovery_claim_child.py")


@pytest.fixture(params=["LMDB", "ZooKeeper"])
def records(
    request: pytest.FixtureRequest, folder: Callable[[], Path]
) -> Iterator[tuple[str, Path, float]]:
    """
    Where the record store is, a folder, and after how many seconds the store lets go
    what a killed process held.
    """
    where = folder()
    if request.param == "LMDB":
        yield str(where / "records"), where, 0.0
        return
    if reason := missing():
        pytest.skip(reason)
    server = ZookeeperServer(where / "zookeeper", free_ports(1)[0])
    try:
        server.await_mode()
        yield server.hosts, where, SESSION_S
    finally:
        server.kill()


def _seconds(is_there: Callable[[], bool]) -> float:
    """
    Waits until something is so, and returns how long that took.
    """
    begun_s = time.monotonic()
    while not is_there():
        assert time.monotonic() < begun_s + PATIENCE_S
        time.sleep(LOOK_S)
    return time.monotonic() - begun_s


def _auditors(place: str, folder: Path, rounds: int) -> Iterator[float]:
    kind = ("--store", place) if "/" in place else ("--zookeeper", place)
    with ControllerProcess(*kind) as controller:

        def started(number: int) -> RecoveryProcess:
            said = folder / f"{number}.log"
            more = ("--slots", "0")
            return RecoveryProcess(
                controller.address, "--records", place, said=said, more=more
            )

        first = started(0)
        _seconds(lambda: "is the Auditor" in first.said)
        for number in range(1, rounds + 1):
            other = started(number)
            time.sleep(2)  # it is a candidate, in its rhythm
            first.kill()
            yield _seconds(lambda: "is the Auditor" in other.said)  # noqa: B023
            first = other
        first.kill()


def _workers(place: str, rounds: int) -> Iterator[float]:
    store = opened(place)
    queue = UnderReplicationQueue(store, lambda: int(time.time() * 1000))
    queue.mark_many(new_marks(1), by="auditor")
    slot = queue.slot("other/0", lambda: 0.0)
    idle = IdleWait(
        lambda: queue.glance(slot),
        random.random,
        time.sleep,
        is_local=store.reads_locally,
    )
    for _ in range(rounds):
        child = subprocess.Popen(
            [sys.executable, _CHILD, place], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline().strip()
        assert queue.take(slot) is None
        time.sleep(random.random())  # it is idle, in its rhythm
        child.kill()
        child.wait()
        child.stdout.close()
        taken = []

        def takes() -> bool:
            claim = queue.take(slot)
            if claim is None:
                idle.wait()
            taken.extend([claim] if claim is not None else [])  # noqa: B023
            return bool(taken)  # noqa: B023

        yield _seconds(takes)
        queue.release(taken[0])
    store.close()


@pytest.mark.benchmark(group="recovery kills")
def test_another_process_goes_on_soon_after_a_sigkill(
    records: tuple[str, Path, float],
    is_smoke: bool,
    table: Table,
) -> None:
    """
    The Auditor, then a worker; the limit is the session time-out and a second.
    """
    place, folder, session_s = records
    kind = "ZooKeeper" if session_s else "LMDB"
    rounds = 1 if is_smoke else ROUNDS
    found = {
        "Auditor": tuple(_auditors(place, folder, rounds)),
        "worker": tuple(_workers(place, rounds)),
    }
    for who, times_s in found.items():
        told = {"worst": f"{max(times_s):.2f} s"}
        what = f"SIGKILL of the {who} to the next step, {kind}"
        table.at_most(what, session_s + 1, Figure(times_s), "s", told)
