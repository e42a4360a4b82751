"""
Jobs for single segments of brokers that serve, under a real controller.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from lib.broker_nodes import SEGMENT, master_of, node, until
from lib.controller.controller_server import running
from lib.segment_orders import address_of, ended, fill, flip, ordered, wait_until

from pystore import Message, Store
from pystore.autorecovery.peer_client import RemotePeers
from pystore.autorecovery.replica_peers import ReplicaAddress
from pystore.broker.mend_jobs import MendJobs
from pystore.broker.node import BrokerNode
from pystore.errors import BusyError, InvalidError, UnavailableError
from pystore.net.address import parse_address
from pystore.seals import BLOCK_BYTES
from pystore.segments.order import OrderAction, OrderOutcome, SegmentOrder
from pystore.segments.peer_server import SegmentServer

LARGE = 3 * BLOCK_BYTES
CHECK, FILL = OrderAction.CHECK, OrderAction.FILL


def segment_path(one: BrokerNode, base: int) -> Path:
    """
    The file of a segment.
    """
    return one.config.store / "commitlog" / f"{base:020d}"


def seals(one: BrokerNode) -> int:
    """
    The number of seals of a broker.
    """
    return len(list((one.config.store / "meta/seals").iterdir()))


@asynccontextmanager
async def late(
    folder: Path, size: int = SEGMENT, segments: int = 4
) -> AsyncIterator[tuple[str, BrokerNode, BrokerNode]]:
    """
    A controller's address, a master with so many sealed segments, and a slave that
    began with the last one.
    """
    async with (
        running() as at,
        node(folder, "a", at.address, segment_size=size) as a,
    ):
        master, _ = await master_of(a)
        await asyncio.to_thread(fill, master, segments, size)
        await until(lambda: seals(a) >= segments)
        names = {"segment_size": size, "is_from_last_file": True}
        async with node(folder, "b", at.address, **names) as b:  # type: ignore[arg-type]
            await master_of(a, b)
            yield at.address, a, b


@contextmanager
def dying_source(address: str, after_bytes: int) -> Iterator[str]:
    """
    The address of a peer that passes on so many bytes of another one, and ends then.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer, socket.create_connection(parse_address(address)) as other:
                back = threading.Thread(target=pass_on, args=(peer, other, 1 << 40))
                back.start()
                pass_on(other, peer, after_bytes)
                listener.close()
                for one in (peer, other):
                    # It wakes the thread that waits in it.
                    one.shutdown(socket.SHUT_RDWR)
                back.join()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def pass_on(one: socket.socket, other: socket.socket, size: int) -> None:
    """
    Sends at most so many bytes of one socket to the other one.
    """
    try:
        while size > 0 and (data := one.recv(min(size, 1 << 16))):
            other.sendall(data)
            size -= len(data)
    except OSError:
        # The other side ended.
        return


def test_segments_are_filled_in_any_order_and_at_once(tmp_path: Path) -> None:
    """
    Each waits for the one above it; at the floor the replica is whole, and its queues
    have every record.
    """

    async def main() -> None:
        async with late(tmp_path) as (_, a, b):
            with RemotePeers() as peers:
                await asyncio.to_thread(steps, peers, a, b)

    def steps(peers: RemotePeers, a: BrokerNode, b: BrokerNode) -> None:
        slave, source = address_of(b), peers.stat(address_of(a)).segments_address
        begin = peers.stat(slave).begin
        assert begin >= 3 * SEGMENT
        assert b.log is not None
        assert b.log.log().is_filling
        orders = [ordered(FILL, at, source) for at in range(0, begin, SEGMENT)]
        for order in orders[:-1]:
            peers.order(slave, order)
        # None of them may be installed before the one above is there.
        wait_until(
            lambda: (
                SEGMENT * len(orders[:-1])
                == sum(peers.progress(slave, one.claim).moved_bytes for one in orders)
            )
        )
        wait_until(
            lambda: all(peers.progress(slave, it.claim).detail for it in orders[:-1])
        )
        assert begin == peers.stat(slave).begin
        # Another worker's order joins the job that waits, with all that it has.
        others = [replace(one, claim=f"other {one.claim}") for one in orders[:-1]]
        for order in others:
            joined = peers.order(slave, order)
            assert (OrderOutcome.RUNNING, SEGMENT) == (
                joined.outcome,
                joined.moved_bytes,
            )
            assert "the segment above it is not there yet" == joined.detail
        assert OrderOutcome.REPAIRED is ended(peers, slave, orders[-1]).outcome
        for order in orders + others:
            assert OrderOutcome.REPAIRED is ended(peers, slave, order).outcome
        assert 0 == peers.stat(slave).begin
        assert not b.log.log().is_filling
        assert a.log is not None
        wait_until(lambda: a.log.store.queues.dispatched_end)  # type: ignore[union-attr]
        assert 0 == b.log.store.queue_range("t", 0)[0]
        for base in range(0, begin, SEGMENT):
            assert (
                segment_path(a, base).read_bytes() == segment_path(b, base).read_bytes()
            )
        again = ended(peers, slave, ordered(FILL, 0, source))
        assert (OrderOutcome.WHOLE, 0) == (again.outcome, again.moved_bytes)

    asyncio.run(main())


