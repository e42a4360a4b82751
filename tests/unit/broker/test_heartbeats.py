"""
The heartbeats of a broker to its controllers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from lib.remoting.virtual_time_loop import move, run, stop_clock, until
from lib.store.stores import SEGMENT, message

from pystore.broker.config import NodeConfig
from pystore.broker.controller_gateway import ThreadedGateway
from pystore.broker.heartbeats import HeartbeatSender
from pystore.clocks import boottime_ns
from pystore.controller.client.client import ControllerClient
from pystore.controller.model.log_end import LogBegin
from pystore.controller.protocol.calls import HeartbeatAnswer, SendHeartbeat
from pystore.controller.protocol.extensions import LeaseGrant
from pystore.errors import FullError
from pystore.ha.config import ReplicaConfig
from pystore.ha.decision import Decision
from pystore.ha.insync.ack import Ack
from pystore.ha.insync.set_change import SetChange
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.ha.slave.effects import SlaveLog
from pystore.ha.wire.effects import Promise
from pystore.replicaset import AgreedSet


class Controllers:
    """
    Two of them: the first leads and grants, the second never answers. It is the gateway
    of the replica, too.
    """

    known = ("leader:1", "mute:1")
    leader = "leader:1"

    def __init__(self) -> None:
        self.beats: dict[str, list[SendHeartbeat]] = {one: [] for one in self.known}
        self.grants = True
        self.resigned_epoch = -1

    async def heartbeat(self, address: str, beat: SendHeartbeat) -> HeartbeatAnswer:
        """
        Answers as a leader does, or not at all.
        """
        self.beats[address].append(beat)
        if address == "mute:1":
            await asyncio.Event().wait()
        return HeartbeatAnswer(LeaseGrant(60_000 if self.grants else 0, beat.epoch))

    def broker_ids(self) -> frozenset[int]:
        """
        The only one.
        """
        return frozenset({1})

    def ask(self, change: SetChange) -> AgreedSet:
        """
        Agrees to everything.
        """
        return AgreedSet(change.members, change.set_epoch + 1, change.candidates)

    def newer_epoch_told(self, epoch: int) -> None:
        """
        No slave tells one.
        """

    def resign(self, epoch: int, reason: str) -> None:  # noqa: ARG002
        """
        As the gateway of a broker does.
        """
        self.resigned_epoch = epoch


@pytest.fixture
def controllers() -> Controllers:
    """
    Of one broker.
    """
    return Controllers()


@pytest.fixture
def replica(tmp_path: Path, controllers: Controllers) -> Iterator[Replica]:
    """
    The master of epoch 3, without a lease yet.
    """
    config, gateway = ReplicaConfig("c", "b", 1), cast("ThreadedGateway", controllers)
    with Replica(tmp_path / "s", config, gateway, segment_size=SEGMENT) as one:
        one.decided(Decision(3, one.me, "", AgreedSet(frozenset({one.me}), 1)))
        one.wait_for(lambda stands: stands.role is Role.MASTER)
        assert 0 == one.standing().lease_left_ms
        yield one


def _config(folder: Path) -> NodeConfig:
    return NodeConfig("c", "b", "127.0.0.1:1", folder / "s", Controllers.known)


def _has_beats(controllers: Controllers, count: int) -> bool:
    return len(controllers.beats["leader:1"]) == count


def _sender(
    folder: Path, controllers: Controllers, replica: Replica
) -> HeartbeatSender:
    return HeartbeatSender(
        _config(folder),
        cast("ControllerClient", controllers),
        replica,
        cast("ThreadedGateway", controllers),
    )


def test_a_controller_that_does_not_answer_delays_no_other(
    tmp_path: Path, controllers: Controllers, replica: Replica
) -> None:
    """
    The lease arrives, and counts from the sending; a refusal ends it.
    """

    async def main() -> None:
        before_ns = boottime_ns()
        sending = asyncio.create_task(_sender(tmp_path, controllers, replica).run())
        for count in range(1, 4):
            await until(partial(_has_beats, controllers, count))
            move(1_000)
        assert 1 == len(controllers.beats["mute:1"])
        await until(lambda: replica.standing().lease_left_ms)
        left_ms = replica.standing().lease_left_ms or 0
        passed_ms = (boottime_ns() - before_ns) // 1_000_000 + 1
        assert 60_000 - passed_ms <= left_ms <= 60_000
        controllers.grants = False
        move(1_000)
        await until(lambda: replica.standing().lease_left_ms == 0)
        sending.cancel()

    run(main())


def test_a_heartbeat_tells_what_keeps_a_master_from_serving(
    tmp_path: Path, controllers: Controllers, replica: Replica
) -> None:
    """
    B13: an append that the system refused; none after one that it took.
    """

    def told() -> str | None:
        extension = controllers.beats["leader:1"][-1].extension
        return None if extension is None else extension.disk_problem

    async def main() -> None:
        sending = asyncio.create_task(_sender(tmp_path, controllers, replica).run())
        await until(partial(_has_beats, controllers, 1))
        assert "" == told()
        service = replica._service
        assert service is not None
        # The store is on the disk of all tests, which is not full on demand.
        service.monitor.appends.refused(FullError("no space left"))
        move(1_000)
        await until(partial(_has_beats, controllers, 2))
        assert "appends are refused: no space left" == told()
        assert told() == replica.standing().problem
        await asyncio.to_thread(replica.append, message(1), Ack.ALL)
        move(1_000)
        await until(partial(_has_beats, controllers, 3))
        assert "" == told()
        sending.cancel()

    run(main())


def test_a_begin_that_moved_is_told_before_the_next_heartbeat_is_due(
    tmp_path: Path,
    controllers: Controllers,
    replica: Replica,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Of a replica that is filled, once for each move.
    """
    begin = LogBegin(0)
    monkeypatch.setattr("pystore.broker.heartbeats.log_begin_of", lambda _: begin)

    async def main() -> None:
        nonlocal begin
        stop_clock()
        sending = asyncio.create_task(_sender(tmp_path, controllers, replica).run())
        await until(partial(_has_beats, controllers, 1))
        for count, moved in enumerate((SEGMENT, 0), 2):
            begin = LogBegin(moved, is_filling=moved > 0)
            move(100)
            await until(partial(_has_beats, controllers, count))
            extension = controllers.beats["leader:1"][-1].extension
            assert extension is not None
            assert begin == extension.begin
        for _ in range(9):
            move(100)
            await asyncio.sleep(0)
        assert 3 == len(controllers.beats["leader:1"])
        sending.cancel()

    run(main())


