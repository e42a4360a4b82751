"""
Both programs use the same lock against a second writer.
"""

from __future__ import annotations

import fcntl
import struct
from pathlib import Path

import pytest
from interop.jvm import StoreTool
from interop.logs import records_of
from interop.messages import CONFIG, equal_sized
from lib.command_line import run

from pystore.errors import LockedError
from pystore.message.message import Message
from pystore.store.commit_log import CommitLog

# struct flock of Linux on 64-bit machines: type, whence, start, length, pid.
FLOCK = struct.Struct("hhqqi4x")


def test_a_running_rocketmq_holds_a_record_lock_on_the_first_byte(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    The file contains ``lock``; its first byte is locked, and the owner is known.
    """
    java.open(tmp_path, CONFIG)

    with (tmp_path / "lock").open("r+b") as file:
        with pytest.raises(BlockingIOError):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        wanted = FLOCK.pack(fcntl.F_WRLCK, 0, 0, 1, 0)
        held = FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, wanted))

        assert b"lock" == file.read()
    assert (fcntl.F_WRLCK, 0, 0, 1, java.pid) == held


def test_rocketmq_does_not_start_where_the_first_byte_is_locked(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    RocketMQ has loaded the store, and stops before it writes ``abort``.
    """
    with (tmp_path / "lock").open("w+b") as file:
        file.write(b"lock")
        file.flush()
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)

        store = java.open(tmp_path, CONFIG)

    assert "Lock failed,MQ already started" == store.opened["startError"]
    assert not (tmp_path / "abort").exists()


def test_a_rocketmq_without_the_lock_has_already_removed_the_next_segment(
    java: StoreTool, mortal_java: StoreTool, tmp_path: Path
) -> None:
    """
    RocketMQ recovers before it locks: it deletes the segment above the end.

    The other writer must not continue to write into a file without a name.
    """
    store = mortal_java.open(tmp_path, CONFIG)
    store.append(equal_sized(1, mark="a"))
    segments = tmp_path / "commitlog"
    names = {0: "0" * 20, 1: f"{65536:020}", 2: f"{2 * 65536:020}"}
    (segments / names[1]).touch()
    with (segments / names[1]).open("r+b") as file:
        file.truncate(65536)

    second = java.open(tmp_path, CONFIG)

    assert "Lock failed,MQ already started" == second.opened["startError"]
    assert names[0] in second.opened["commitlogFilesAfterRecovery"]
    assert names[1] not in second.opened["commitlogFilesAfterRecovery"]


def test_pystore_does_not_open_a_store_of_a_running_rocketmq(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    The error and `pystore info` name the process; readers are not affected.
    """
    store = java.open(tmp_path, CONFIG)
    store.append(equal_sized(3, mark="a"))

    with pytest.raises(LockedError, match=str(java.pid)):
        CommitLog(tmp_path)
    assert f"open: process {java.pid} writes" in run("info", tmp_path).stdout
    with CommitLog(tmp_path, mode="r") as log:
        read = [record.as_dict() for record in records_of(log.reader)]

    assert store.report()["records"] == read


def test_rocketmq_does_not_start_where_pystore_writes(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    The attempt costs pystore no record, even at the end of its segment.
    """
    bodies = [f"body {number} ".encode() * 40 for number in range(500)]
    with CommitLog(
        tmp_path, segment_size=int(CONFIG["mappedFileSizeCommitLog"])
    ) as log:
        for number, body in enumerate(bodies):
            log.append(Message("T", body))
            if number in (0, 150, 250):
                second = java.open(tmp_path, CONFIG)
                assert "Lock failed,MQ already started" == second.opened["startError"]

    with CommitLog(tmp_path) as log:
        assert bodies == [record.body for record in records_of(log.reader)]