def test_segments_that_wait_leave_room_for_the_one_that_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Few wait without a worker; another one counts as work until its worker ends it.
    """
    monkeypatch.setattr("pystore.broker.segment_jobs._RUNNING_MAX", 1)
    monkeypatch.setattr("pystore.broker.segment_jobs._WAITING_MAX", 1)

    async def main() -> None:
        async with late(tmp_path) as (_, a, b):
            with RemotePeers() as peers:
                await asyncio.to_thread(steps, peers, a, b)

    def steps(peers: RemotePeers, a: BrokerNode, b: BrokerNode) -> None:
        slave, source = address_of(b), peers.stat(address_of(a)).segments_address
        begin = peers.stat(slave).begin
        first, second, following = (
            ordered(FILL, at, source) for at in (0, SEGMENT, begin - SEGMENT)
        )
        peers.order(slave, first)
        wait_until(lambda: peers.progress(slave, first.claim).detail)
        peers.order(slave, second)
        wait_until(lambda: SEGMENT == peers.progress(slave, second.claim).moved_bytes)
        assert not peers.progress(slave, second.claim).detail
        with pytest.raises(UnavailableError, match="1 jobs run: order this one later"):
            peers.order(slave, following)
        peers.stop(slave, second.claim)
        wait_until(
            lambda: peers.progress(slave, second.claim).outcome is OrderOutcome.FAILED
        )
        assert OrderOutcome.REPAIRED is ended(peers, slave, following).outcome

    asyncio.run(main())


def test_the_same_claim_is_the_same_job_and_another_one_waits_for_it(
    tmp_path: Path,
) -> None:
    """
    The rate of the claim is changed; nothing is copied twice.
    """

    async def main() -> None:
        async with late(tmp_path, LARGE, 2) as (_, a, b):
            with RemotePeers() as peers:
                await asyncio.to_thread(steps, peers, a, b)

    def steps(peers: RemotePeers, a: BrokerNode, b: BrokerNode) -> None:
        slave, source = address_of(b), peers.stat(address_of(a)).segments_address
        base = peers.stat(slave).begin - LARGE
        slow = ordered(FILL, base, source, claim="one", rate=BLOCK_BYTES)
        peers.order(slave, slow)
        peers.order(slave, other := ordered(FILL, base, source))
        wait_until(lambda: peers.progress(slave, "one").moved_bytes >= BLOCK_BYTES)
        assert 0 == peers.progress(slave, other.claim).moved_bytes
        fast = ordered(FILL, base, source, claim="one")
        done = ended(peers, slave, fast)
        assert (OrderOutcome.REPAIRED, LARGE) == (done.outcome, done.moved_bytes)
        second = ended(peers, slave, other)
        assert (OrderOutcome.WHOLE, 0) == (second.outcome, second.moved_bytes)

    asyncio.run(main())


def test_a_stopped_job_ends_at_once_and_the_next_goes_on_at_its_block(
    tmp_path: Path,
) -> None:
    """
    Also after a restart of the broker, which knows the claim no more.
    """

    async def main() -> None:
        async with late(tmp_path, LARGE, 2) as (controller, a, b):
            with RemotePeers() as peers:
                source, base = await asyncio.to_thread(steps, peers, a, b)
                order = ordered(FILL, base, source, claim="c", rate=BLOCK_BYTES)
                await asyncio.to_thread(peers.order, address_of(b), order)
                await asyncio.to_thread(
                    wait_until,
                    lambda: (
                        peers.progress(address_of(b), "c").moved_bytes >= BLOCK_BYTES
                    ),
                )
                await b.close()
                async with node(tmp_path, "b", controller, segment_size=LARGE) as again:
                    await master_of(a, again)
                    await asyncio.to_thread(rest, peers, again, source, base)

    def steps(peers: RemotePeers, a: BrokerNode, b: BrokerNode) -> tuple[str, int]:
        slave, source = address_of(b), peers.stat(address_of(a)).segments_address
        base = peers.stat(slave).begin - LARGE
        order = ordered(FILL, base, source, rate=BLOCK_BYTES)
        peers.order(slave, order)
        wait_until(
            lambda: peers.progress(slave, order.claim).moved_bytes >= BLOCK_BYTES
        )
        peers.stop(slave, order.claim)
        done = ended(peers, slave, order)
        assert (OrderOutcome.FAILED, "the job was stopped") == (
            done.outcome,
            done.detail,
        )
        assert BLOCK_BYTES <= done.moved_bytes < LARGE
        peers.stop(slave, order.claim)
        peers.stop(slave, "unknown")
        return source, base

    def rest(peers: RemotePeers, b: BrokerNode, source: str, base: int) -> None:
        slave = address_of(b)
        lost = peers.progress(slave, "c")
        assert OrderOutcome.FAILED is lost.outcome
        assert "knows no such job" in lost.detail
        done = ended(peers, slave, ordered(FILL, base, source, claim="c"))
        assert OrderOutcome.REPAIRED is done.outcome, done
        # The blocks of both jobs before are there.
        assert done.moved_bytes <= LARGE - 2 * BLOCK_BYTES
        assert [] == list((b.config.store / "meta/tmp").iterdir())

    asyncio.run(main())


def test_a_source_that_dies_is_followed_by_the_next_one(tmp_path: Path) -> None:
    """
    Alone it makes the job fail, and nothing is said about the copies: the next job has
    the blocks that came.
    """

    async def main() -> None:
        async with late(tmp_path, LARGE, 3) as (_, a, b):
            with RemotePeers() as peers:
                await asyncio.to_thread(steps, peers, a, b)

    def steps(peers: RemotePeers, a: BrokerNode, b: BrokerNode) -> None:
        slave, source = address_of(b), peers.stat(address_of(a)).segments_address
        base = peers.stat(slave).begin - LARGE
        with dying_source(source, BLOCK_BYTES + BLOCK_BYTES // 2) as dying:
            done = ended(peers, slave, ordered(FILL, base, dying))
        assert OrderOutcome.FAILED is done.outcome, done
        assert BLOCK_BYTES == done.moved_bytes
        with dying_source(source, BLOCK_BYTES // 2) as dying:
            done = ended(peers, slave, ordered(FILL, base, dying, source))
        assert (OrderOutcome.REPAIRED, LARGE - BLOCK_BYTES) == (
            done.outcome,
            done.moved_bytes,
        ), done

    asyncio.run(main())


def test_only_the_named_blocks_are_checked(tmp_path: Path) -> None:
    """
    With the seal, and without it by each record. Without a file none is whole.
    """

    async def main() -> None:
        async with late(tmp_path, LARGE, 2) as (_, a, _b):
            with RemotePeers() as peers:
                await asyncio.to_thread(steps, peers, a)

    def steps(peers: RemotePeers, a: BrokerNode) -> None:
        master, root = address_of(a), a.config.store
        flip(root, 0, BLOCK_BYTES + 5000)
        for has_seal in (True, False):
            if not has_seal:
                (found,) = (root / "meta/seals").glob("0" * 20 + "*")
                found.unlink()
            for blocks, bad in (((), (1,)), ((1,), (1,)), ((0, 2), ()), ((2, 1), (1,))):
                claim = f"{has_seal} {blocks}"
                order = SegmentOrder(claim, 0, OrderAction.CHECK, blocks=blocks)
                done = ended(peers, master, order)
                assert bad == done.bad_blocks, claim
                state = OrderOutcome.DAMAGED if bad else OrderOutcome.WHOLE
                assert state is done.outcome
        wrong = SegmentOrder("wrong", 0, OrderAction.CHECK, blocks=(3,))
        assert OrderOutcome.FAILED is ended(peers, master, wrong).outcome
        segment_path(a, 0).unlink()
        done = ended(peers, master, ordered(OrderAction.CHECK, 0))
        assert (OrderOutcome.DAMAGED, "the file is missing") == (
            done.outcome,
            done.detail,
        )

    asyncio.run(main())


@pytest.mark.parametrize("action", OrderAction)
def test_a_segment_that_is_not_settled_is_gone(
    tmp_path: Path, action: OrderAction
) -> None:
    """
    What a replica may still cut is not touched.
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "a", at.address) as a:
            await master_of(a)
            with RemotePeers() as peers:
                done = await asyncio.to_thread(
                    ended, peers, address_of(a), ordered(action, SEGMENT)
                )
        assert OrderOutcome.GONE is done.outcome, done

    asyncio.run(main())


