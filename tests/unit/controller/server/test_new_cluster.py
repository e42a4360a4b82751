"""
An empty record store becomes that of a new cluster, unless brokers with ids are there.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from lib.controller.controller_process import ControllerProcess
from lib.hosted_nodes import await_master, holds, hosted_node
from lib.store.stores import message

from pystore.ha.insync.ack import Ack
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.controller_headers import (
    BrokerHeartbeat,
    GetNextBrokerIdRequest,
    RegisterBrokerToControllerRequest,
)

NEXT = RequestCode.CONTROLLER_GET_NEXT_BROKER_ID
REGISTER = RequestCode.CONTROLLER_REGISTER_BROKER
META = RequestCode.CONTROLLER_GET_METADATA_INFO
ID = "pystoreClusterId"
OLD = "0123456789abcdef0123456789abcdef"


def beat(broker_id: int) -> BrokerHeartbeat:
    """
    A heartbeat of a broker that has an id.
    """
    return BrokerHeartbeat(
        cluster_name="cluster",
        broker_addr="127.0.0.1:1",
        broker_name="set",
        broker_id=broker_id,
        epoch=7,
        max_offset=100,
        confirm_offset=100,
        heartbeat_timeout_mills=10_000,
    )


def test_a_cluster_begins_with_the_first_id_that_is_applied_for(tmp_path: Path) -> None:
    """
    To ask for the next id, or for the leader, begins none.
    """
    with ControllerProcess("--store", tmp_path / "c") as controller:
        controller.await_lead()
        assert not controller.ask(NEXT, GetNextBrokerIdRequest("cluster", "set")).code
        assert ID not in controller.ask(META).ext_fields
        assert not controller.apply(1).code
        assert controller.ask(META).ext_fields[ID]


@pytest.mark.parametrize("how", ["heartbeat", "registration", "UUID"])
def test_no_cluster_begins_while_brokers_with_ids_are_there(
    tmp_path: Path, how: str
) -> None:
    """
    A new broker is refused, until the controller is started once with --new-cluster.
    """
    with ControllerProcess("--store", tmp_path / "c") as controller:
        controller.await_lead()
        if how == "heartbeat":
            controller.ask(RequestCode.BROKER_HEARTBEAT, beat(2))
        elif how == "registration":
            header = RegisterBrokerToControllerRequest(
                "cluster", "set", 2, "127.0.0.1:1"
            )
            answer = controller.ask(REGISTER, header)
            assert ResponseCode.CLUSTER_NOT_BEGUN == answer.code
        else:
            answer = controller.ask(META, added={ID: OLD})
            assert ResponseCode.OTHER_CLUSTER == answer.code
        applied = controller.apply(1)
        assert ResponseCode.CLUSTER_NOT_BEGUN == applied.code
        assert "--new-cluster" in (applied.remark or "")
        line = controller.wait_for("no cluster begins")
        assert (OLD if how == "UUID" else "broker 2 of set set") in line
        assert ID not in controller.ask(META).ext_fields
        assert 1 == sum("no cluster begins" in one for one in controller.said)
    for words in (("--new-cluster",), ()):
        with ControllerProcess("--store", tmp_path / "c", *words) as controller:
            controller.await_lead()
            controller.ask(RequestCode.BROKER_HEARTBEAT, beat(2))
            assert not controller.apply(1).code
            assert controller.ask(META).ext_fields[ID]


def test_brokers_of_a_lost_record_store_wait_and_say_why(tmp_path: Path) -> None:
    """
    The directory of the records was deleted: nobody gets an id or an epoch again, and
    the records put back continue.
    """

    async def main() -> None:
        own = ControllerProcess("--store", tmp_path / "c")
        try:
            await asyncio.to_thread(own.await_lead)
            async with hosted_node(tmp_path, "s", own.address) as one:
                await await_master(one)
                assert one.node.replica is not None
                one.node.replica.append(message(1), Ack.ALL)
                own.kill()
                (tmp_path / "c").rename(tmp_path / "kept")
                own = ControllerProcess("--store", tmp_path / "c", listen=own.address)
                await holds(lambda: "record store" in one.status()["problem"])
                assert "rebuildSet" in one.status()["problem"]
                async with hosted_node(tmp_path, "new", own.address) as new:
                    await holds(lambda: "--new-cluster" in new.status()["problem"])
                    assert new.status()["brokerId"] is None
                own.kill()
                shutil.rmtree(tmp_path / "c")
                (tmp_path / "kept").rename(tmp_path / "c")
                own = ControllerProcess("--store", tmp_path / "c", listen=own.address)
                # A lease under the controller before is waited for.
                await holds(lambda: not one.status()["problem"])
                master = one.node.replica
                await holds(lambda: (master.standing().lease_left_ms or 0) > 0)
                master.append(message(2), Ack.ALL)
        finally:
            own.kill()

    asyncio.run(main())
