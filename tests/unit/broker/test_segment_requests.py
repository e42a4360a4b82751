"""
Orders to brokers that serve, under a real controller: over the network, as a worker
sends them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from lib.access_fixture import secret_of
from lib.broker_nodes import SEGMENT, master_of, node, until
from lib.broker_users import known, with_users
from lib.controller.controller_server import running
from lib.segment_orders import address_of, ended, fill, flip, ordered, wait_until

from pystore.access.key_file import new_key
from pystore.access.signer import RequestSigner
from pystore.autorecovery.peer_client import RemotePeers
from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.broker.node import BrokerNode
from pystore.errors import ClosedError, InvalidError, UnavailableError
from pystore.remoting.signature import Credentials
from pystore.segments.order import OrderAction, OrderOutcome
from pystore.segments.peer_copy import PeerCopy
from pystore.spark.peers.access import BrokerAccess
from pystore.spark.peers.check import BrokerTask, CopyTask, check_broker


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """
    A key file.
    """
    path = tmp_path / "cluster.key"
    path.write_text(new_key())
    path.chmod(0o600)
    return path


def is_sealed(one: BrokerNode, segments: int) -> bool:
    """
    Whether a broker has so many seals.
    """
    return len(list((one.config.store / "meta/seals").iterdir())) >= segments


@asynccontextmanager
async def pair(folder: Path, segments: int = 4) -> AsyncIterator[list[BrokerNode]]:
    """
    A master and a slave with so many sealed segments.
    """
    async with (
        running() as at,
        node(folder, "a", at.address) as a,
        node(folder, "b", at.address) as b,
    ):
        master, _ = await master_of(a, b)
        await asyncio.to_thread(fill, master, segments)
        for one in (a, b):
            await until(partial(is_sealed, one, segments))
        yield [a, b] if a.replica is master else [b, a]


def test_rot_on_a_master_is_checked_and_patched(tmp_path: Path) -> None:
    """
    A check finds it and changes nothing; a repair mends it; the check is clean then.
    """

    async def main() -> None:
        async with pair(tmp_path) as (a, b):
            with RemotePeers() as peers:
                await asyncio.to_thread(steps, peers, a, b)

    def steps(peers: RemotePeers, a: BrokerNode, b: BrokerNode) -> None:
        master, root = address_of(a), a.config.store
        source = peers.stat(address_of(b)).segments_address
        good = (root / "commitlog" / f"{SEGMENT:020d}").read_bytes()
        check = OrderAction.CHECK
        assert OrderOutcome.WHOLE is ended(peers, master, ordered(check, 0)).outcome
        flip(root, SEGMENT, 5000)
        found = ended(peers, master, ordered(check, SEGMENT))
        assert (OrderOutcome.DAMAGED, (0,)) == (found.outcome, found.bad_blocks)
        repair = ordered(OrderAction.REPAIR, SEGMENT, source)
        done = ended(peers, master, repair)
        assert (OrderOutcome.REPAIRED, (0,), SEGMENT) == (
            done.outcome,
            done.bad_blocks,
            done.moved_bytes,
        ), done
        assert good == (root / "commitlog" / f"{SEGMENT:020d}").read_bytes()
        found = ended(peers, master, ordered(check, SEGMENT))
        assert OrderOutcome.WHOLE is found.outcome

    asyncio.run(main())


def test_a_missing_file_is_told_by_stat_and_installed(tmp_path: Path) -> None:
    """
    The open log still has it mapped: the file is looked at by its path.
    """

    async def main() -> None:
        async with pair(tmp_path) as (a, b):
            with RemotePeers() as peers:
                await asyncio.to_thread(steps, peers, a, b)

    def steps(peers: RemotePeers, a: BrokerNode, b: BrokerNode) -> None:
        slave = address_of(b)
        assert {} == peers.stat(slave).problems
        path = b.config.store / "commitlog" / f"{2 * SEGMENT:020d}"
        good = path.read_bytes()
        path.unlink()
        stat = peers.stat(slave)
        assert {2 * SEGMENT: "the file is missing"} == stat.problems
        assert 0 == stat.begin < 4 * SEGMENT < stat.settled_end <= stat.end
        assert 0 == stat.cut_generation
        source = peers.stat(address_of(a)).segments_address
        order = ordered(OrderAction.REPAIR, 2 * SEGMENT, source)
        assert OrderOutcome.REPAIRED is ended(peers, slave, order).outcome
        assert good == path.read_bytes()
        assert {} == peers.stat(slave).problems

    asyncio.run(main())


def test_a_request_for_another_broker_is_no_answer(tmp_path: Path) -> None:
    """
    Its address may have been given to another one.
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "a", at.address) as a:
            await master_of(a)
            with RemotePeers() as peers:
                await asyncio.to_thread(steps, peers, address_of(a))

    def steps(peers: RemotePeers, known: ReplicaAddress) -> None:
        assert 0 == peers.stat(known).begin
        for other in (
            replace(known, broker_id=2),
            replace(known, set_name="c"),
            replace(known, cluster="b"),
        ):
            with pytest.raises(UnavailableError, match="asked for has moved"):
                peers.stat(other)
            with pytest.raises(UnavailableError, match="asked for has moved"):
                peers.order(other, ordered(OrderAction.CHECK, 0))

    asyncio.run(main())