def test_a_repair_of_an_operator_and_jobs_exclude_each_other(tmp_path: Path) -> None:
    """
    Each is refused as busy while the other one works on the store.
    """

    async def main() -> None:
        async with late(tmp_path, LARGE, 2) as (_, a, b):
            with RemotePeers() as peers:
                await asyncio.to_thread(steps, peers, a, b)

    def steps(peers: RemotePeers, a: BrokerNode, b: BrokerNode) -> None:
        slave, source = address_of(b), peers.stat(address_of(a)).segments_address
        jobs, base = b.segment_jobs, peers.stat(slave).begin - LARGE
        assert jobs is not None
        peers.order(slave, order := ordered(FILL, base, source, rate=1))
        with pytest.raises(BusyError, match="1 jobs of AutoRecovery run"):
            jobs.reserve()
        peers.stop(slave, order.claim)
        ended(peers, slave, order)
        mending = MendJobs(bool)
        assert b.log is not None
        number = mending.start(
            "b", b.log, jobs, [source], base, bytes_per_second=BLOCK_BYTES
        )
        with pytest.raises(UnavailableError, match="an operator repairs this store"):
            peers.order(slave, ordered(FILL, base, source))
        mending.start("b", b.log, jobs, [source], base, bytes_per_second=0)
        wait_until(lambda: mending.status(number)["isEnded"])
        assert "" == mending.status(number)["problem"]
        done = ended(peers, slave, ordered(FILL, base, source))
        assert OrderOutcome.WHOLE is done.outcome

    asyncio.run(main())


