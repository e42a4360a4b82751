"""
Three stores of one log, each damaged and repaired by the command while a writer and a
consumer go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lib.broker_process import BrokerProcess, node_text, until
from lib.controller.controller_process import ControllerProcess
from lib.mended_set import SEGMENT, TOPIC, Traffic, body, damage, fill, mended

__all__ = ["ACTIONS", "KINDS", "QUEUE_FILE_BYTES", "MendedBrokers", "Repair"]

QUEUE_FILE_BYTES = 60_000

KINDS = {
    "late begin": ("three", "one", 0),
    "payload bit": ("one", "two", 1),
    "header bit": ("two", "three", 2),
    "missing": ("three", "one", 3),
    "short": ("one", "three", 4),
    "missing, closed": ("two", "one", 5),
}
"""The damage: the broker that has it, that of the source, and the segment."""

ACTIONS = {
    "late begin": "fill",
    "payload bit": "patch",
    "header bit": "patch",
    "missing": "install",
    "short": "install",
    "missing, closed": "install",
}
"""What repairs it."""

_SEGMENTS = 8
_MORE = 100
_APART = 1_000_000


@dataclass(slots=True)
class Repair:
    """
    What became of one damage.

    Attributes:
        steps: what the command did.
        unmended: what it left.
        errors: of the writer and the consumer meanwhile.
        served: the records that the broker then had from its first to its last, by
            their queue offsets.
    """

    steps: list[dict[str, Any]]
    unmended: list[dict[str, Any]]
    errors: list[str]
    served: list[str]


@dataclass(slots=True)
class MendedBrokers:
    """
    The stores, closed, and how each was repaired.

    Attributes:
        folder: of the stores.
        repairs: by the kind of damage.
        acknowledged: the numbers of records that were, by queue offset.
    """

    folder: Path
    repairs: dict[str, Repair] = field(default_factory=dict)
    acknowledged: dict[int, int] = field(default_factory=dict)

    @property
    def stores(self) -> list[Path]:
        """
        The three stores.
        """
        return [self.folder / name for name in ("one", "two", "three")]

    @property
    def bodies(self) -> list[str]:
        """
        The acknowledged records in the order of their queue offsets, without a gap.
        """
        numbers = self.acknowledged
        assert list(range(len(numbers))) == sorted(numbers)
        return [body(numbers[one]).decode() for one in range(len(numbers))]

    def run(self) -> None:
        """
        Runs the brokers, damages and repairs their stores, and ends them.
        """
        with ExitStack() as stack:
            controller = stack.enter_context(
                ControllerProcess("--store", self.folder / "records")
            )

            def start(name: str, **more: str | int) -> BrokerProcess:
                text = node_text(
                    self.folder / name,
                    controller.address,
                    name=name,
                    mappedFileSizeCommitLog=SEGMENT,
                    mappedFileSizeConsumeQueue=QUEUE_FILE_BYTES,
                    **more,
                )
                return stack.enter_context(BrokerProcess.of(self.folder, name, text))

            master = start("one")
            master.await_role("master")
            filled = fill(master, _SEGMENTS)
            self.acknowledged.update({number: number for number in range(filled)})
            brokers = {"one": master, "two": start("two")}
            brokers["three"] = start("three", syncFromLastFile="true")
            until(lambda: brokers["three"].status()["minOffset"] > 0)
            until(lambda: len(master.status()["syncStateSet"]) == len(brokers))
            self._await_seals()
            for kind in KINDS:
                self._repair(kind, brokers)
            for one in reversed(brokers.values()):
                end = master.status()["endOffset"]
                until(lambda: one.status()["endOffset"] == end)  # noqa: B023
                assert 0 == one.stop()

    def _await_seals(self) -> None:
        """
        Waits until the segments that are damaged next are sealed.
        """
        for one in self.stores[:2]:
            seals = one / "meta" / "seals"
            until(lambda: len(list(seals.iterdir())) >= _SEGMENTS - 1)  # noqa: B023

    def _repair(self, kind: str, brokers: dict[str, BrokerProcess]) -> None:
        name, source, segment = KINDS[kind]
        master, broker = brokers["one"], brokers[name]
        is_closed = kind.endswith("closed")
        if is_closed:
            assert 0 == broker.stop()
        read_from = brokers[source] if is_closed else broker
        # Where the log of each begins, the consumer begins, too.
        start, first = len(self.acknowledged) - 1, _APART * (1 + len(self.repairs))
        with Traffic(master, read_from, start, first) as traffic:
            if kind != "late begin":
                damage(self.folder / name, segment * SEGMENT, kind.partition(",")[0])
            done = mended(self.folder / name, self.folder / source)
            before = traffic.acknowledged
            until(
                lambda: traffic.errors or traffic.acknowledged > before + _MORE,
            )
        if is_closed:
            broker.restart()
            until(lambda: len(master.status()["syncStateSet"]) == len(brokers))
        self.acknowledged.update(traffic.numbers)
        count = len(self.acknowledged)
        until(lambda: len(list(_bodies(broker))) >= count)
        self.repairs[kind] = Repair(
            done["steps"], done["unmended"], traffic.errors, list(_bodies(broker))
        )


def _bodies(broker: BrokerProcess) -> Iterator[str]:
    with broker.client() as client:
        for one in client.records(topic=TOPIC, queueOffset=0):
            yield one["body"]
