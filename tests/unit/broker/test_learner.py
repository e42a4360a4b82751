"""
Learners, as the controllers decide who is one.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from lib.broker_nodes import WAIT_S, master_of, node, until
from lib.controller.controller_server import Running, running

from pystore.broker.node import BrokerNode
from pystore.ha.insync.ack import Ack
from pystore.ha.replica import Replica
from pystore.ha.role import Role
from pystore.message.message import Message
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.operator_headers import ChangeBrokerRequest
from pystore.replicaset import ids_of


async def make(at: Running, broker_id: int, *, learner: bool) -> None:
    """
    An operator makes a broker a learner, or a voter.
    """
    header = ChangeBrokerRequest("b", broker_id, "c", is_learner=learner)
    answer = await at.ask(RequestCode.CHANGE_BROKER, header)
    assert ResponseCode.SUCCESS == answer.code, answer.remark


async def until_received(master: Replica, slave: Replica, ids: set[int]) -> None:
    """
    Appends until the slave has a record whose `all` needed these replicas.
    """
    async with asyncio.timeout(WAIT_S):
        while True:
            appended = await asyncio.to_thread(
                master.append, Message("t", b"x"), Ack.ALL
            )
            await until(partial(has_all_of, slave, master.log.log().end_offset))
            if appended.settled.received_by == ids:
                return


def has_all_of(slave: Replica, end: int) -> bool:
    """
    Whether a slave has received all below that offset.
    """
    return slave.log.log().received_offset >= end


def process(one: BrokerNode) -> object:
    """
    The process of a broker, as the controllers know it.
    """
    assert one.replica is not None
    return one.replica.me.incarnation


def test_a_voter_becomes_a_learner_and_a_voter_again_without_a_restart(
    tmp_path: Path,
) -> None:
    """
    As a learner it follows and counts for nothing; as a voter it is elected.
    """

    async def main() -> None:
        async with (
            running() as at,
            node(tmp_path, "1", at.address) as one,
            node(tmp_path, "2", at.address) as two,
        ):
            master, (slave,) = await master_of(one, two)
            before = process(one), process(two)
            await until_received(master, slave, {1, 2})

            await make(at, slave.me.broker_id, learner=True)
            await until(slave.is_learner)
            await until_received(master, slave, {master.me.broker_id})
            for _ in range(50):
                await until_received(master, slave, {master.me.broker_id})
            assert {master.me.broker_id} == ids_of(master.standing().agreed.members)

            await make(at, slave.me.broker_id, learner=False)
            await until(lambda: 2 == len(master.standing().agreed.members))
            await until_received(master, slave, {1, 2})
            assert before == (process(one), process(two))

            (leaving,) = (it for it in (one, two) if it.replica is master)
            await leaving.close()
            await until(lambda: slave.standing().role is Role.MASTER)

    asyncio.run(main())


def test_a_broker_that_is_a_learner_by_its_configuration_stays_one(
    tmp_path: Path,
) -> None:
    """
    Controllers of RocketMQ know no learners, so the configuration can say it, too.
    """

    async def main() -> None:
        async with running() as at, node(tmp_path, "1", at.address) as one:
            master, _ = await master_of(one)
            async with node(tmp_path, "2", at.address, is_learner=True) as two:
                slave = await two.registered()
                await make(at, 2, learner=False)
                await until_received(master, slave, {1})
                assert slave.is_learner()

    asyncio.run(main())
