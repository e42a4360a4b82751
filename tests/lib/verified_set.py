"""
A controller and the brokers of one set as processes, whose replicas are verified.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lib.broker_process import BrokerProcess, node_text, until
from lib.command_line import run_json
from lib.controller.controller_process import ControllerProcess
from lib.mended_set import SEGMENT, fill
from lib.recovery_process import RecoveryProcess

__all__ = ["LYING", "VerifiedSet", "verified_set"]

LYING = (
    sys.executable,
    "-c",
    """
import sys
from pystore.cli import main
from pystore.segments import order_run
from pystore.segments.order import OrderOutcome, segment_digest

def checked(own, base, blocks, hooks):
    hooks.digested(segment_digest(own.seal(base).block_digests), True)
    return OrderOutcome.WHOLE, ""

order_run._checked = checked
main(sys.argv[4:])
""",
)
"""The beginning of the command line of a broker that tells its seals, and reads no
byte of its disk."""


class VerifiedSet:
    """
    The processes.

    Args:
        folder: of all of them.
        stack: ends them.

    Attributes:
        folder: as given.
        records: the record store of the controller.
        controller: the process.
        brokers: by name, which is that of the store's directory.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.records = folder / "records"
        self._stack = stack
        words = ("--store", self.records)
        self.controller = stack.enter_context(ControllerProcess(*words))
        self.brokers: dict[str, BrokerProcess] = {}

    def start(self, name: str, before: tuple[str, ...] = ()) -> BrokerProcess:
        """
        Starts a broker.
        """
        text = node_text(
            self.folder / name,
            self.controller.address,
            name=name,
            mappedFileSizeCommitLog=SEGMENT,
        )
        broker = BrokerProcess.of(self.folder, name, text, before)
        self.brokers[name] = self._stack.enter_context(broker)
        return broker

    def recovery(self) -> RecoveryProcess:
        """
        Starts what repairs marked segments.
        """
        return self._stack.enter_context(
            RecoveryProcess(
                self.controller.address,
                "--records",
                self.records,
                said=self.folder / "recovery.log",
            )
        )

    def ask(self, *words: str) -> Any:
        """
        Returns what `pystore recovery` prints as JSON.
        """
        return run_json("recovery", *words, "--records", self.records)

    def text(self, name: str) -> str:
        """
        Returns a replica as the rows name it.
        """
        number = self.brokers[name].status()["brokerId"]
        return f"DefaultCluster/b/{number}"


@contextmanager
def verified_set(
    folder: Path, segments: int, **before: tuple[str, ...]
) -> Iterator[VerifiedSet]:
    """
    Three brokers, ``one`` to ``three``, with so many sealed segments.

    Args:
        folder: of all processes.
        segments: of each log, full and sealed.
        **before: the beginning of the command line of a broker, by its name.
    """
    with ExitStack() as stack:
        found = VerifiedSet(folder, stack)
        for name in ("one", "two", "three"):
            found.start(name, before.get(name, ()))
            found.brokers["one"].await_role("master")
        master = found.brokers["one"]
        until(lambda: len(master.status()["syncStateSet"]) == 3)
        fill(master, segments)
        for name in found.brokers:
            seals = folder / name / "meta/seals"
            until(lambda: len(list(seals.iterdir())) >= segments)  # noqa: B023
        yield found