def test_a_rate_of_the_broker_holds_all_its_jobs(tmp_path: Path) -> None:
    """
    Until it is changed.
    """

    async def main() -> None:
        async with late(tmp_path, LARGE, 3) as (_, a, b):
            with RemotePeers() as peers:
                await asyncio.to_thread(steps, peers, a, b)

    def steps(peers: RemotePeers, a: BrokerNode, b: BrokerNode) -> None:
        slave, source = address_of(b), peers.stat(address_of(a)).segments_address
        begin = peers.stat(slave).begin
        peers.change_rate(slave, 1)
        orders = [ordered(FILL, begin - each * LARGE, source) for each in (1, 2)]
        for order in orders:
            peers.order(slave, order)
        wait_until(
            lambda: any(peers.progress(slave, one.claim).moved_bytes for one in orders)
        )
        assert any(
            peers.progress(slave, one.claim).outcome is OrderOutcome.RUNNING
            for one in orders
        )
        peers.change_rate(slave, 0)
        for order in orders:
            assert OrderOutcome.REPAIRED is ended(peers, slave, order).outcome
        with pytest.raises(InvalidError, match="in_bytes"):
            peers.change_rate(slave, -1)

    asyncio.run(main())


def test_a_source_serves_at_the_rate_that_its_last_order_tells(tmp_path: Path) -> None:
    """
    The order is one to the source, such as the check before a repair.
    """

    async def main() -> None:
        async with late(tmp_path, LARGE, 3) as (_, a, b):
            with RemotePeers() as peers:
                await asyncio.to_thread(steps, peers, a, b)

    def told(peers: RemotePeers, replica: ReplicaAddress, rate: int) -> None:
        check = replace(ordered(CHECK, 0), serve_bytes_per_second=rate)
        assert OrderOutcome.WHOLE is ended(peers, replica, check).outcome

    def steps(peers: RemotePeers, a: BrokerNode, b: BrokerNode) -> None:
        master, slave = address_of(a), address_of(b)
        source, begin = peers.stat(master).segments_address, peers.stat(slave).begin
        told(peers, master, 1)
        order = ordered(FILL, begin - LARGE, source)
        peers.order(slave, order)
        wait_until(lambda: a.config.rates.outward.moved_bytes > LARGE)
        assert OrderOutcome.RUNNING is peers.progress(slave, order.claim).outcome
        told(peers, master, -1)
        assert OrderOutcome.RUNNING is peers.progress(slave, order.claim).outcome
        told(peers, master, 0)
        assert OrderOutcome.REPAIRED is ended(peers, slave, order).outcome

    asyncio.run(main())


