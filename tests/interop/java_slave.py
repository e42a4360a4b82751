"""
A slave of RocketMQ for our master: RocketMQ's store and its HA client.

It consists of the parts of a broker in controller mode, `DefaultMessageStore` with
`AutoSwitchHAService`; the tool sends it the orders of a controller.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interop.jvm import JavaStore, Json, StoreTool
from lib.store.stores import SEGMENT

__all__ = ["BROKER_ID", "PATIENCE_S", "QUEUE_FILE_BYTES", "JavaSlave"]

BROKER_ID = 2
PATIENCE_S = 180
QUEUE_FILE_BYTES = 60_000

_CONFIG = {
    "mappedFileSizeCommitLog": SEGMENT,
    "mappedFileSizeConsumeQueue": QUEUE_FILE_BYTES,
    "maxHashSlotNum": 5_000,
    "maxIndexNum": 20_000,
    "brokerRole": "SLAVE",
    # Any port: no slave follows a slave.
    "haListenPort": 0,
    # It reports its start only after this (RMQ-R173).
    "haSendHeartbeatInterval": 200,
}


class JavaSlave:
    """
    One store in a separate process. For one thread.

    Args:
        tool: the process, with this store only.
        root: the store directory; an empty one is filled.
        config: keys of RocketMQ's ``MessageStoreConfig``, to change.
    """

    def __init__(self, tool: StoreTool, root: Path, **config: Any) -> None:
        self.root = root
        self._tool = tool
        self._config = _CONFIG | config
        self._store = self._open()

    def _open(self) -> JavaStore:
        job = {"do": "open", "config": self._config, "slave": True}
        return JavaStore(self._tool, self.root, self._ask(job))

    def _ask(self, job: Json) -> Json:
        return self._tool.ask({"root": str(self.root), **job})

    def follow(self, address: tuple[str, int], epoch: int) -> None:
        """
        Makes the store a slave of the master at *address*, as a controller does.
        """
        answer = self._ask(
            {
                "do": "follow",
                "epoch": epoch,
                "brokerId": BROKER_ID,
                "address": "{}:{}".format(*address),
            }
        )
        assert answer["taken"]

    def lead(self, epoch: int) -> int:
        """
        Makes the store a master, as a controller does after an election.

        Returns:
            the port of its HA listener.
        """
        answer = self._ask({"do": "lead", "epoch": epoch, "brokerId": BROKER_ID})
        assert answer["taken"]
        return int(answer["haPort"])

    def append(self, messages: list[Json]) -> list[Json]:
        """
        Stores messages as a master; see `JavaStore.append`.
        """
        return self._store.append(messages)

    def wait_for(self, end_offset: int, confirm_offset: int | None = None) -> Json:
        """
        Waits until the log ends at this offset and is confirmed; returns its state.

        Args:
            end_offset: the end of the log.
            confirm_offset: the end of the built queues; ``None``: the end of the log.
        """
        confirm = end_offset if confirm_offset is None else confirm_offset
        found = self._ask(
            {
                "do": "standing",
                "end": end_offset,
                "confirm": confirm,
                "timeoutMs": PATIENCE_S * 1000,
            }
        )
        assert (end_offset, confirm, 0) == (
            found["maxPhyOffset"],
            found["confirmOffset"],
            found["undispatchedBytes"],
        ), found
        return found

    def report(self) -> Json:
        """
        Returns everything that RocketMQ reads from its store.
        """
        return self._store.report()

    def epoch_file(self) -> list[list[int]]:
        """
        Returns the epochs that RocketMQ reads from its file.
        """
        entries: list[list[int]] = self._ask({"do": "epochs"})["entries"]
        return entries

    def kill(self) -> None:
        """
        Kills the process with SIGKILL, and opens the store in another process.
        """
        self._tool.restart()
        self._store = self._open()

    def halt(self) -> None:
        """
        Ends the process; its files are those of a killed broker.
        """
        self._tool.halt()

    def close(self) -> None:
        """
        Shuts the store down cleanly; takes seconds.
        """
        self._store.close()