def test_what_came_damaged_is_evidence_against_the_master(tmp_path: Path) -> None:
    """
    A new slave stops at the rot; it goes on once the master is repaired from the other
    slave, and has no problem any more (F3, F12).
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "a", at.address) as a:
            master, _ = await master_of(a)
            await asyncio.to_thread(fill, master, 4)
            async with node(tmp_path, "b", at.address) as b:
                await master_of(a, b)
                await until(partial(is_sealed, b, 4))
                flip(a.config.store, 2 * SEGMENT, 5000)
                async with node(tmp_path, "c", at.address) as c:
                    await c.registered()
                    with RemotePeers() as peers:
                        await asyncio.to_thread(steps, peers, a, b, c)
                    await master_of(a, b, c)

    def steps(peers: RemotePeers, a: BrokerNode, b: BrokerNode, c: BrokerNode) -> None:
        master, late = address_of(a), address_of(c)
        wait_until(lambda: peers.stat(late).bad_sources)
        (bad,) = peers.stat(late).bad_sources
        assert master.broker_id == bad.broker_id
        assert 2 * SEGMENT <= bad.offset <= 2 * SEGMENT + 5000
        assert () == peers.stat(address_of(b)).bad_sources
        source = peers.stat(address_of(b)).segments_address
        order = ordered(OrderAction.REPAIR, 2 * SEGMENT, source)
        assert OrderOutcome.REPAIRED is ended(peers, master, order).outcome
        assert c.replica is not None
        assert a.replica is not None
        end = a.replica.log.log().end_offset
        slave = c.replica
        wait_until(lambda: slave.log.log().end_offset == end)
        wait_until(lambda: not slave.standing().problem)

    asyncio.run(main())


def test_only_brokers_and_operators_give_orders_where_the_controllers_enforce(
    tmp_path: Path, key_file: Path
) -> None:
    """
    A stranger and a reader change nothing, and read no segment; two slaves prove
    themselves to each other.
    """

    async def main() -> None:
        async with (
            with_users(key_file, "enforcing") as at,
            node(tmp_path, "a", at.address, **known()) as a,
            node(tmp_path, "b", at.address, **known()) as b,
            node(tmp_path, "c", at.address, **known()) as c,
        ):
            master, _ = await master_of(a, b, c)
            await asyncio.to_thread(fill, master, 3)
            for one in (a, b, c):
                await until(partial(is_sealed, one, 3))
            slaves = [one for one in (a, b, c) if one.replica is not master]
            await asyncio.to_thread(steps, *slaves)

    def steps(one: BrokerNode, other: BrokerNode) -> None:
        replica = address_of(one)
        for signs in (None, RequestSigner(lambda: reader).sign):
            with RemotePeers(signs=signs) as strangers:
                asks: list[Callable[[], object]] = [
                    partial(strangers.stat, replica),
                    partial(strangers.order, replica, ordered(OrderAction.CHECK, 0)),
                    partial(strangers.progress, replica, "c"),
                    partial(strangers.stop, replica, "c"),
                    partial(strangers.change_rate, replica, 1),
                ]
                for ask in asks:
                    with pytest.raises(InvalidError):
                        ask()
        with RemotePeers(signs=RequestSigner(lambda: operator).sign) as peers:
            source = peers.stat(address_of(other)).segments_address
            with pytest.raises(UnavailableError, match="the request is refused"):
                PeerCopy(source)
            verified(replica, source)
            flip(one.config.store, SEGMENT, 5000)
            order = ordered(OrderAction.REPAIR, SEGMENT, source)
            done = ended(peers, replica, order)
            assert OrderOutcome.REPAIRED is done.outcome, done

    def verified(replica: ReplicaAddress, source: str) -> None:
        """
        Verification signs as the user of its file; its bytes need a certificate.
        """
        file = tmp_path / "credentials"
        file.write_text(f"accessKey: operator\nsecretKey: {secret_of('operator')}\n")
        file.chmod(0o600)
        copies = (CopyTask(0, SEGMENT, is_direct=True),)
        for access, outcome in (
            (BrokerAccess(str(file)), OrderOutcome.WHOLE),
            (BrokerAccess(), OrderOutcome.FAILED),
        ):
            task = BrokerTask(access, replica, source, "verify", copies)
            (found,) = check_broker(task)
            assert outcome is found.progress.outcome, found
            if outcome is OrderOutcome.WHOLE:
                assert found.direct is not None
                assert not found.direct.is_lie
                assert "the request is refused" in found.direct.problem

    reader = Credentials("reader", secret_of("reader"))
    operator = Credentials("operator", secret_of("operator"))
    asyncio.run(main())


def test_a_port_for_segments_that_is_taken_does_not_stop_the_broker(
    tmp_path: Path,
) -> None:
    """
    It tells no address until the port is free.
    """

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            async with (
                running() as at,
                node(tmp_path, "a", at.address, segment_port=port) as a,
            ):
                await master_of(a)
                with RemotePeers() as peers:
                    await asyncio.to_thread(steps, peers, a, taken)

    def steps(peers: RemotePeers, a: BrokerNode, taken: socket.socket) -> None:
        assert "" == peers.stat(address_of(a)).segments_address
        place = taken.getsockname()[1]
        taken.close()
        assert f"127.0.0.1:{place}" == peers.stat(address_of(a)).segments_address

    asyncio.run(main())


def test_a_broker_that_does_not_answer_says_nothing_about_its_copy(
    tmp_path: Path,
) -> None:
    """
    It is gone, silent, or no broker at all.
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "a", at.address) as a:
            await master_of(a)
            gone = address_of(a)
            with RemotePeers(timeout_ms=300) as peers:
                controller = replace(gone, address=at.address)
                with pytest.raises(InvalidError, match="SEGMENT_STAT"):
                    await asyncio.to_thread(peers.stat, controller)
                await a.close()
                with pytest.raises(UnavailableError):
                    await asyncio.to_thread(peers.stat, gone)
                with socket.create_server(("127.0.0.1", 0)) as silent:
                    port = silent.getsockname()[1]
                    mute = replace(gone, address=f"127.0.0.1:{port}")
                    with pytest.raises(UnavailableError):
                        await asyncio.to_thread(peers.stat, mute)
        peers.close()
        with pytest.raises(ClosedError):
            peers.stat(gone)

    asyncio.run(main())
