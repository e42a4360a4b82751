"""
Random stores of RocketMQ's own classes, compared with pystore record for record.

One Java process makes the stores and reads the copies. A copy is made while that
process is stopped, which is what SIGKILL leaves; or after a clean close. RocketMQ
opens one copy, pystore another one; then RocketMQ opens what pystore left.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from interop.jvm import DEFAULT_VERSION, Json, StoreTool
from interop.logs import records_of

from pystore.errors import PystoreError
from pystore.store.store import Store
from pystore.verify.store import verify_store

__all__ = ["LISTED", "Disagreement", "RandomStores"]

_STORES_MAX = 120
_MESSAGES = 60

LISTED = {
    "zeros-at-the-end": "A6: the last record has no property CRC and ends in zeros, as "
    "after a lost sector: pystore saves it and cuts it",
    "deleted-topic": "each record of the log has an entry: a queue of a deleted topic "
    "that has no newer record comes back",
}
"""The rules by which the two programs may differ, and why."""


class Disagreement(NamedTuple):
    """
    One thing that RocketMQ and pystore see differently.

    Attributes:
        rule: a short name of the kind.
        text: what each of them sees.
    """

    rule: str
    text: str


@dataclass(slots=True)
class MadeStore:
    """
    The copy of a random store.

    Attributes:
        seed: of its content.
        root: the copy.
        config: of RocketMQ.
        acknowledged: offset, size and queue offset of each accepted message.
        is_killed: whether the process was stopped with the store open.
        deleted: topics that were deleted; later messages may have made them again.
    """

    seed: int
    root: Path
    config: Json
    acknowledged: list[list[int]]
    is_killed: bool
    deleted: list[str]


@dataclass(slots=True)
class RandomStores:
    """
    Makes and compares random stores; replaces the Java process from time to time.

    A context manager.

    Args:
        folder: the stores are below it, and removed after their comparison.
        version: of RocketMQ.
        is_odd: whether there are properties that no client writes.
    """

    folder: Path
    version: str = DEFAULT_VERSION
    is_odd: bool = True
    _tools: list[StoreTool] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for tool in self._tools:
            tool.halt()

    def _java(self) -> StoreTool:
        if self._tools and self._tools[0].stores_opened >= _STORES_MAX:
            self._tools.pop().halt()
        if not self._tools:
            self._tools.append(StoreTool(version=self.version))
        return self._tools[0]

    def make(self, seed: int) -> MadeStore:
        """
        Makes a store, and a copy of it: of the stopped process for two of three seeds.
        In the others two topics are deleted and made again.
        """
        java, root = self._java(), self.folder / f"{seed}-made"
        is_killed = seed % 3 != 0
        java.stores_opened += 1
        made = java.ask(
            {
                "do": "random",
                "root": str(root),
                "seed": seed,
                "odd": self.is_odd,
                "count": _MESSAGES,
                # After a kill RocketMQ gives the new queue entries of old records.
                "again": not is_killed,
            }
        )
        if not is_killed:
            java.ask({"do": "close", "roots": [str(root)]})
        copy = self.folder / f"{seed}-killed"
        os.kill(java.pid, signal.SIGSTOP)
        try:
            # Until then a thread may write on, and the copy is of no one moment.
            os.waitid(os.P_PID, java.pid, os.WSTOPPED)
            shutil.copytree(root, copy)
        finally:
            os.kill(java.pid, signal.SIGCONT)
        return MadeStore(
            seed,
            copy,
            made["config"],
            made["acknowledged"],
            is_killed,
            made["deleted"],
        )

    def recover(self, root: Path, config: Json) -> Json:
        """
        Returns what RocketMQ reads from a store after its recovery and dispatch.
        """
        store = self._java().open(root, config)
        if not store.opened["loadOk"]:
            return store.opened
        return store.opened | store.report()

    def compare(self, seed: int) -> list[Disagreement]:
        """
        Makes the store of a seed and returns how the two programs differ about it.
        """
        made = self.make(seed)
        theirs, ours = self.folder / f"{seed}-theirs", self.folder / f"{seed}-ours"
        shutil.copytree(made.root, theirs)
        shutil.copytree(made.root, ours)
        found = list(self._differ(made, theirs, ours))
        # The threads of an open store take time from those of the next ones.
        roots = [str(one) for one in self.folder.glob(f"{seed}-*")]
        self._java().ask({"do": "leave", "roots": roots})
        for path in self.folder.glob(f"{seed}-*"):
            if not found:
                shutil.rmtree(path, ignore_errors=True)
        return found

    def _differ(
        self, made: MadeStore, theirs: Path, ours: Path
    ) -> Iterator[Disagreement]:
        expected = self.recover(theirs, made.config)
        is_coded_otherwise = (
            "messageDelayLevel" in made.config or made.config["enableConsumeQueueExt"]
        )
        extension = _contents(ours / "consumequeue_ext")
        report = verify_store(ours)
        for damage in report.damages:
            is_code = is_coded_otherwise and "not its record" in damage.reason
            rule = "verify-tags-code" if is_code else "verify-damage"
            yield Disagreement(rule, f"{damage.path}: {damage.reason}")
        end, is_torn = report.end_offset, _ends_in_zeros(made.root, expected)
        if not report.damages and end != expected["maxPhyOffset"]:
            is_last = is_torn and end == expected["lastRecordOffset"]
            rule = "zeros-at-the-end" if is_last else "verify-end"
            yield Disagreement(rule, f"{expected['maxPhyOffset']} != {end}")
        try:
            with Store(
                ours,
                queue_file_bytes=int(made.config["mappedFileSizeConsumeQueue"]),
                delay_levels=made.config.get("messageDelayLevel", ""),
            ) as store:
                lines = [
                    each.as_dict(plain=True) for each in records_of(store.log.reader)
                ]
                entries = {
                    f"{queue.topic}/{queue.queue_id}": queue.entries(
                        queue.first_slot, queue.max_index - queue.first_slot
                    ).tolist()
                    for queue in store.queues
                }
                recovery = store.log.recovery
                saved = recovery.loss
        except PystoreError as error:
            # An opening that refuses what RocketMQ opens is a disagreement.
            yield Disagreement("refused", str(error))
            return
        records = expected["records"]
        if len(records) != len(lines):
            # All other differences follow from it.
            is_last = is_torn and len(records) == len(lines) + 1 and saved is not None
            yield Disagreement(
                "zeros-at-the-end" if is_last else "records",
                f"{len(records)} != {len(lines)}: {recovery.cut_reason}",
            )
            return
        yield from differ_in_records(records, lines, has_codes=not is_coded_otherwise)
        if not made.config["enableConsumeQueueExt"]:
            # RocketMQ reports the code that an extension has, not its address.
            yield from differ_in_queues(
                expected["consumeQueues"], entries, made.deleted
            )
        if extension != _contents(ours / "consumequeue_ext"):
            yield Disagreement("extension", "pystore changed it")
        again = self.recover(ours, made.config)
        if not again["loadOk"]:
            yield Disagreement("back-refused", "RocketMQ does not load it any more")
            return
        queues = again["consumeQueues"]
        for name in queues.keys() - expected["consumeQueues"].keys():
            if name.rpartition("/")[0] in made.deleted:
                del queues[name]  # `differ_in_queues` reported it
        for name in ("maxPhyOffset", "records", "consumeQueues"):
            if _comparable(expected[name]) != _comparable(again[name]):
                yield Disagreement(f"back-{name}", _change(expected[name], again[name]))


def differ_in_records(
    records: list[Json], lines: list[Json], *, has_codes: bool
) -> Iterator[Disagreement]:
    """
    Yields the differences of records, key by key.

    Args:
        records: of RocketMQ. One that its decoder refuses has few keys.
        lines: the record lines of pystore.
        has_codes: whether a record alone decides its tags code.
    """
    for theirs, ours in zip(records, lines, strict=True):
        keys = theirs.keys() | (ours.keys() if "topic" in theirs else set())
        for key in sorted(keys - (set() if has_codes else {"tagsCode"})):
            if theirs.get(key) != ours.get(key):
                yield Disagreement(
                    f"record-{key}",
                    f"{theirs['offset']}: {theirs.get(key)!r} != {ours.get(key)!r}",
                )


def differ_in_queues(
    theirs: dict[str, Json],
    ours: dict[str, list[tuple[int, int, int]]],
    deleted: list[str],
) -> Iterator[Disagreement]:
    """
    Yields the queues whose entries differ, by ``topic/queue``.

    Args:
        theirs: of RocketMQ.
        ours: of pystore.
        deleted: topics that were deleted.
    """
    expected = {
        name: [tuple(entry) for entry in queue["entries"]]
        for name, queue in theirs.items()
        if queue["entries"]
    }
    found = {name: [*map(tuple, rows)] for name, rows in ours.items() if rows}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            rule = "queue-light" if name.startswith("%LMQ%") else "queue"
            if name not in expected and name.rpartition("/")[0] in deleted:
                rule = "deleted-topic"
            yield Disagreement(
                rule, f"{name}: {expected.get(name)} != {found.get(name)}"
            )


def _contents(folder: Path) -> dict[Path, bytes]:
    return {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def _ends_in_zeros(root: Path, expected: Json) -> bool:
    """
    Whether the last record that RocketMQ reads ends in a zero, and has no property CRC.
    """
    end = expected["maxPhyOffset"]
    for path in sorted((root / "commitlog").iterdir()):
        base, data = int(path.name), path.read_bytes()
        if base < end <= base + len(data):
            record = data[expected["lastRecordOffset"] - base : end - base]
            return record[-1:] == b"\0" and b"__CRC32#" not in record[-40:]
    return False


def _change(before: Any, after: Any) -> str:
    """
    The first values that RocketMQ reads otherwise after pystore.
    """
    left, right = _comparable(before), _comparable(after)
    if isinstance(left, dict):
        names = sorted(left.keys() | right.keys())
        changed = [one for one in names if left.get(one) != right.get(one)]
        lines = [f"{one}: {left.get(one)} != {right.get(one)}" for one in changed[:2]]
        return "; ".join(lines)
    if isinstance(left, list):
        pairs = zip(left, right, strict=False)
        lines = [f"{one} != {two}" for one, two in pairs if one != two]
        return f"{len(left)} and {len(right)}: {lines[:1]}"
    return f"{left} != {right}"


def _comparable(value: Any) -> Any:
    """
    Without what a reader's position decides.
    """
    if isinstance(value, dict):
        return {name: queue["entries"] for name, queue in value.items()}
    return value