def other_history(root: Path) -> Path:
    """
    Makes a sealed store with records of its own.
    """
    with Store(root, segment_size=SEGMENT, queue_file_bytes=8000) as store:
        while store.log.ends.published_end < 2 * SEGMENT:
            store.log.append(Message("t", bytes(5000)))
        store.log.sync()
        while store.keep():
            pass
    return root


def test_a_whole_copy_is_replaced_only_by_its_digest(tmp_path: Path) -> None:
    """
    AR-R8: the majority of the copies is against it; with other bytes it stays.
    """

    async def main() -> None:
        async with late(tmp_path, SEGMENT, 4) as (_, a, _b):
            with RemotePeers() as peers:
                await asyncio.to_thread(steps, peers, a)

    def steps(peers: RemotePeers, a: BrokerNode) -> None:
        master = address_of(a)
        other = other_history(tmp_path / "other")
        checked = ended(peers, master, ordered(OrderAction.CHECK, 0))
        assert (OrderOutcome.WHOLE, True) == (checked.outcome, checked.is_sealed)
        with SegmentServer(other, "127.0.0.1") as server:
            order = ordered(OrderAction.REPAIR, 0, server.address)
            done = ended(peers, master, replace(order, replaces="0" * 32))
            assert OrderOutcome.DIVERGENT is done.outcome, done
            order = ordered(OrderAction.REPAIR, 0, server.address)
            done = ended(peers, master, replace(order, replaces=checked.digest))
            assert OrderOutcome.REPAIRED is done.outcome, done
        whole = (other / "commitlog" / f"{0:020d}").read_bytes()
        assert whole == segment_path(a, 0).read_bytes()
        found = ended(peers, master, ordered(OrderAction.CHECK, 0))
        assert OrderOutcome.WHOLE is found.outcome
        assert found.digest not in ("", checked.digest)

    asyncio.run(main())


def test_copies_that_differ_are_not_touched(tmp_path: Path) -> None:
    """
    Both are whole: a person decides. Of a damaged segment a source that lies gives
    nothing.
    """

    async def main() -> None:
        async with late(tmp_path, SEGMENT, 4) as (_, a, _b):
            with RemotePeers() as peers:
                await asyncio.to_thread(steps, peers, a)

    def steps(peers: RemotePeers, a: BrokerNode) -> None:
        master = address_of(a)
        other = other_history(tmp_path / "other")
        before = segment_path(a, 0).read_bytes()
        with SegmentServer(other, "127.0.0.1") as server:
            order = ordered(OrderAction.REPAIR, 0, server.address)
            done = ended(peers, master, order)
            assert OrderOutcome.DIVERGENT is done.outcome, done
            flip(a.config.store, 0, 5000)
            order = ordered(OrderAction.REPAIR, 0, server.address)
            done = ended(peers, master, order)
            assert (OrderOutcome.UNMENDED, (0,)) == (done.outcome, done.bad_blocks)
            assert "is not the one that was sealed" in done.detail
            flip(a.config.store, 0, 5000)
        order = ordered(OrderAction.REPAIR, 0, server.address)
        assert OrderOutcome.WHOLE is ended(peers, master, order).outcome
        assert before == segment_path(a, 0).read_bytes()
        flip(a.config.store, 0, 5000)
        done = ended(peers, master, ordered(OrderAction.REPAIR, 0, server.address))
        # It is not there any more: nothing is known of its copy.
        assert OrderOutcome.FAILED is done.outcome

    asyncio.run(main())
