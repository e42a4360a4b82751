"""
A broker node under a real controller: the composition that ships.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from pathlib import Path

import pytest
from cluster.proxy import Proxy
from lib.broker_nodes import (
    RULES,
    SEGMENT,
    WAIT_S,
    master_of,
    node,
    until,
)
from lib.controller.controller_server import running
from lib.free_ports import free_port
from lib.remoting.virtual_time_loop import move, run
from lib.store.stores import message
from lib.values import replace

from pystore.broker.config import NodeConfig
from pystore.broker.node import BrokerNode
from pystore.controller.protocol.extensions import process_of
from pystore.errors import (
    ClosedError,
    FencedError,
    PystoreError,
    UnavailableError,
)
from pystore.ha.insync.ack import Ack
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_bodies import SyncStateSet
from pystore.remoting.controller_headers import (
    CleanBrokerDataRequest,
    ElectMasterRequest,
    NotifyRoleChanged,
)
from pystore.remoting.fields import encode_fields
from pystore.remoting.operator_headers import (
    ChangeElectionsRequest,
    ReadmitBrokerRequest,
)
from pystore.remoting.replica_bodies import EpochCache


def test_a_node_alone_becomes_master_with_a_lease(tmp_path: Path) -> None:
    """
    It opens its store once, and each ack is reached.
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "s", at.address) as one:
            master, _ = await master_of(one)
            assert 1 == master.log.incarnation.counter
            await until(lambda: (master.standing().lease_left_ms or 0) > 0)
            for ack in (Ack.LEADER, Ack.LEADER_SYNCED, Ack.ALL):
                assert master.append(message(1), ack).is_reached

    asyncio.run(main())


def test_slaves_find_a_master_that_serves_them_on_any_port(tmp_path: Path) -> None:
    """
    The controller tells the address; the port above is only RocketMQ's convention.
    """

    async def main() -> None:
        ports = free_port(), free_port()
        async with (
            running() as at,
            node(tmp_path, "1", at.address, ha_port=ports[0]) as one,
            node(tmp_path, "2", at.address, ha_port=ports[1]) as two,
        ):
            master, (slave,) = await master_of(one, two)
            assert int(slave.standing().address.rpartition(":")[2]) in ports
            assert master.standing().address == slave.standing().address
            # A slave that was refused before is a member now.
            assert "" == slave.standing().problem

    asyncio.run(main())


def test_a_copy_of_a_living_broker_waits_and_harms_nothing(tmp_path: Path) -> None:
    """
    B17: the copy has the same identity, and asks for it as long as the other lives.
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "s", at.address) as one:
            master, _ = await master_of(one)
            await until(lambda: (master.standing().lease_left_ms or 0) > 0)
            appended = master.append(message(1), Ack.ALL)
            shutil.copytree(tmp_path / "s", tmp_path / "copy")
            async with node(tmp_path, "copy", at.address) as copy:
                for number in range(20):
                    assert master.append(message(number), Ack.LEADER).is_reached
                    await asyncio.sleep(0.05)
                assert copy.replica is None
                assert (1, Role.MASTER) == (
                    master.standing().epoch,
                    master.standing().role,
                )
            assert appended.is_reached

    asyncio.run(main())


def test_a_set_of_one_is_cleaned_and_brought_back(tmp_path: Path) -> None:
    """
    The operator's word is enough, and its records are there.
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "s", at.address) as one:
            master, _ = await master_of(one)
            assert master.append(message(1), Ack.ALL).is_reached
            clean = CleanBrokerDataRequest("b", "c", is_clean_living_broker=True)
            assert 0 == (await at.ask(RequestCode.CLEAN_BROKER_DATA, clean)).code
            await until(lambda: "it was cleaned there" in one.problem)
            readmit = ReadmitBrokerRequest("b", 1, "c")
            assert 0 == (await at.ask(RequestCode.READMIT_BROKER, readmit)).code
            await until(
                lambda: (
                    (master.standing().epoch, master.standing().role)
                    == (3, Role.MASTER)
                )
            )
            assert (0, 1) == master.log.store.queue_range("Topic", 1)
            assert master.append(message(2), Ack.ALL).is_reached

    asyncio.run(main())


def test_a_broker_says_why_its_set_has_no_master(tmp_path: Path) -> None:
    """
    Here an operator elects.
    """

    async def main() -> None:
        async with running() as at:
            async with node(tmp_path, "s", at.address) as one:
                await master_of(one)
                manual = ChangeElectionsRequest("b", "c", allow_elect_master=False)
                assert 0 == (await at.ask(RequestCode.CHANGE_ELECTIONS, manual)).code
            async with node(tmp_path, "s", at.address) as one:
                await until(lambda: "only on request of an operator" in one.problem)
                elect = ElectMasterRequest("c", "b", 1, designate_elect=True)
                elected = await at.ask(RequestCode.CONTROLLER_ELECT_MASTER, elect)
                assert 0 == elected.code, elected
                await until(lambda: not one.problem)

    asyncio.run(main())


