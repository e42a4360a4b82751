"""
A broker whose store cannot be opened, until another copy repairs it, under a real
controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lib.controller.controller_server import Running, running
from lib.hosted_nodes import WAIT_S, await_master, holds, hosted_node, made
from lib.segment_orders import ended, flip, ordered

from pystore.autorecovery.peer_client import RemotePeers
from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.broker import ill_replica
from pystore.broker.ill_store import IllStore
from pystore.broker.node_status import HostedNode
from pystore.controller.client.client import ControllerClient
from pystore.controller.client.set_descriptions import describe_sets
from pystore.controller.protocol.set_descriptions import BrokerDescription
from pystore.errors import (
    BusyError,
    ClosedError,
    InvalidError,
    NotAStoreError,
    UnavailableError,
)
from pystore.ha.insync.ack import Ack
from pystore.message.message import Message
from pystore.segments.order import OrderAction, OrderOutcome
from pystore.segments.peer_copy import PeerCopy
from pystore.segments.peer_server import SegmentServer
from pystore.segments.store_copy import StoreCopy
from pystore.store.commit_log import CommitLog

SEGMENT = 1 << 18


def segment(root: Path, base: int) -> Path:
    """
    The file of a segment.
    """
    return root / "commitlog" / f"{base:020d}"


def cut_short(path: Path) -> None:
    """
    Half of the file is left.
    """
    with path.open("r+b") as file:
        file.truncate(SEGMENT // 2)


def emptied(path: Path) -> None:
    """
    Nothing is left but the name.
    """
    path.write_bytes(b"")


async def described(at: Running, broker_id: int) -> BrokerDescription:
    """
    A broker, as the controller tells it.
    """
    async with ControllerClient([at.address]) as client:
        (one,) = [
            broker
            async for page in describe_sets(client)
            for each in page.sets
            for broker in each.brokers
            if broker.broker_id == broker_id
        ]
        return one


def address_of(hosted: HostedNode) -> ReplicaAddress:
    """
    A broker as workers name it.
    """
    config, ill = hosted.node.config, hosted.node.ill
    replica = hosted.node.replica
    number = ill.identity.broker_id if ill is not None else 0
    if replica is not None:
        number = replica.me.broker_id
    return ReplicaAddress(config.cluster, config.broker_name, number, config.address)


async def fill(master: HostedNode) -> int:
    """
    Appends four segments; returns the end of the log.
    """
    replica = await master.node.registered()
    end = 0
    while end < 4 * SEGMENT:
        result = await asyncio.to_thread(
            replica.append, [Message("t", b"x" * 900)] * 200, Ack.ALL, 20_000
        )
        end = result.appended.end
    return end


def with_an_ill_slave(
    folder: Path,
    damage: Callable[[Path], object],
    test: Callable[[Running, HostedNode, HostedNode, int], Any],
) -> None:
    """
    Runs a test with a master, and a slave that starts with a damaged second segment.
    """

    async def main() -> None:
        async with running() as at:
            more = {"mappedFileSizeCommitLog": SEGMENT}
            async with hosted_node(folder, "a", at.address, **more) as a:
                await await_master(a)
                async with hosted_node(folder, "b", at.address, **more) as b:
                    await await_master(a, b)
                    end = await fill(a)
                    log = b.node.log
                    assert log is not None
                    await holds(lambda: log.log().confirm_offset == end)
                damage(segment(folder / "b", SEGMENT))
                ill = made(folder, "b", at.address, **more)
                async with started(ill):
                    await test(at, a, ill, end)

    asyncio.run(main())


@asynccontextmanager
async def started(hosted: HostedNode) -> AsyncIterator[None]:
    """
    A node, which is closed at the end.
    """
    await hosted.node.start()
    try:
        yield
    finally:
        await hosted.node.close()


@pytest.mark.parametrize("damage", [Path.unlink, cut_short, emptied])
def test_a_broker_with_a_hole_is_ill_until_it_is_repaired(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    """
    It tells the controllers, is no member, serves its other segments, opens after the
    repair, and becomes a member again.
    """

    async def test(at: Running, a: HostedNode, b: HostedNode, end: int) -> None:
        ill = b.node.ill
        assert ill is not None
        assert "ill" == b.role == b.status()["role"]
        assert f"{SEGMENT:020d}" in b.status()["problem"]
        async with asyncio.timeout(WAIT_S):
            while not (told := await described(at, 2)).is_ill:
                await asyncio.sleep(0.05)
        assert not told.is_alive
        assert not told.is_in_sync
        assert f"{SEGMENT:020d}" in told.disk_problem
        await asyncio.to_thread(_serves_the_others, b, tmp_path / "a")
        progress = await asyncio.to_thread(ill.mend, [StoreCopy(tmp_path / "a")])
        assert [SEGMENT] == [one.base for one in progress.done]
        await holds(lambda: b.node.ill is None)
        master, _ = await await_master(a, b)
        assert master is a
        told = await described(at, 2)
        assert (True, False) == (told.is_alive, told.is_ill)
        log = b.node.log
        assert log is not None
        await holds(lambda: log.log().confirm_offset >= end)

    with_an_ill_slave(tmp_path, damage, test)
    bytes_of = [segment(tmp_path / name, SEGMENT).read_bytes() for name in ("a", "b")]
    assert bytes_of[0] == bytes_of[1]
    with CommitLog(tmp_path / "b") as log:
        assert log.recovery.is_clean


def _serves_the_others(b: HostedNode, other: Path) -> None:
    root = b.settings.config.store
    with (
        SegmentServer(root, "127.0.0.1") as server,
        closing(PeerCopy(server.address)) as peer,
    ):
        good = StoreCopy(other)
        for base in (0, 2 * SEGMENT):
            assert not peer.problem(base)
            assert good.digests(base, [0]) == peer.digests(base, [0])
        assert peer.problem(SEGMENT)


def test_a_repair_by_another_process_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The file is put back by hand; a store that is still ill stays so.
    """
    monkeypatch.setattr(ill_replica, "_AGAIN_S", 0.05)

    async def test(_: Running, a: HostedNode, b: HostedNode, __: int) -> None:
        ill = b.node.ill
        assert ill is not None
        segment(tmp_path / "b", 2 * SEGMENT).rename(tmp_path / "aside")
        await holds(lambda: f"{2 * SEGMENT:020d}" in ill.reason)
        (tmp_path / "aside").rename(segment(tmp_path / "b", 2 * SEGMENT))
        good = segment(tmp_path / "a", SEGMENT).read_bytes()
        segment(tmp_path / "b", SEGMENT).write_bytes(good)
        await holds(lambda: b.node.ill is None)
        await await_master(a, b)

    with_an_ill_slave(tmp_path, Path.unlink, test)


