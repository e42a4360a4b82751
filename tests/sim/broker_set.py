"""
A set of brokers and its controllers, in virtual processes.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

from sim.broker import Answered, Broker
from sim.controller import Controller
from sim.network import Network
from sim.programs import AdminProgram
from sim.record_servers import RecordServers
from sim.recovery import Recovery
from sim.world import MS, SECOND, Machine, Process, World

from pystore.controller.model.codec import decode
from pystore.controller.model.state import SetState
from pystore.controller.server.record_keys import set_key

__all__ = ["BrokerSet"]

_RECORD = set_key("DefaultCluster", "b")


class BrokerSet:
    """
    Brokers ``b1`` and so on, controllers ``c1`` and so on, their record store, and
    processes of AutoRecovery, ``r1`` and so on. A context manager, which kills all
    processes.

    Args:
        world: empty.
        folder: new; takes the stores.
        brokers: how many.
        controllers: how many.
        min_in_sync: copies that `all` needs.
        is_quick: periods are shorter than the product's defaults.
        recoveries: how many processes of AutoRecovery.

    Attributes:
        defects: errors that ended a thread.
    """

    def __init__(
        self,
        world: World,
        folder: Path,
        brokers: int = 3,
        controllers: int = 1,
        min_in_sync: int = 1,
        *,
        is_quick: bool = False,
        recoveries: int = 0,
    ) -> None:
        self.is_quick = is_quick
        self.world = world
        self.folder = folder
        self.min_in_sync = min_in_sync
        self.network = Network(world)
        self.records = RecordServers(world, self.network)
        self.defects: list[str] = []
        self._clones: list[Broker] = []
        self.operator = Machine(world, "10.0.2.1")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.controllers = [Controller(self, one + 1) for one in range(controllers)]
        self.brokers = {
            f"b{one}": Broker(self, f"b{one}", one) for one in range(1, brokers + 1)
        }
        self.recoveries = [Recovery(self, one + 1) for one in range(recoveries)]

    def __enter__(self) -> BrokerSet:
        return self

    def start(self) -> None:
        """
        Starts all processes.
        """
        for one in (*self.controllers, *self.recoveries):
            one.start()
        for broker in self.brokers.values():
            broker.start()

    def __exit__(self, *error: object) -> None:
        for one in (
            *self.controllers,
            *self.brokers.values(),
            *self.recoveries,
            *self._clones,
        ):
            one.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def clone_of(self, broker: Broker) -> Broker:
        """
        Returns a broker on a machine of its own, without a store.
        """
        clone = Broker(self, "clone", 9)
        clone.more = broker.more
        self._clones.append(clone)
        return clone

    def order(self, *words: str) -> Generator[int, None, tuple[int, str]]:
        """
        An operator gives an order with ``pystore admin``; returns exit code and output.
        """
        addresses = ";".join(one.address for one in self.controllers)
        command, *more = words
        given = [command, "-a", addresses, *more]
        done: list[tuple[int, str]] = []

        def heard(kind: str, *said: Any) -> None:
            if kind == "done":
                done.append((said[0], said[1]))

        process = Process(
            self.world,
            self.operator,
            f"admin {command}",
            lambda kernel: AdminProgram(kernel, given),
            heard,
        )
        self.network.add(process)
        while process.is_alive:
            yield 10 * MS
        (found,) = done
        return found

    def state(self) -> SetState | None:
        """
        Returns the record of the set; ``None``: there is none yet.
        """
        row = self.records.space.rows.get(_RECORD)
        return None if row is None else decode(row.value, _RECORD)

    # -- what clients see ----------------------------------------------------------

    def statuses(self) -> dict[str, dict[str, Any]]:
        """
        Returns the status of each broker that answers within a second.
        """
        found: dict[str, dict[str, Any]] = {}

        def take(name: str) -> Answered:
            def told(answer: dict[str, Any]) -> None:
                if "nodes" in answer:
                    found[name] = answer["nodes"][0]

            return told

        for name, broker in self.brokers.items():
            broker.ask({"request": "status"}, take(name))
        self.world.run(SECOND, lambda: len(found) == len(self.brokers))
        return found

    def is_complete(self) -> bool:
        """
        Whether one broker leads, and all but learners are in its SyncStateSet, with
        equal logs.
        """
        now, state = self.statuses(), self.state()
        voters = sum("asyncLearner" not in one.more for one in self.brokers.values())
        voters -= 0 if state is None else len(state.learners)
        masters = [one for one in now.values() if one["role"] == "master"]
        return (
            len(now) == len(self.brokers)
            and len(masters) == 1
            and len(masters[0]["syncStateSet"]) == voters
            and len({one["endOffset"] for one in now.values()}) == 1
        )

    def await_complete(self, seconds: int = 120) -> None:
        """
        Waits until it is complete.
        """
        end_ns = self.world.now_ns + seconds * SECOND
        while not self.is_complete():
            assert self.world.now_ns < end_ns, f"not complete: {self.statuses()}"
            self.world.run(100 * MS)