def test_a_broker_with_an_empty_log_names_its_process_and_no_epoch(
    tmp_path: Path,
) -> None:
    """
    1007: a controller asks which process lives there; evidence of a death rests on it.
    """

    async def main() -> None:
        async with (
            running() as at,
            node(tmp_path, "1", at.address) as one,
            node(tmp_path, "2", at.address) as two,
        ):
            _, (slave,) = await master_of(one, two)
            assert [] == slave.log.log().epochs.pairs()
            asked = next(each for each in (one, two) if each.replica is slave)
            async with RemotingClient() as client:
                answer = await client.call(
                    asked.config.address,
                    RemotingCommand(RequestCode.GET_BROKER_EPOCH_CACHE),
                )
            assert slave.log.incarnation == process_of(answer.ext_fields)
            assert () == EpochCache.decode(answer.body).epochs

    asyncio.run(main())


def test_a_broker_that_ends_answers_that_its_store_is_closed(tmp_path: Path) -> None:
    """
    A controller may ask for its epochs at that moment: that is no defect to be told.
    """

    async def main() -> None:
        async with (
            running() as at,
            node(tmp_path, "1", at.address) as one,
            RemotingClient() as client,
        ):
            replica = await one.registered()
            await asyncio.to_thread(replica.close)
            answer = await client.call(
                one.config.address,
                RemotingCommand(RequestCode.GET_BROKER_EPOCH_CACHE),
            )
            assert ResponseCode.SYSTEM_ERROR == answer.code
            remark = answer.remark or ""
            assert remark.endswith("is closed")
            # A defect would be told with the name of its class.
            assert "ClosedError" not in remark

    asyncio.run(main())


def test_a_node_serves_until_it_is_closed(tmp_path: Path) -> None:
    """
    And not before it is started; it tells the newest master that it knows.
    """

    async def main() -> None:
        async with running() as at:
            async with node(tmp_path, "s", at.address) as one:
                serving = asyncio.create_task(one.serve())
                master, _ = await master_of(one)
                assert one.newest is not None
                assert one.log is master.log
                assert (master.me, one.config.address) == (
                    one.newest.master,
                    one.newest.master_address,
                )
                assert not serving.done()
            await asyncio.wait_for(serving, WAIT_S)
            with pytest.raises(ClosedError, match="not started, or closed"):
                await one.serve()

    asyncio.run(main())


def test_a_node_that_follows_its_controllers_no_more_says_why(tmp_path: Path) -> None:
    """
    Here its store belongs to another set.
    """

    async def main() -> None:
        async with running() as at:
            async with node(tmp_path, "s", at.address) as one:
                await one.registered()
            config = replace(one.config, broker_name="other")
            async with BrokerNode(config, segment_size=SEGMENT) as renamed:
                with pytest.raises(PystoreError, match="other"):
                    await asyncio.wait_for(renamed.serve(), WAIT_S)

    asyncio.run(main())


def test_two_nodes_replicate_and_the_second_goes_on(tmp_path: Path) -> None:
    """
    The first is closed and resigns, so the second is elected and has every record.
    """

    async def main() -> None:
        async with (
            running() as at,
            node(tmp_path, "2", at.address) as two,
            node(tmp_path, "1", at.address) as one,
        ):
            master, (slave,) = await master_of(one, two)
            first = one if master is one.replica else two
            for number in range(50):
                appended = await asyncio.to_thread(
                    master.append, message(number), Ack.ALL
                )
                assert {1, 2} == appended.settled.received_by
            await first.close()
            await until(lambda: slave.standing().role is Role.MASTER)
            assert slave.log.log().end_offset == appended.appended.end
            await until(lambda: (slave.standing().lease_left_ms or 0) > 0)
            assert slave.append(message(50), Ack.LEADER).is_reached

    asyncio.run(main())


def test_no_two_masters_acknowledge_leader_at_once(tmp_path: Path) -> None:
    """
    C0, C3: the link between master and controller breaks, and the controller elects
    another master at once. Until the lease of the first is over the second
    acknowledges no `leader` record; then the first acknowledges none any more.
    """

    async def main() -> None:
        async with running() as at:
            # A young term replaces no master, whoever is dead (C3).
            move(11_000)
            host, port = at.address.rsplit(":", 1)
            with Proxy((host, int(port))) as proxy:
                through = "{}:{}".format(*proxy.address)
                valid = 2_000
                async with node(
                    tmp_path, "1", through, heartbeat_timeout_ms=valid
                ) as one:
                    await master_of(one)
                    async with node(
                        tmp_path, "2", at.address, heartbeat_timeout_ms=valid
                    ) as two:
                        await _two_masters(proxy, one, two)

    run(main())


async def _two_masters(proxy: Proxy, one: BrokerNode, two: BrokerNode) -> None:
    old, (new,) = await master_of(one, two)
    is_over = threading.Event()
    acked: dict[Replica, list[int]] = {old: [], new: []}

    def append(replica: Replica) -> None:
        while not is_over.is_set():
            begun_ns = time.monotonic_ns()
            try:
                is_reached = replica.append(message(1), Ack.LEADER).is_reached
            except FencedError:
                # Not the master, or without a lease.
                is_over.wait(0.002)
            else:
                if is_reached:
                    acked[replica].append(begun_ns)

    threads = [asyncio.to_thread(append, replica) for replica in acked]
    appending = asyncio.gather(*threads)
    try:
        await until(lambda: len(acked[old]) > 100)
        proxy.refuse()
        proxy.cut()
        at_cut = len(acked[old])
        await until(lambda: len(acked[new]) > 100)
        await until(lambda: old.standing().lease_left_ms in (0, None))
    finally:
        is_over.set()
        await appending

    assert at_cut < len(acked[old]), "it had a lease for a time"
    assert acked[old][-1] < acked[new][0]