def test_an_ill_broker_is_repaired_by_orders_and_opens(tmp_path: Path) -> None:
    """
    F4: it tells each hole, checks and repairs what it is told to, and is not filled. It
    opens after the last repair, and knows the jobs from before.
    """
    high = 3 * SEGMENT

    async def test(_: Running, a: HostedNode, b: HostedNode, end: int) -> None:
        segment(tmp_path / "b", high).unlink()
        with RemotePeers() as peers:
            await asyncio.to_thread(_ordered_repairs, peers, a, b, end)
            ended_here = await asyncio.to_thread(_last_repair, peers, a, b)
            await holds(lambda: b.node.ill is None)
            master, _slaves = await await_master(a, b)
            assert master is a
            told = await asyncio.to_thread(peers.progress, address_of(b), ended_here)
            assert OrderOutcome.REPAIRED is told.outcome
            stat = await asyncio.to_thread(peers.stat, address_of(b))
            assert b.node.replica is not None
            assert b.node.replica.me.incarnation is not None
            assert b.node.replica.me.incarnation.text == stat.incarnation
            assert {} == stat.problems

    with_an_ill_slave(tmp_path, Path.unlink, test)
    for base in (SEGMENT, high):
        one, other = (segment(tmp_path / it, base).read_bytes() for it in ("a", "b"))
        assert one == other
    with CommitLog(tmp_path / "b") as log:
        assert log.recovery.is_clean


def _ordered_repairs(
    peers: RemotePeers, a: HostedNode, b: HostedNode, end: int
) -> None:
    ill, here, check = b.node.ill, address_of(b), OrderAction.CHECK
    assert ill is not None
    stat = peers.stat(here)
    assert ill.incarnation.text == stat.incarnation
    assert (0, end, SEGMENT) == (stat.begin, stat.end, stat.segment_size)
    missing = "the file is missing"
    assert {SEGMENT: missing, 3 * SEGMENT: missing} == stat.problems
    with closing(PeerCopy(stat.segments_address)) as peer:
        assert not peer.problem(2 * SEGMENT)
    assert OrderOutcome.WHOLE is ended(peers, here, ordered(check, 0)).outcome
    found = ended(peers, here, ordered(check, SEGMENT))
    assert (OrderOutcome.DAMAGED, missing) == (found.outcome, found.detail)
    with pytest.raises(InvalidError, match="filled after its repair"):
        peers.order(here, ordered(OrderAction.FILL, 0))
    with pytest.raises(InvalidError, match="no segment begins at 7"):
        peers.order(here, ordered(check, 7))
    for other in (
        replace(here, broker_id=1),
        replace(here, set_name="c"),
        replace(here, cluster="other"),
    ):
        with pytest.raises(UnavailableError, match="asked for has moved"):
            peers.stat(other)
    alone = ended(peers, here, ordered(OrderAction.REPAIR, SEGMENT))
    assert OrderOutcome.UNMENDED is alone.outcome
    source = peers.stat(address_of(a)).segments_address
    repair = OrderAction.REPAIR
    # Rot of a segment that is there is no reason to stay closed, and is patched.
    flip(b.settings.config.store, 2 * SEGMENT, 5000)
    for base in (2 * SEGMENT, SEGMENT):
        found = ended(peers, here, ordered(repair, base, source))
        assert OrderOutcome.REPAIRED is found.outcome, found
    assert b.node.ill is ill


