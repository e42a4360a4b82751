"""
A set of broker processes one of whose replicas begins late, under any controller: what
the controller says of it, and what its queues have afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lib.broker_process import BrokerProcess, node_text, until
from lib.command_line import run_json
from lib.mended_set import SEGMENT, TOPIC, Traffic, body, fill, mended
from pystore.controller.client.client import ControllerClient
from pystore.controller.protocol.calls import (
    Answer,
    CallRefused,
    ElectMaster,
    GetReplicaInfo,
    MasterInfo,
)
from pystore.replicaset import ids_of

__all__ = [
    "LateSet",
    "check_records",
    "late_set",
    "tell_of_a_late_replica",
    "tell_of_a_replacement",
]

CLUSTER, NAME = "DefaultCluster", "b"
QUIET = "quiet"
QUIET_QUEUE = 3

_MORE = 200


class LateSet:
    """
    Brokers of one set. For one thread.

    Args:
        folder: of the stores.
        controller: its address.
        stack: ends the processes.
    """

    def __init__(self, folder: Path, controller: str, stack: ExitStack) -> None:
        self.folder, self.controller = folder, controller
        self._stack = stack

    def start(self, name: str, **more: str | int) -> BrokerProcess:
        """
        Starts a broker whose store has its name.
        """
        text = node_text(
            self.folder / name,
            self.controller,
            name=name,
            mappedFileSizeCommitLog=SEGMENT,
            **more,
        )
        return self._stack.enter_context(BrokerProcess.of(self.folder, name, text))

    def told(self) -> MasterInfo:
        """
        What the controller says of the set.
        """
        found = self._call(GetReplicaInfo(NAME))
        assert isinstance(found, MasterInfo), found
        return found

    def members(self) -> set[int]:
        """
        The SyncStateSet of the controller.
        """
        return set(ids_of(self.told().agreed.members))

    def elect(self, broker_id: int) -> Answer:
        """
        Asks for an election, as a broker does that knows of no master.
        """
        return self._call(ElectMaster(CLUSTER, NAME, broker_id))

    def _call(self, request: GetReplicaInfo | ElectMaster) -> Answer:
        async def asked() -> Answer:
            async with ControllerClient([self.controller]) as client:
                if isinstance(request, ElectMaster):
                    return await client.elect_master(request)
                return await client.get_replica_info(request)

        return asyncio.run(asked())


@contextmanager
def late_set(folder: Path, controller: str) -> Iterator[LateSet]:
    """
    A set without brokers; those that are started end with the block.
    """
    with ExitStack() as stack:
        yield LateSet(folder, controller, stack)


def tell_of_a_late_replica(it: LateSet, *, counts: bool) -> None:
    """
    A replica that begins late is not elected, is filled, and is elected then, with
    every acknowledged record and every number.

    Args:
        it: a set without brokers.
        counts: the controller takes it as a member before; otherwise it is a learner.
    """
    master = it.start("one")
    master.await_role("master")
    with master.client() as client:
        client.append(QUIET, [b"q"] * 5, queue_id=QUIET_QUEUE)
    filled = fill(master, 6)
    late = it.start("two", syncFromLastFile="true")
    until(lambda: late.status()["endOffset"] == master.status()["endOffset"])
    assert late.status()["minOffset"] > 0
    members = {1, 2} if counts else {1}
    until(lambda: it.members() == members)
    with Traffic(master, master, filled - 1) as traffic:
        until(lambda: traffic.errors or traffic.acknowledged > _MORE)
    assert ([], members) == (traffic.errors, it.members())

    master.kill()
    until(lambda: it.told().master is None)
    assert isinstance(it.elect(2), CallRefused)
    assert late.status()["isFilling"]
    assert "master" != late.status()["role"]
    # Another process of the master is elected anew (B1).
    epoch = it.told().master_epoch
    master.restart()
    assert epoch < master.await_role("master")["masterEpoch"]

    with Traffic(master, master, filled - 1, 2_000_000) as more:
        done = mended(it.folder / "two", it.folder / "one")
        assert {"fill"} == {one["action"] for one in done["steps"]}
        until(lambda: not late.status()["isFilling"])
        until(lambda: it.members() == {1, 2})
    assert [] == more.errors
    master.kill()
    late.await_role("master")
    count_on(late, 5)
    acknowledged = {number: number for number in range(filled)}
    check_records(late, acknowledged | traffic.numbers | more.numbers)
    master.restart()
    until(lambda: master.status()["confirmOffset"] == late.status()["endOffset"])
    assert [5, 5] == [number_of_last(one) for one in (master, late)]
    assert [0, 0] == [late.stop(), master.stop()]
    check_whole(it, "one", "two")


def tell_of_a_replacement(it: LateSet) -> None:
    """
    Retention deletes the records of a quiet queue, a replica dies for good, another
    one is made and filled, and the master fails: the queue goes on at its number on
    every replica, and a consumer sees every acknowledged record.

    Args:
        it: a set without brokers.
    """
    limit = {"commitLogBytesMax": 8 * SEGMENT}
    master = it.start("one", **limit)
    master.await_role("master")
    lost = it.start("two", **limit)
    until(lambda: it.members() == {1, 2})
    with master.client() as client:
        client.append(QUIET, [b"q"] * 5, queue_id=QUIET_QUEUE)
    filled = fill(master, 12)
    until(lambda: master.status()["minOffset"] > 0)
    lost.kill()
    until(lambda: it.members() == {1})
    # What is retired while it is copied is another story.
    assert 0 == master.stop()
    lines = master.config.read_text("utf-8").splitlines(keepends=True)
    kept = (one for one in lines if not one.startswith("commitLogBytesMax"))
    master.config.write_text("".join(kept), "utf-8")
    master.restart()
    master.await_role("master")
    floor = master.status()["minOffset"]
    with Traffic(master, master, filled - 1) as traffic:
        new = it.start("three", syncFromLastFile="true")
        until(lambda: new.status()["isFilling"])
        done = mended(it.folder / "three", it.folder / "one")
        assert {"fill"} == {one["action"] for one in done["steps"]}
        until(lambda: it.members() == {1, 3})
    assert [] == traffic.errors
    assert not new.status()["isFilling"]
    assert floor == new.status()["minOffset"]
    master.kill()
    new.await_role("master")
    count_on(new, 5)
    acknowledged = {number: number for number in range(filled)} | traffic.numbers
    check_records(new, acknowledged)
    master.restart()
    until(lambda: master.status()["confirmOffset"] == new.status()["endOffset"])
    check_records(master, acknowledged)
    assert [5, 5] == [number_of_last(one) for one in (master, new)]
    assert [0, 0] == [new.stop(), master.stop()]
    check_whole(it, "one", "three")


def count_on(master: BrokerProcess, number: int) -> None:
    """
    Appends to the quiet queue, whose next record has this number.
    """
    with master.client() as client:
        appended = client.append(QUIET, [b"q"], queue_id=QUIET_QUEUE)
    assert [number] == appended["queueOffsets"]


def number_of_last(broker: BrokerProcess) -> int:
    """
    The number of the last record in the quiet queue of a replica.
    """
    *_, last = _records(broker, QUIET, QUIET_QUEUE)
    return int(last["queueOffset"])


def check_records(broker: BrokerProcess, acknowledged: dict[int, int]) -> None:
    """
    Checks that a consumer sees each acknowledged record, and nothing else in between,
    from the first that retention left.
    """
    found = list(_records(broker, TOPIC, 0))
    first = found[0]["queueOffset"]
    assert list(range(first, first + len(found))) == [
        one["queueOffset"] for one in found
    ]
    bodies = {one["queueOffset"]: one["body"] for one in found}
    for at, number in acknowledged.items():
        if at >= first:
            assert body(number).decode() == bodies[at], at
    assert first <= max(acknowledged)


def check_whole(it: LateSet, *names: str) -> None:
    """
    Checks closed stores: each record has its entry.
    """
    for name in names:
        (found,) = run_json("verify", it.folder / name)["stores"]
        assert ("whole", 0) == (found["verdict"], found["missingEntries"]), name


def _records(
    broker: BrokerProcess, topic: str, queue_id: int
) -> Iterator[dict[str, Any]]:
    with broker.client() as client:
        yield from client.records(topic=topic, queueId=queue_id)