def test_a_notice_of_a_master_without_an_address_changes_nothing(
    tmp_path: Path,
) -> None:
    """
    Another broker registered it so. It is told once, and the broker follows its
    controllers further.
    """

    async def main() -> None:
        said: list[str] = []
        async with running() as at:
            config = NodeConfig(
                "c",
                "b",
                f"127.0.0.1:{free_port()}",
                tmp_path / "s",
                (at.address,),
                rules=RULES,
                poll_ms=100,
            )
            one = BrokerNode(config, said.append, segment_size=SEGMENT)
            async with one, RemotingClient() as client:
                master, _ = await master_of(one)
                notice = NotifyRoleChanged("nonsense", 9, 0, 1)
                body = SyncStateSet(frozenset({9}), 1).encode()
                code = RequestCode.NOTIFY_BROKER_ROLE_CHANGED
                for _ in range(2):
                    answer = await client.call(
                        config.address,
                        RemotingCommand(
                            code, ext_fields=encode_fields(notice), body=body
                        ),
                    )
                    assert 0 == answer.code
                assert Role.MASTER is master.standing().role
        told = [line for line in said if "has no address" in line]
        assert [
            "the master of epoch 0 has no address: 'nonsense' is no HOST:PORT"
        ] == told

    run(main())


def test_planned_switches_lose_no_leader_record(tmp_path: Path) -> None:
    """
    There and back. Appends go on until the next master has nearly everything; each
    record that was acknowledged by one master alone is on the next one.
    """
    acknowledged: list[tuple[int, bytes]] = []

    def write(replica: Replica, is_over: threading.Event) -> None:
        while not is_over.is_set():
            number = len(acknowledged)
            try:
                result = replica.append(message(number), Ack.LEADER)
            except PystoreError:
                # Held for the switch, or over.
                time.sleep(0.001)
                continue
            if result.is_reached:
                acknowledged.append((result.appended.offset, message(number).body))

    async def switch(first: BrokerNode, master: Replica, slave: Replica) -> None:
        is_over = threading.Event()
        count = len(acknowledged)
        await until(lambda: (master.standing().lease_left_ms or 0) > 0)
        writer = asyncio.create_task(asyncio.to_thread(write, master, is_over))
        try:
            await until(lambda: len(acknowledged) > count + 100)
            status = await first.hand_over(slave.me.broker_id)
            assert status.role is not Role.MASTER
            await until(lambda: slave.standing().role is Role.MASTER)
            # The lease of the first one has ended with its mastership.
            async with asyncio.timeout(5):
                await until(lambda: (slave.standing().lease_left_ms or 0) > 0)
        finally:
            is_over.set()
            await writer
        for offset, body in acknowledged:
            assert body == slave.log.store.log.read(offset).body
        assert slave.append(message(1), Ack.LEADER).is_reached

    async def main() -> None:
        async with (
            running() as at,
            node(tmp_path, "2", at.address) as two,
            node(tmp_path, "1", at.address) as one,
        ):
            for _ in range(3):
                master, (slave,) = await master_of(one, two)
                await switch(one if master is one.replica else two, master, slave)

    asyncio.run(main())


@pytest.mark.parametrize("obstacle", ["an outsider", "no link", "a refusal"])
def test_a_switch_that_fails_leaves_the_master_as_it_is(
    tmp_path: Path, obstacle: str
) -> None:
    """
    It appends again at once.
    """

    async def main() -> None:
        async with (
            running() as at,
            node(tmp_path, "2", at.address) as two,
            node(tmp_path, "1", at.address) as one,
        ):
            master, (slave,) = await master_of(one, two)
            first, other = (one, two) if master is one.replica else (two, one)
            await until(lambda: (master.standing().lease_left_ms or 0) > 0)
            target, reason = slave.me.broker_id, ""
            if obstacle == "an outsider":
                target, reason = 7, "broker 7 is no member of the SyncStateSet"
            elif obstacle == "no link":
                await other.close()
                # The master hears of the end a moment later.
                await until(lambda: len(master.standing().agreed.members) == 1)
                reason = f"broker {target} "
            else:

                def refuse(broker_id: int, _: int) -> None:
                    raise UnavailableError(f"not broker {broker_id}")

                with pytest.raises(UnavailableError, match=f"not broker {target}"):
                    await asyncio.to_thread(master.hand_over, target, refuse)
                assert master.append(message(1), Ack.LEADER).is_reached
                return
            with pytest.raises(PystoreError, match=reason):
                await first.hand_over(target)
            assert master.append(message(1), Ack.LEADER).is_reached

    asyncio.run(main())
