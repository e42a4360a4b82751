"""
The audit log: each accepted order of an operator, and no other request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from lib.controller.controller_server import Running, SpokenBroker, running
from lib.remoting.virtual_time_loop import move, run
from lib.values import replace

from pystore.access.roles import UserRole, roles_of
from pystore.controller.model.codec import decode
from pystore.controller.protocol.server_codec import COMMANDS
from pystore.controller.server.audit import (
    LINES_MAX,
    AuditLog,
    Order,
    order_of,
    read_audit,
)
from pystore.controller.server.record_keys import AUDIT
from pystore.errors import FormatError
from pystore.records.memory import Fault, MemorySpace, MemoryStore
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.controller_headers import (
    CleanBrokerDataRequest,
    ElectMasterRequest,
)
from pystore.remoting.operator_headers import (
    ChangeBrokerRequest,
    ChangeElectionsRequest,
    DeleteBrokerSetRequest,
    DescribeBrokerSetRequest,
    ReadAuditRequest,
    ReadmitBrokerRequest,
    SetCopiesRequest,
)

ORDER = Order("CLEAN_BROKER_DATA", "alice", "10.0.0.7:5000")


async def lines(at: Running) -> list[dict[str, Any]]:
    """
    The audit log, as an operator reads it.
    """
    answer = await at.ask(RequestCode.READ_AUDIT, ReadAuditRequest(LINES_MAX))
    assert 0 == answer.code, answer
    return [json.loads(one) for one in answer.body.splitlines()]


def test_each_accepted_order_is_one_line_and_a_refused_one_is_none() -> None:
    """
    With its subject before and after it. What brokers change is none.
    """

    async def main() -> None:
        async with running() as at:
            one, two = SpokenBroker(at, 1), SpokenBroker(at, 2)
            for broker in (one, two):
                await broker.join()
            await one.elect()
            await one.alter(frozenset({one.member, two.member}), 1, 1)
            assert [] == await lines(at)
            move(11_000)
            for broker in (one, two):
                await broker.beat(1)
            orders: list[tuple[RequestCode, Any, bytes]] = [
                (
                    RequestCode.CONTROLLER_ELECT_MASTER,
                    ElectMasterRequest("cluster", "set", 2, designate_elect=True),
                    b"",
                ),
                (
                    RequestCode.CHANGE_BROKER,
                    ChangeBrokerRequest("set", 1, priority=7),
                    b"",
                ),
                (
                    RequestCode.CHANGE_ELECTIONS,
                    ChangeElectionsRequest("set", preferred_broker_id=1),
                    b"",
                ),
                (
                    RequestCode.CLEAN_BROKER_DATA,
                    CleanBrokerDataRequest(
                        "set", "cluster", "1", is_clean_living_broker=True
                    ),
                    b"",
                ),
                (RequestCode.SET_COPIES, SetCopiesRequest("set", 3), b""),
                (RequestCode.READMIT_BROKER, ReadmitBrokerRequest("set", 1), b""),
                (
                    RequestCode.UPDATE_CONTROLLER_CONFIG,
                    None,
                    b"notifyBrokerRoleChanged=false\n",
                ),
            ]
            for number, (code, header, body) in enumerate(orders, 1):
                answer = await at.ask(code, header, body)
                assert ResponseCode.SUCCESS == answer.code, (code, answer)
                found = await lines(at)
                assert number == len(found), code
                assert code.name == found[-1]["command"]
                assert found[-1]["before"] != found[-1]["after"]
                assert "" == found[-1]["user"]
                assert found[-1]["address"].startswith("127.0.0.1:")
            assert "epoch 1, master 1" in (await lines(at))[0]["before"]
            assert "epoch 2, master 2" in (await lines(at))[0]["after"]
            refused = await at.ask(
                RequestCode.DELETE_BROKER_SET, DeleteBrokerSetRequest("set", "cluster")
            )
            assert 0 != refused.code
            header = DescribeBrokerSetRequest("set")
            await at.ask(RequestCode.DESCRIBE_BROKER_SET, header)
            assert len(orders) == len(await lines(at))

    run(main())


@pytest.mark.parametrize("fault", [Fault.FULL, Fault.LOST_REQUEST, Fault.LOST_ANSWER])
def test_an_order_and_its_line_are_committed_together(fault: Fault) -> None:
    """
    Whatever a commit meets, neither is there without the other.
    """
    faults: Iterator[Fault] = iter(())

    def next_fault(verb: str) -> Fault:
        return next(faults, Fault.NONE) if verb == "commit" else Fault.NONE

    async def main() -> None:
        nonlocal faults
        space = MemorySpace()
        async with running(space, faults=next_fault) as at:
            one = SpokenBroker(at, 1)
            await one.join()
            await one.elect()
            for priority in range(1, 6):
                faults = iter([fault])
                header = ChangeBrokerRequest("set", 1, priority=priority)
                await at.ask(RequestCode.CHANGE_BROKER, header)
                faults = iter(())
                code = RequestCode.DESCRIBE_BROKER_SET
                answer = await at.ask(code, DescribeBrokerSetRequest("set"))
                if answer.code != 0:
                    # The term is over; the records are what they are.
                    break
            store = MemoryStore(space)
            told = [json.loads(one)["after"] for one in read_audit(store, LINES_MAX)]
            (record,) = store.scan("controller/sets/")
            replica = decode(record.value, record.key).replica(1)
            assert replica is not None
            told = [one.partition("(priority ")[2].partition(")")[0] for one in told]
            assert (told or [""])[-1] == str(replica.priority or "")

    run(main())


def test_the_last_lines_are_kept_also_by_the_next_controller() -> None:
    """
    And their order, when the clock is set back.
    """
    store = MemoryStore(MemorySpace())
    times = count(5_000_000, -1)
    log = AuditLog(lambda: next(times))
    log.load(store)
    for number in range(LINES_MAX + 5):
        store.commit(log.ops(ORDER, str(number), "a", "b"))
    later = AuditLog(lambda: 1)
    later.load(store)
    for number in range(LINES_MAX + 5, LINES_MAX + 10):
        store.commit(later.ops(ORDER, str(number), "a", "b"))
    found = [json.loads(one) for one in read_audit(store, 5_000)]
    numbers = [int(one["subject"]) for one in found]
    assert list(range(10, LINES_MAX + 10)) == numbers
    assert ("alice", "10.0.0.7:5000") == (found[0]["user"], found[0]["address"])
    last = [json.loads(one)["subject"] for one in read_audit(store, 2)]
    assert [str(LINES_MAX + 8), str(LINES_MAX + 9)] == last


def test_long_texts_are_cut() -> None:
    """
    A set with hundreds of brokers must not fill a record.
    """
    (put,) = AuditLog(lambda: 1).ops(ORDER, "s" * 5_000, "b" * 5_000, "a" * 5_000)
    assert len(put.value) < 4_000  # type: ignore[union-attr]
    assert put.key.startswith(AUDIT)


def test_a_damaged_line_is_named() -> None:
    """
    It is not left out.
    """
    store = MemoryStore(MemorySpace())
    store.commit(AuditLog(lambda: 1).ops(ORDER, "s", "b", "a"))
    (good,) = store.scan(AUDIT)

    class Damaged:
        def scan(self, _: str) -> list[object]:
            return [replace(good, damage="its checksum differs")]

    with pytest.raises(FormatError, match="its checksum differs"):
        read_audit(Damaged(), 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", list(RequestCode))
def test_orders_are_what_only_operators_may_send(code: RequestCode) -> None:
    """
    So a new code of an operator is audited, too.
    """
    request = RemotingCommand(code, user="alice")
    is_order = roles_of(request) == {UserRole.OPERATOR}
    order = order_of(request, "h:1")
    assert (Order(code.name, "alice", "h:1") if is_order else None) == order
    assert is_order or code not in COMMANDS or UserRole.BROKER in roles_of(request)