def test_the_last_heartbeat_tells_what_was_resigned(
    tmp_path: Path, controllers: Controllers, replica: Replica
) -> None:
    """
    The log is closed by then: its last ends are told.
    """

    async def main() -> None:
        sender = _sender(tmp_path, controllers, replica)
        sending = asyncio.create_task(sender.run())
        await until(lambda: controllers.beats["leader:1"])
        await asyncio.to_thread(replica.close)
        sending.cancel()
        last = asyncio.create_task(sender.send_last())
        await until(lambda: len(controllers.beats["leader:1"]) == 2)
        last.cancel()
        first, second = controllers.beats["leader:1"]
        assert first.extension is not None
        assert second.extension is not None
        assert (-1, 3) == (
            first.extension.resigned_epoch,
            second.extension.resigned_epoch,
        )
        assert (3, 0) == (second.epoch, second.max_offset)
        assert replica.me.incarnation == second.extension.incarnation

    run(main())


def test_the_end_that_is_told_with_a_promise_was_read_after_it(
    tmp_path: Path,
    controllers: Controllers,
    replica: Replica,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    B6: it is above all that was acknowledged under older masters. Of a promise that is
    made between two looks at the log the next heartbeat tells.
    """
    look, looks = replica.log.log, 0

    def looked() -> SlaveLog:
        nonlocal looks
        looks += 1
        if looks == 2:
            replica.log.carry_out(Promise(9))
        return look()

    monkeypatch.setattr(replica.log, "log", looked)

    async def main() -> None:
        sending = asyncio.create_task(_sender(tmp_path, controllers, replica).run())
        for count in (1, 2):
            await until(partial(_has_beats, controllers, count))
            move(1_000)
        sending.cancel()

    run(main())
    told = [one.extension for one in controllers.beats["leader:1"][:2]]
    assert [3, 9] == [one.promised_epoch for one in told if one is not None]
