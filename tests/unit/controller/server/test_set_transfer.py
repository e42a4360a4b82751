"""
Exports in parts, and imports that are refused.
"""

from __future__ import annotations

import asyncio

from lib.controller.controller_server import Running, SpokenBroker, running

from pystore.controller.model.codec import decode, encode
from pystore.controller.model.state import SetState
from pystore.controller.server.record_keys import set_key
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import Put
from pystore.remoting.codes import RequestCode, ResponseCode
from pystore.remoting.fields import decode_fields
from pystore.remoting.operator_headers import (
    ExportSetsRequest,
    ExportSetsResponse,
    ImportSetRequest,
)

UUID, OTHER = "a" * 32, "b" * 32


async def exported(at: Running) -> tuple[list[SetState], list[str], int]:
    """
    Returns the sets, the damaged ones, and the number of requests.
    """
    header, count = ExportSetsRequest(), 0
    states: list[SetState] = []
    damaged: list[str] = []
    while True:
        answer = await at.ask(RequestCode.EXPORT_SETS, header)
        assert not answer.code, answer.remark
        told = decode_fields(ExportSetsResponse, answer.ext_fields)
        states += [decode(one, "answer") for one in answer.body.splitlines()]
        damaged += [one for one in told.damaged.split(";") if one]
        header, count = ExportSetsRequest(told.next_cluster, told.next_name), count + 1
        if not told.next_name:
            return states, damaged, count


def test_all_sets_are_exported_in_parts_and_a_damaged_one_is_named() -> None:
    """
    In the order of their names, each once.
    """
    space = MemorySpace()
    store = MemoryStore(space)
    names = [f"set-{number:04}" for number in range(1200)]
    for name in names:
        state = SetState("cluster", name, version=1, next_id=3)
        store.commit([Put(set_key("cluster", name), encode(state))])
    store.commit([Put(set_key("cluster", "set-0600"), b"ill")])

    async def main() -> None:
        async with running(space) as at:
            states, damaged, count = await exported(at)
            assert ["cluster/set-0600"] == damaged
            names.remove("set-0600")
            assert names == [one.name for one in states]
            assert 3 == count

    asyncio.run(main())


def test_an_empty_record_store_exports_nothing() -> None:
    """
    And has no UUID.
    """

    async def main() -> None:
        async with running() as at:
            assert ([], [], 1) == await exported(at)

    asyncio.run(main())


def test_an_import_gives_an_empty_record_store_its_uuid() -> None:
    """
    Though brokers with ids are there; another UUID is refused afterwards.
    """

    async def main() -> None:
        async with running() as at:
            await SpokenBroker(at, 1).beat()
            state = SetState("cluster", "set", version=1, next_id=4, epoch=7)

            async def code(header: ImportSetRequest, body: bytes) -> int:
                return (await at.ask(RequestCode.IMPORT_SET, header, body)).code

            assert 2005 == await code(ImportSetRequest("x"), encode(state))
            assert 2005 == await code(ImportSetRequest(UUID), encode(state)[:-1])
            assert not at.controller.context.cluster_id
            assert 0 == await code(ImportSetRequest(UUID), encode(state))
            assert UUID == at.controller.context.cluster_id
            refused = await at.ask(
                RequestCode.IMPORT_SET, ImportSetRequest(OTHER), encode(state)
            )
            assert ResponseCode.OTHER_CLUSTER == refused.code
            assert OTHER in (refused.remark or "")
            assert 0 == await code(ImportSetRequest(), encode(state))
            (found,), _, _ = await exported(at)
            assert (4, 7) == (found.next_id, found.epoch)
            assert any("imported set set of cluster cluster" in one for one in at.said)

    asyncio.run(main())
