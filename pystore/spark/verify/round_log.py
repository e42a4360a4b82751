"""
What a round has seen so far, in a file that grows while it runs.

A round is published at its end. If its process dies before, this file has what the
checks of segments found: no verdicts, for those need the replicas and the queues. The
next round says so, and reads these segments first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pystore.core.lock import Lock
from pystore.errors import InvalidError, LockedError, PystoreError, StorageError
from pystore.fs.atomic import replace_file, storage_error
from pystore.spark.verify.rounds import AUDIT
from pystore.spark.verify.task import SegmentCheck

__all__ = ["SEEN", "RoundLog", "lock_rounds", "read_seen"]

SEEN = "_seen.jsonl"
"""Below the folder of the rounds. Readers of Parquet pass over such a name."""

_LOCK = "_lock"

Place = tuple[str, int]


@contextmanager
def lock_rounds(folder: Path) -> Iterator[None]:
    """
    Makes the output folder if it is missing, and locks it for one job.

    Raises:
        LockedError: another job writes into it.
        StorageError: the system refused.
    """
    audit = folder / AUDIT
    try:
        audit.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("make", audit, error) from error
    try:
        lock = Lock(audit / _LOCK)
    except LockedError as error:
        # The lock's own message is about a store.
        raise LockedError(
            f"{folder}: another job writes its rounds here: wait until it ends, or "
            "give another directory",
            path=str(folder),
        ) from error
    with lock:
        yield


def read_seen(folder: Path) -> dict[Place, list[str]]:
    """
    Returns the problems that rounds saw which were not published, by store and base
    offset.

    Raises:
        InvalidError: the file is of another program, or damaged.
        StorageError: the system refused.
    """
    path = folder / AUDIT / SEEN
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        # Each round was published.
        return {}
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("read", path, error) from error
    found: dict[Place, list[str]] = {}
    # A process that was killed may leave a part of the last line.
    try:
        for line in content[: content.rfind(b"\n") + 1].splitlines():
            row = json.loads(line)
            place = str(row["store"]), int(row["segment"])
            found[place] = [str(text) for text in row["problems"]]
    except (ValueError, TypeError, KeyError) as error:
        # The caller gets the path with it.
        raise InvalidError(f"{path}: not a file of this job: move it away") from error
    return {place: texts for place, texts in found.items() if texts}


class RoundLog:
    """
    Writes what a round sees. One thread.

    Args:
        folder: of the output, locked.
        number: of the round.

    Raises:
        InvalidError, StorageError: as `read_seen`.

    Attributes:
        problem: why the file could not be written; ``None``: it was. The round goes
            on: its verdicts are told at its end.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self._path = folder / AUDIT / SEEN
        self._folder = folder
        self._number = number
        self._done: set[Place] = set()
        self.problem: PystoreError | None = None
        left = read_seen(folder)
        if self._path.exists():
            try:
                # Without a half line at its end.
                replace_file(self._path, _text_of(left).encode(), self._path.parent)
            except StorageError as error:
                # As in `note`.
                self.problem = error

    def note(self, checks: Sequence[SegmentCheck]) -> None:
        """
        Adds the segments of finished tasks, durably.
        """
        rows = [
            {
                "round": self._number,
                "store": one.store,
                "segment": one.base,
                "records": one.report.records if one.report else 0,
                "problems": _problems(one),
            }
            for one in checks
        ]
        self._done.update((one.store, one.base) for one in checks)
        if self.problem is not None:
            return
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        try:
            with self._path.open("ab") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            # Nothing is lost while this process lives.
            self.problem = storage_error("write", self._path, error)

    def publish(self) -> None:
        """
        Removes what the published round has verdicts on.

        Raises:
            StorageError: the system refused.
        """
        left = _without(read_seen(self._folder), self._done)
        if left:
            replace_file(self._path, _text_of(left).encode(), self._path.parent)
            return
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            # The caller gets the path with it.
            raise storage_error("remove", self._path, error) from error


def _without(
    found: Mapping[Place, list[str]], done: Collection[Place]
) -> dict[Place, list[str]]:
    return {place: texts for place, texts in found.items() if place not in done}


def _text_of(found: Mapping[Place, list[str]]) -> str:
    rows = (
        {"store": store, "segment": segment, "problems": texts}
        for (store, segment), texts in found.items()
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _problems(check: SegmentCheck) -> list[str]:
    """
    What the check of a segment saw. The bad record at the end of a log may be what a
    crash left.
    """
    texts = [check.error, check.seal_problem]
    if check.report is not None:
        texts += (fault.text for fault in check.report.faults)
    if check.seal is not None and not check.is_sampled and not check.is_sealed_whole:
        texts.append("its bytes are not what was sealed")
    texts += (
        f"an epoch begins at offset {offset}, but no record begins there"
        for offset in check.stray_epochs
    )
    return [text for text in texts if text]
