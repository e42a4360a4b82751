"""
A slave of ours that is RocketMQ's: its store, and its own end of the link.

It is what a broker in controller mode has below it, `DefaultMessageStore` with
`AutoSwitchHAService`; the tool tells it what a controller would.
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
    # Any port: nobody follows a slave.
    "haListenPort": 0,
    # It reports its start only after this (R173).
    "haSendHeartbeatInterval": 200,
}


class JavaSlave:
    """
    One store in a process of its own; not for several threads.

    Args:
        tool: the process; nothing else is in it.
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
        Makes it a slave of the master at *address*, as a controller does.
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
        Makes it a master, as a controller does that elects it.

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
        Waits until its log ends there and is confirmed, and answers how it stands.

        Args:
            end_offset: of the log.
            confirm_offset: up to which queues are built; ``None``: the end.
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
        Everything RocketMQ reads of its store.
        """
        return self._store.report()

    def epoch_file(self) -> list[list[int]]:
        """
        What RocketMQ reads from its epoch file.
        """
        entries: list[list[int]] = self._ask({"do": "epochs"})["entries"]
        return entries

    def kill(self) -> None:
        """
        Ends the process by SIGKILL, and opens the store in another one.
        """
        self._tool.restart()
        self._store = self._open()

    def halt(self) -> None:
        """
        Ends the process and leaves its files as a killed broker does.
        """
        self._tool.halt()

    def close(self) -> None:
        """
        Shuts the store down cleanly; takes seconds.
        """
        self._store.close()
