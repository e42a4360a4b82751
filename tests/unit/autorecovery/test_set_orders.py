"""
A replica that is replaced under a controller on a socket; the hosts are in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from lib.controller.controller_server import Running, SpokenBroker, running
from lib.remoting.virtual_time_loop import move, run, until

from pystore.autorecovery.host_peers import (
    CarriedReplica,
    NewReplica,
    RecoveryHost,
)
from pystore.autorecovery.replacement import Replacements
from pystore.autorecovery.replacement_record import (
    ReplacementKey,
    ReplacementPhase,
    ReplacementReason,
)
from pystore.autorecovery.replacement_requests import (
    ask_replacement,
    list_replacements,
)
from pystore.autorecovery.replica_peers import ClusterView
from pystore.autorecovery.set_orders import ControllerOrders
from pystore.autorecovery.settings import RecoverySettings
from pystore.controller.client.client import ControllerClient
from pystore.controller.client.set_descriptions import describe_sets
from pystore.controller.protocol.set_descriptions import SetDescription
from pystore.records.memory import MemoryStore
from pystore.remoting.client import RemotingClient
from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand
from pystore.remoting.connection import Connection
from pystore.remoting.fields import decode_fields, encode_fields
from pystore.remoting.operator_headers import HandOverRequest, HandOverResponse
from pystore.remoting.reply import Reply
from pystore.remoting.server import RemotingServer

SET = ("cluster", "set")
KEY = ReplacementKey(*SET, 2)


def from_threads() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """
    Runs coroutines on this loop, for other threads.
    """
    loop = asyncio.get_running_loop()
    return lambda one: asyncio.run_coroutine_threadsafe(one, loop).result(20)


class TakenHosts:
    """
    Each of them has one broker, but the spare.
    """

    def __init__(self) -> None:
        self.ids: dict[str, int | None] = {"a": 1, "b": 2, "c": 3}
        self.dead: set[str] = set()

    def all_hosts(self) -> Mapping[str, RecoveryHost]:
        """
        As they are.
        """
        return {
            name: RecoveryHost(
                name,
                free_bytes=1_000,
                disk_used_percent=1,
                replicas=(
                    (CarriedReplica(*SET, self.ids[name]),) if name in self.ids else ()
                ),
                is_alive=name not in self.dead,
            )
            for name in "abcd"
        }

    def add(self, host: str, replica: NewReplica) -> None:
        """
        The broker joins in the test.
        """
        assert SET == (replica.cluster, replica.set_name)
        self.ids.setdefault(host, None)

    def remove(
        self, host: str, cluster: str, set_name: str, *, deletes_store: bool
    ) -> None:
        """
        The broker leaves in the test.
        """
        assert (cluster, set_name, deletes_store) == (*SET, False)
        self.ids.pop(host, None)

    def forget(self, host: str) -> None:
        """
        None is.
        """
        raise NotImplementedError(host)


class Told:
    """
    What the controller tells.
    """

    def __init__(self, client: ControllerClient, run_on: Any) -> None:
        self._client, self._run_on = client, run_on

    def all_sets(self) -> ClusterView:
        """
        On one page.
        """
        return self._run_on(self._all())  # type: ignore[no-any-return]

    def one_set(self, cluster: str, name: str) -> SetDescription | None:
        """
        The newest.
        """
        return self.all_sets().sets.get((cluster, name))

    async def _all(self) -> ClusterView:
        (page,) = [one async for one in describe_sets(self._client)]
        sets = {(one.cluster, one.name): one for one in page.sets}
        return ClusterView(sets, page.damaged, page.led_ms, page.may_replace, 1)


async def three(at: Running) -> list[SpokenBroker]:
    """
    Three members; the first one is the master.
    """
    found = [SpokenBroker(at, number) for number in (1, 2, 3)]
    for one in found:
        await one.join()
    master = await found[0].elect()
    members = frozenset(one.member for one in found)
    done = await found[0].alter(
        members, master.master_epoch or 0, master.sync_state_set_epoch or 0
    )
    assert done.code == 0, done
    return found


def test_a_lost_broker_is_replaced_under_a_controller() -> None:
    """
    The new one is taken for whole by the controller's word, and the lost one is cleaned
    with the version that was seen.
    """

    async def main() -> None:
        run_on = from_threads()
        async with (
            running() as at,
            ControllerClient([at.address]) as client,
            RemotingClient() as masters,
        ):
            brokers = await three(at)
            await brokers[1].die()
            told, hosts, store = Told(client, run_on), TakenHosts(), MemoryStore()
            hosts.dead.add("b")
            times = iter(range(1_000_000, 9_000_000, 20_000))
            replacements = Replacements(
                store,
                told,
                hosts,
                ControllerOrders(lambda work: run_on(work(client)), masters),
                clock_ms=lambda: next(times),
            )
            term = store.campaign("recovery/auditor", "auditor").check
            ask_replacement(store, KEY, ReplacementReason.LOST, by="test", now_ms=1)

            def step() -> None:
                view = told.all_sets()
                replacements.step(view, RecoverySettings(delay_s=600), term)

            async def steps_until(phase: ReplacementPhase) -> None:
                for _ in range(100):
                    one = list_replacements(store)[KEY]
                    if one.phase is phase:
                        return
                    # A controller that has led for a short time knows of no death.
                    move(2_000)
                    for broker in brokers:
                        if broker is not brokers[1]:
                            await broker.beat()
                    await asyncio.to_thread(step)
                raise AssertionError(one)

            context = at.controller.context
            await until(lambda: not context.liveness.heard(SET, 2, context.clock_ns()))
            await steps_until(ReplacementPhase.ADDED)
            brokers.append(SpokenBroker(at, 4))
            await brokers[3].join()
            hosts.ids["d"] = 4
            await steps_until(ReplacementPhase.FILLING)
            seen = await asyncio.to_thread(told.one_set, *SET)
            assert seen is not None
            await brokers[0].beat(seen.epoch)
            members = frozenset(brokers[n].member for n in (0, 2, 3))
            done = await brokers[0].alter(members, seen.epoch, 2)
            assert done.code == 0, done
            await steps_until(ReplacementPhase.CLEARING)
            seen = await asyncio.to_thread(told.one_set, *SET)
            assert seen is not None
            assert [1, 3, 4] == [one.broker_id for one in seen.brokers]
            assert {1, 3, 4} == {
                one.broker_id for one in seen.brokers if one.is_in_sync
            }

    run(main())


def test_orders_reach_the_controller_and_the_master() -> None:
    """
    From another thread than that of the loop.
    """

    async def main() -> None:
        run_on, asked = from_threads(), list[int]()

        async def answer(request: RemotingCommand, _: Connection) -> Reply:
            asked.append(decode_fields(HandOverRequest, request.ext_fields).broker_id)
            return Reply(ext_fields=encode_fields(HandOverResponse(7)))

        server = RemotingServer({RequestCode.HAND_OVER: answer})
        host, port = await server.start("127.0.0.1", 0)
        try:
            async with (
                running() as at,
                ControllerClient([at.address]) as client,
                RemotingClient() as masters,
            ):
                await three(at)
                told = Told(client, run_on)
                orders = ControllerOrders(lambda work: run_on(work(client)), masters)
                seen = await asyncio.to_thread(told.one_set, *SET)
                assert seen is not None
                for is_done in (True, False):
                    found = await asyncio.to_thread(
                        orders.set_learner, *SET, 3, seen.version
                    )
                    assert is_done == found
                await asyncio.to_thread(orders.hand_over, f"{host}:{port}", 2)
                assert [2] == asked
        finally:
            await server.close()

    run(main())