def _last_repair(peers: RemotePeers, a: HostedNode, b: HostedNode) -> str:
    source = peers.stat(address_of(a)).segments_address
    order = ordered(OrderAction.REPAIR, 3 * SEGMENT, source)
    peers.order(address_of(b), order)
    return order.claim


def test_an_ill_broker_is_a_source_for_others(tmp_path: Path) -> None:
    """
    Of the segments that it has whole; not of the others.
    """

    async def test(_: Running, a: HostedNode, b: HostedNode, __: int) -> None:
        high, log = 2 * SEGMENT, a.node.log
        assert log is not None
        await asyncio.to_thread(log.store.log.sync)
        good = segment(tmp_path / "b", high).read_bytes()
        for base in (SEGMENT, high):
            segment(tmp_path / "a", base).rename(tmp_path / f"aside-{base}")
        with RemotePeers() as peers:
            stat = await asyncio.to_thread(peers.stat, address_of(b))
            outcomes = []
            for base in (SEGMENT, high):
                order = ordered(OrderAction.REPAIR, base, stat.segments_address)
                found = await asyncio.to_thread(ended, peers, address_of(a), order)
                outcomes.append(found.outcome)
        assert [OrderOutcome.UNMENDED, OrderOutcome.REPAIRED] == outcomes
        assert good == segment(tmp_path / "a", high).read_bytes()
        (tmp_path / f"aside-{SEGMENT}").rename(segment(tmp_path / "a", SEGMENT))

    with_an_ill_slave(tmp_path, Path.unlink, test)


def test_a_job_of_an_ill_store_changes_nothing_once_it_is_open(tmp_path: Path) -> None:
    """
    Another process has repaired it meanwhile: the job ends, and is ordered again.
    """

    async def test(_: Running, a: HostedNode, b: HostedNode, __: int) -> None:
        ill = b.node.ill
        assert ill is not None
        target, here = ill.target, address_of(b)
        await asyncio.to_thread(ill.mend, [StoreCopy(tmp_path / "a")])
        await holds(lambda: b.node.ill is None)
        with pytest.raises(ClosedError, match="open again"), target.changing():
            pass
        await await_master(a, b)
        with RemotePeers() as peers:
            order = ordered(OrderAction.CHECK, SEGMENT)
            found = await asyncio.to_thread(ended, peers, here, order)
            assert OrderOutcome.WHOLE is found.outcome

    with_an_ill_slave(tmp_path, Path.unlink, test)


def test_a_repair_of_an_operator_and_orders_exclude_each_other(tmp_path: Path) -> None:
    """
    As for a store that is open.
    """

    async def test(_: Running, a: HostedNode, b: HostedNode, __: int) -> None:
        jobs, here = b.node.segment_jobs, address_of(b)
        assert jobs is not None
        with RemotePeers() as peers:
            stat = await asyncio.to_thread(peers.stat, address_of(a))
            order = ordered(OrderAction.REPAIR, SEGMENT, stat.segments_address)
            jobs.reserve()
            with pytest.raises(UnavailableError, match="an operator repairs"):
                await asyncio.to_thread(peers.order, here, order)
            jobs.release()
            slow = replace(order, bytes_per_second=1)
            await asyncio.to_thread(peers.order, here, slow)
            with pytest.raises(BusyError, match="jobs of AutoRecovery run"):
                jobs.reserve()
            await asyncio.to_thread(peers.stop, here, order.claim)

    with_an_ill_slave(tmp_path, Path.unlink, test)


def test_an_ill_broker_ends_at_once(tmp_path: Path) -> None:
    """
    It closes nothing that is not open, and reads and appends of it are refused.
    """

    async def test(_: Running, __: HostedNode, b: HostedNode, ___: int) -> None:
        await b.node.close()
        with pytest.raises(ClosedError):
            await b.node.registered()

    with_an_ill_slave(tmp_path, Path.unlink, test)


def test_a_store_that_no_repair_helps_is_refused_as_before(tmp_path: Path) -> None:
    """
    It is of no broker: nothing says which set it belongs to.
    """
    with CommitLog(tmp_path / "s", segment_size=SEGMENT) as log:
        for _ in range(4):
            log.append(Message("t", b"x" * (SEGMENT // 2)))
    segment(tmp_path / "s", SEGMENT).unlink()
    error = NotAStoreError("the reason")
    with pytest.raises(NotAStoreError, match="the reason"):
        IllStore(tmp_path / "s", {}, error)
    with pytest.raises(NotAStoreError, match="the reason"):
        IllStore(tmp_path / "none", {}, error)
