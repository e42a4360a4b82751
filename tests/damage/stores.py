"""
The stores that are damaged: small ones, left in each way that a process leaves one, and
those of RocketMQ.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from lib.oracle.golden_data import STORES

from pystore import CommitLog, Message, Store
from pystore.fs.layout import COMMIT_LOG, LIVE_NAME, META_NAME

__all__ = ["SEGMENT", "Kept", "State", "make_all", "make_stores", "opened"]

SEGMENT = 16384
HALF = 110
"""The records of each of two processes."""

QUEUE_FILE = 400
BOOT_ID = slice(24, 40)

State = Literal["clean", "killed", "another boot", "writer running", "of RocketMQ"]
STATES: tuple[State, ...] = ("clean", "killed", "another boot")

GOLDEN = ("propcrc-batch", "abort-propcrc", "prefix-deleted")
"""The stores of RocketMQ, which pystore opened and closed once."""


@dataclass(frozen=True)
class Kept:
    """
    A store, and what was acknowledged as synced in it.

    Attributes:
        root: its directory.
        state: how it was left.
        has_queues: whether it was written with consume queues.
        has_crc: whether its records have a property CRC.
        records: each record by its offset.
        backup: a copy of the directory as it was left.
        older: a copy from when half of the records were there, left in the same way.
        replica: another store with the same log, closed.
        queue_file_bytes: of a file of a consume queue.
    """

    root: Path
    state: State
    has_queues: bool
    has_crc: bool
    records: dict[int, bytes]
    backup: Path
    older: Path
    replica: Path
    queue_file_bytes: int = QUEUE_FILE

    @cached_property
    def _contents(self) -> dict[str, bytes]:
        files = sorted(path for path in self.backup.rglob("*") if path.is_file())
        return {str(one.relative_to(self.backup)): one.read_bytes() for one in files}

    @cached_property
    def _folders(self) -> list[str]:
        paths = sorted(path for path in self.backup.rglob("*") if path.is_dir())
        return [str(path.relative_to(self.backup)) for path in paths]

    def restore(self, root: Path) -> None:
        """
        Makes *root* what the store was. A store is known by its directory, which stays.
        """
        root.mkdir(exist_ok=True)
        for path in root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name in self._folders:
            (root / name).mkdir()
        for name, content in self._contents.items():
            (root / name).write_bytes(content)


def make_all(folder: Path) -> list[Kept]:
    """
    As `make_stores`, and the stores that have a writer and those of RocketMQ.
    """
    return [
        *make_stores(folder, (*STATES, "writer running")),
        *(_adopted(folder, name) for name in GOLDEN),
    ]


def make_stores(folder: Path, states: tuple[State, ...] = STATES) -> list[Kept]:
    """
    One store for each state, with and without queues and property CRCs.
    """
    return [
        _made(folder, state, has_queues=has_queues, has_crc=has_crc)
        for state in states
        for has_queues in (True, False)
        for has_crc in (True, False)
    ]


def _made(folder: Path, state: State, *, has_queues: bool, has_crc: bool) -> Kept:
    name = f"{state}-{int(has_queues)}{int(has_crc)}".replace(" ", "-")
    root = folder / name
    _write(root, state, 0, has_queues=has_queues, has_crc=has_crc)
    older = shutil.copytree(root, folder / f"{name}.older")
    _write(root, state, HALF, has_queues=has_queues, has_crc=has_crc)
    backup = shutil.copytree(root, folder / f"{name}.backup")
    replica = folder / f"{name}.replica"
    _follow(backup, replica, has_queues=has_queues, has_crc=has_crc)
    records = _records_of(root)
    return Kept(root, state, has_queues, has_crc, records, backup, older, replica)


def _adopted(folder: Path, name: str) -> Kept:
    """
    A store of RocketMQ that pystore opened and closed.
    """
    (golden,) = (one for one in STORES if one.name == name)
    root = golden.extract(folder)
    size = int(golden.expected["config"]["mappedFileSizeConsumeQueue"])
    older = shutil.copytree(root, folder / f"{name}.older")
    replica = shutil.copytree(root, folder / f"{name}.replica")
    for one in (root, replica):
        Store(one, queue_file_bytes=size).close()
    backup = shutil.copytree(root, folder / f"{name}.backup")
    has_crc = "propcrc" in name
    records = _records_of(root)
    return Kept(
        root=root,
        state="of RocketMQ",
        has_queues=True,
        has_crc=has_crc,
        records=records,
        backup=backup,
        older=older,
        replica=replica,
        queue_file_bytes=size,
    )


def _records_of(root: Path) -> dict[int, bytes]:
    with CommitLog(root, mode="r") as log:
        offsets = [int(one) for rows in log.scan() for one in rows["offset"]]
        return {offset: log.read(offset).data for offset in offsets}


def _follow(root: Path, target: Path, *, has_queues: bool, has_crc: bool) -> None:
    """
    Makes a store that has the bytes of another log.
    """
    with CommitLog(root, mode="r") as log:
        end = log.end_offset
    with opened(target, has_queues=has_queues, has_crc=has_crc) as store:
        log = store.log if isinstance(store, Store) else store
        for path in sorted((root / COMMIT_LOG).iterdir()):
            base = int(path.name)
            log.writer.log.append_raw(base, path.read_bytes()[: end - base])
        log.sync()


def opened(root: Path, *, has_queues: bool, has_crc: bool) -> Store | CommitLog:
    """
    A store that is open for writing, new or not.
    """
    if has_queues:
        return Store(
            root,
            segment_size=SEGMENT,
            queue_file_bytes=QUEUE_FILE,
            property_crc=has_crc,
        )
    return CommitLog(root, segment_size=SEGMENT, property_crc=has_crc)


def _write(
    root: Path, state: State, first: int, *, has_queues: bool, has_crc: bool
) -> None:
    child = os.fork()
    if child == 0:
        try:
            _work(root, state, first, has_queues=has_queues, has_crc=has_crc)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    is_closed = state in ("clean", "writer running")
    assert status == (0 if is_closed else signal.SIGKILL), status
    if state == "another boot":
        page = root / META_NAME / LIVE_NAME
        content = bytearray(page.read_bytes())
        content[BOOT_ID] = os.urandom(16)
        page.write_bytes(content)


def _work(
    root: Path, state: State, first: int, *, has_queues: bool, has_crc: bool
) -> None:
    draw = random.Random(first)
    store = opened(root, has_queues=has_queues, has_crc=has_crc)
    log = store.log if isinstance(store, Store) else store
    for number in range(first, first + HALF):
        body = bytes([65 + number % 26]) * draw.randrange(400)
        log.append(Message(f"t{number % 2}", body, queue_id=number % 3))
    log.sync()
    store.keep()
    if state in ("clean", "writer running"):
        store.close()
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
