"""
How soon a bad block of a live master is good again after it was marked, while a writer
appends and a reader reads all the time.

A controller, three brokers and the recovery daemon are processes as they ship. One bit
rots in a record of a sealed segment of the master; its mark is that of a verification.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from child import Child
from contest import Figure
from lib.broker_process import BrokerProcess, node_text, until
from lib.command_line import segment_file
from lib.controller.controller_process import ControllerProcess
from lib.recovery_process import RecoveryProcess
from machine import load
from recovery_traffic_child import BODY, TOPIC
from recovery_waits import await_knowing
from table import Table

from pystore.autorecovery.mark import Missing, Priority, Reason
from pystore.autorecovery.queue import UnderReplicationQueue
from pystore.autorecovery.segment_key import SegmentKey
from pystore.clocks import wall_ms
from pystore.records.lmdb_store import LmdbStore
from pystore.seals import BLOCK_BYTES

ROUNDS = 15
RATE = 50_000_000
LIMIT_S = 1
LOOK_S = 0.002
PATIENCE_S = 120
_MIB = 1 << 20
_NAMES = ("one", "two", "three")


@dataclass(frozen=True)
class _Times:
    """
    Of one block, in seconds from the commit of its mark.

    Attributes:
        taken: a worker had it.
        good: the bytes in the file were right.
        over: its mark was gone, too: the worker had seen the digest of what is on disk.
    """

    taken: float
    good: float
    over: float


class _MarkedSet:
    """
    Three brokers that serve, whose full segments are sealed, and the daemon.

    Args:
        folder: of all of them.
        segment: bytes of a segment.
        stack: ends the processes.

    Attributes:
        master: the broker.
    """

    def __init__(self, folder: Path, segment: int, stack: ExitStack) -> None:
        self._folder, self._segment = folder, segment
        records = folder / "records"
        words = ("--store", records)
        controller = stack.enter_context(ControllerProcess(*words)).address
        self._brokers = {}
        for name in _NAMES:
            text = node_text(
                folder / name, controller, name=name, mappedFileSizeCommitLog=segment
            )
            broker = stack.enter_context(BrokerProcess.of(folder, name, text))
            self._brokers[name] = broker
            self._brokers["one"].await_role("master")
        self.master = self._brokers["one"]
        until(lambda: len(self.master.status()["syncStateSet"]) == len(_NAMES))
        store = stack.enter_context(closing(LmdbStore(records)))
        self._queue = UnderReplicationQueue(store, wall_ms)
        daemon = RecoveryProcess(
            controller, "--records", records, said=folder / "recovery.log"
        )
        self._daemon = stack.enter_context(daemon)
        self._controller = controller

    def await_seals(self, count: int) -> None:
        """
        Waits until so many segments are sealed everywhere, and both the daemon and the
        controller are ready.
        """
        for name in _NAMES:
            seals = self._folder / name / "meta/seals"
            until(lambda: len(list(seals.iterdir())) >= count, PATIENCE_S)  # noqa: B023
        until(lambda: "is the Auditor" in self._daemon.said, PATIENCE_S)
        await_knowing(self._controller, "DefaultCluster", "b")

    def place_of(self, number: int) -> int:
        """
        Returns the offset of a byte within the body of a record.
        """
        with self.master.client() as client:
            found = client.read(topic=TOPIC, queueOffset=number, bodies=False)
        (first, *_) = found["records"]
        return int(first["offset"]) + BODY // 2

    def repaired(self, at: int) -> _Times:
        """
        Flips a bit at an offset of the master's log, marks it, and waits.
        """
        base = at - at % self._segment
        block = (at - base) // BLOCK_BYTES
        key = SegmentKey("DefaultCluster", "b", base)
        file = os.open(segment_file(self._folder / "one", base), os.O_RDWR)
        try:
            start = block * BLOCK_BYTES
            before = os.pread(file, BLOCK_BYTES, start)
            os.pwrite(file, bytes([before[at - base - start] ^ 4]), at - base)
            os.fdatasync(file)
            fact = Missing(Reason.CORRUPT, "1 of its blocks is bad", blocks=(block,))
            missing = {self.master.status()["brokerId"]: fact}
            self._queue.mark(key, missing, Priority.FEWER_THAN_ACKS, by="verification")
            began_s = time.monotonic()
            self._queue.tell_marked([key])
            taken = self._seconds(began_s, lambda: self._is_taken(key))
            good = self._seconds(
                began_s, lambda: os.pread(file, BLOCK_BYTES, start) == before
            )
            over = self._seconds(began_s, lambda: self._queue.get(key) is None)
            assert os.pread(file, BLOCK_BYTES, start) == before
            return _Times(taken, good, over)
        finally:
            os.close(file)

    def _is_taken(self, key: SegmentKey) -> bool:
        return self._queue.holder(key) is not None or self._queue.get(key) is None

    @staticmethod
    def _seconds(began_s: float, is_there: Callable[[], bool]) -> float:
        while not is_there():
            assert time.monotonic() < began_s + PATIENCE_S
            time.sleep(LOOK_S)
        return time.monotonic() - began_s


@contextmanager
def _marked_set(folder: Path, segment: int) -> Iterator[_MarkedSet]:
    with ExitStack() as stack:
        yield _MarkedSet(folder, segment, stack)


@pytest.mark.benchmark(group="recovery block")
def test_a_bad_block_of_a_live_master_is_soon_good_again(
    folder: Callable[[], Path], is_smoke: bool, table: Table
) -> None:
    """
    At random places of sealed segments, at any moment. A read of the rotten record
    itself may be refused until it is right; each other one has to be right, always.
    """
    segment = 8 * _MIB if is_smoke else 64 * _MIB
    rate, rounds = (RATE // 10, 2) if is_smoke else (RATE, ROUNDS)
    seed = time.time_ns()
    chance = random.Random(seed)
    times: list[_Times] = []
    with (
        _marked_set(folder(), segment) as found,
        Child("recovery_traffic_child.py", found.master.path, "writer") as writer,
        Child("recovery_traffic_child.py", found.master.path, "reader") as reader,
    ):
        records = 3 * segment // BODY
        writer.call("fill", records)
        found.await_seals(2)
        reader.call("start")
        writer.call("start", rate)
        for _ in range(rounds):
            time.sleep(chance.random() * (0.2 if is_smoke else 1.0))
            number = chance.randrange(records // 2)
            reader.call("damaged", number)
            times.append(found.repaired(found.place_of(number)))
            reader.call("damaged", None)
        wrote, read = writer.call("stop"), reader.call("stop")
    assert wrote["errors"] == [], seed
    over = Figure(tuple(one.over for one in times))
    what = "one bad block on a live master under 50 MB/s of writes"
    values = {
        "a worker had it after": _texts(one.taken for one in times),
        "its bytes were good after": _texts(one.good for one in times),
        "load": load(),
    }
    table.at_most(f"{what}: mark to digest good", LIMIT_S, over, "s", values)
    worst = Figure((over.most,))
    table.at_most("the same, worst", LIMIT_S, worst, "s", {"rounds": f"{rounds}"})
    share = Figure((wrote["rate"] / rate,))
    told = {"slowest append": f"{wrote['slowest'] * 1000:.0f} ms"}
    table.at_least("the same, bytes written meanwhile, of 50 MB/s", 0.95, share, told)
    bad = read["failed"] + read["wrong"]
    told = {
        "records read": f"{read['records']:,}",
        "refused while rotten": f"{read['refused']}",
        **({"first": read["errors"][0]} if read["errors"] else {}),
    }
    table.at_most("the same, failed or stale reads", 0, Figure((bad,)), "", told)
    assert bad == 0, (seed, told)


def _texts(times_s: Iterator[float]) -> str:
    found = Figure(tuple(times_s))
    return f"{found.median:.2f} ({found.least:.2f} to {found.most:.2f}) s"
