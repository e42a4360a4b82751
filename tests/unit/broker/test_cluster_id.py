"""
A broker obeys the controllers of its own record store only.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from lib.controller.controller_process import ControllerProcess
from lib.hosted_nodes import await_master, holds, hosted_node
from lib.store.stores import message

from pystore.broker.node_status import HostedNode
from pystore.ha.insync.ack import Ack
from pystore.ha.replica import Replica
from pystore.remoting.codes import RequestCode, ResponseCode

OTHER = "0123456789abcdef0123456789abcdef"


async def mastered(one: HostedNode) -> Replica:
    """
    Waits until a broker alone is master; returns its replica.
    """
    await await_master(one)
    assert one.node.replica is not None
    return one.node.replica


def test_a_broker_that_meets_the_controller_of_another_record_store_obeys_it_in_nothing(
    tmp_path: Path,
) -> None:
    """
    Both sides say so, and its own controller takes it back.
    """

    async def main(own: ControllerProcess, other: ControllerProcess) -> None:
        async with hosted_node(tmp_path, "s", own.address) as one:
            master = await mastered(one)
            assert one.node.log is not None
            belongs_to = one.node.log.cluster_id
            appended = master.append(message(1), Ack.ALL)
        async with hosted_node(tmp_path, "s", other.address) as one:
            await holds(lambda: "record store" in one.status()["problem"])
            problem = one.status()["problem"]
            assert belongs_to in problem
            assert "correct controllerAddr" in problem
            assert one.node.replica is None
        line = await asyncio.to_thread(other.wait_for, "is refused")
        assert belongs_to in line
        async with hosted_node(tmp_path, "s", own.address) as one:
            master = await mastered(one)
            assert master.log.log().end_offset == appended.appended.end
            assert belongs_to == master.log.cluster_id

    with (
        ControllerProcess("--store", tmp_path / "c1") as own,
        ControllerProcess("--new-cluster", "--store", tmp_path / "c2") as other,
    ):
        own.await_lead()
        other.await_lead()
        asyncio.run(main(own, other))


def test_a_running_broker_takes_no_lease_of_another_record_store(
    tmp_path: Path,
) -> None:
    """
    Its controller was replaced by one with an empty store.
    """

    async def main() -> None:
        own = ControllerProcess("--store", tmp_path / "c1")
        try:
            await asyncio.to_thread(own.await_lead)
            async with hosted_node(tmp_path, "s", own.address) as one:
                master = await mastered(one)
                await holds(lambda: (master.standing().lease_left_ms or 0) > 0)
                own.kill()
                place = ("--new-cluster", "--store", tmp_path / "c2")
                own = ControllerProcess(*place, listen=own.address)
                await holds(lambda: "record store" in one.status()["problem"])
                await holds(lambda: master.standing().lease_left_ms == 0)
                assert 1 == master.standing().epoch
        finally:
            own.kill()

    asyncio.run(main())


def test_the_controllers_of_a_record_store_keep_its_identity(tmp_path: Path) -> None:
    """
    It is made with the first commit, told in answers, and a request with another one
    is refused.
    """
    told = []
    for number in range(2):
        with ControllerProcess("--store", tmp_path / "c") as controller:
            controller.await_lead()
            if not number:
                answer = controller.ask(RequestCode.CONTROLLER_GET_METADATA_INFO)
                assert "pystoreClusterId" not in answer.ext_fields
                assert not controller.apply(1).code
            answer = controller.ask(RequestCode.CONTROLLER_GET_METADATA_INFO)
            told.append(answer.ext_fields["pystoreClusterId"])
            added = {"pystoreClusterId": OTHER}
            refused = controller.ask(
                RequestCode.CONTROLLER_GET_METADATA_INFO, added=added
            )
            assert ResponseCode.OTHER_CLUSTER == refused.code
            assert OTHER in (refused.remark or "")
            garbage = {"pystoreClusterId": "\x1b[31m"}
            bad = controller.ask(
                RequestCode.CONTROLLER_GET_METADATA_INFO, added=garbage
            )
            assert ResponseCode.CONTROLLER_INVALID_REQUEST == bad.code
    assert told[0] == told[1]
    assert 32 == len(told[0])
