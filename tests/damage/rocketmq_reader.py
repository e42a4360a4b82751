"""
RocketMQ's own classes read what pystore left of a damaged store.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from damage.stores import Kept
from interop import jvm

from pystore import CommitLog, Store
from pystore.errors import PystoreError
from pystore.fs.layout import segment_path
from pystore.verify import verify_store

__all__ = ["RocketmqReader"]

_STORES_MAX = 24
"""The threads of an open store run all the time: then the process is replaced."""


class RocketmqReader:
    """
    A Java process that opens one store after the other. A context manager.

    Args:
        folder: has the copies that it opens.

    Attributes:
        stores_read: their number.
        left_out: why RocketMQ reads nothing, if programs are missing; else empty.
    """

    def __init__(self, folder: Path) -> None:
        self.stores_read = 0
        self.left_out = ""
        self._folder = folder / "rocketmq"
        self._tool: jvm.StoreTool | None = None
        missing = jvm.missing_tools()
        if missing:
            # In CI nothing is left out.
            assert os.environ.get("CI") != "true", missing
            self.left_out = f" (left out, not installed: {', '.join(missing)})"

    def judge(self, root: Path, kept: Kept) -> list[str]:
        """
        The objections to a closed store: what `verify` calls whole, RocketMQ reads to
        the same end, with the same records and queues.
        """
        if self.left_out:
            return []
        try:
            if verify_store(root).verdict != "whole":
                return []
        except PystoreError:
            # It was refused, and is as it was.
            return []
        if (root / "abort").exists():
            return []  # no opening changed it
        return self._compare(root, kept)

    def _compare(self, root: Path, kept: Kept) -> list[str]:
        java = self._java()
        copy = self._folder / str(self.stores_read)
        shutil.copytree(root, copy)
        self.stores_read += 1
        ours = _facts(root, kept)
        config = {
            "mappedFileSizeCommitLog": str(ours.pop("segmentSize")),
            "mappedFileSizeConsumeQueue": str(kept.queue_file_bytes),
            "maxHashSlotNum": "100",
            "maxIndexNum": "400",
        }
        opened = java.open(copy, config)
        if not opened.opened["loadOk"]:
            return [f"RocketMQ does not load it: {opened.opened}"]
        report = opened.report()
        theirs = {
            "end": opened.opened["maxPhyOffset"],
            "records": {
                line["offset"]: line["recordSha256"] for line in report["records"]
            },
            "queues": {
                name: one["maxOffset"] for name, one in report["consumeQueues"].items()
            },
        }
        return [
            f"RocketMQ, {name}: {_differing(ours[name], theirs[name])}"
            for name in (theirs if kept.has_queues else ("end", "records"))
            if ours[name] != theirs[name]
        ]

    def _java(self) -> jvm.StoreTool:
        if self._tool is None:
            jvm.fetch()
        elif self._tool.stores_opened >= _STORES_MAX:
            self._tool.halt()
            self._tool = None
            for path in self._folder.iterdir():
                shutil.rmtree(path)
        if self._tool is None:
            self._tool = jvm.StoreTool()
        return self._tool

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._tool is not None:
            self._tool.halt()


def _facts(root: Path, kept: Kept) -> dict[str, Any]:
    with CommitLog(root, mode="r") as log:
        offsets = [int(one) for rows in log.scan() for one in rows["offset"]]
        records = {offset: log.read(offset).data for offset in offsets}
        size = log.reader.ends().segment_size
        facts = {
            "end": _end_of_rocketmq(root, log.end_offset, size, records),
            "records": {
                offset: hashlib.sha256(data).hexdigest()
                for offset, data in records.items()
            },
            "segmentSize": size,
        }
    queues = {}
    if kept.has_queues:
        with Store(root, queue_file_bytes=kept.queue_file_bytes) as store:
            queues = {
                f"{one.topic}/{one.queue_id}": one.max_index for one in store.queues
            }
    return facts | {"queues": queues}


def _end_of_rocketmq(
    root: Path, end: int, segment_size: int, records: dict[int, bytes]
) -> int:
    """
    At the end of the last segment stands a blank record. For RocketMQ the log ends
    before it, and the next record may replace it; not if a cut left the file of the
    next segment.
    """
    if end % segment_size or not records or segment_path(root, end).exists():
        return end
    last = max(records)
    return last + len(records[last])


def _differing(ours: Any, theirs: Any) -> str:
    if not isinstance(ours, dict):
        return f"{theirs}, ours {ours}"
    names = [one for one in {*ours, *theirs} if ours.get(one) != theirs.get(one)]
    return ", ".join(
        f"{one}: {theirs.get(one)}, ours {ours.get(one)}" for one in sorted(names)[:3]
    )
