"""
A store of another program becomes ours: at once, durably, or not at all.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, bodies, fill, kill_while

from pystore.consumequeue.queues import ConsumeQueues
from pystore.core.live_page import LivePage, LiveWords
from pystore.fs.atomic import sync_descriptor
from pystore.rocketmq.checkpoint_file import CheckpointTimes
from pystore.store import adopt
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store

_V1 = 0xDAA320A7


def _record(number: int, store_ms: int, size: int) -> bytes:
    """
    A V1 record without body, of topic T, filled up with one property.
    """
    value = b"a\x01" + b"x" * (size - 91 - 1 - 3) + b"\x02"
    record = bytearray(size)
    record[:8] = size.to_bytes(4, "big") + _V1.to_bytes(4, "big")
    record[20:36] = number.to_bytes(8, "big") + (number * size).to_bytes(8, "big")
    record[40:48] = record[56:64] = store_ms.to_bytes(8, "big")
    record[88:92] = b"\x01T" + len(value).to_bytes(2, "big")
    record[92:] = value
    return bytes(record)


def _stale_store(root: Path, size: int) -> None:
    """
    Ten equal records, cut to four by RocketMQ, two appended to another queue: four
    are stale.
    """
    (root / "commitlog").mkdir(parents=True)
    records = b"".join(_record(i, 1_000_000, size) for i in range(10))
    for number in (4, 5):
        at = number * size
        queue = (1).to_bytes(4, "big") + bytes(4) + (number - 4).to_bytes(8, "big")
        records = records[: at + 12] + queue + records[at + 28 :]
    (root / "commitlog" / f"{0:020d}").write_bytes(records.ljust(SEGMENT, b"\0"))
    (root / "checkpoint").write_bytes(CheckpointTimes(1_010_000, 1_010_000).encode())
    with (
        CommitLog(root, mode="r") as log,
        ConsumeQueues(root, 6000, is_writable=True) as queues,
    ):
        queues.load()
        queues.dispatch(next(log.scan())[:6], 6 * size, log.topic)


def _die_behind_the_adoption(root: Path) -> None:
    """
    Open the store in a child that dies between the transaction that adopts it and
    the announcement in the live page.
    """
    announce = LivePage.begin

    def announce_once(live: LivePage, words: LiveWords) -> None:
        # The first begin makes the page invalid.
        if words.boot_id != bytes(16):
            os._exit(7)
        announce(live, words)

    child = os.fork()
    if child == 0:
        try:
            LivePage.begin = announce_once  # type: ignore[method-assign, assignment]
            CommitLog(root)
        finally:
            os._exit(1)
    assert 7 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_stale_records_stay_cut_after_a_crash_in_the_opening(tmp_path: Path) -> None:
    """
    The end by the evidence is stored as an intent, since the evidence is gone
    afterwards.
    """
    root, size = tmp_path / "store", 100
    _stale_store(root, size)
    _die_behind_the_adoption(root)

    with CommitLog(root) as log:
        assert 6 * size == log.end_offset
        assert 6 == len(bodies(log))


def test_the_page_of_another_log_is_not_valid(tmp_path: Path) -> None:
    """
    A copy whose log is older than its live page opens, also after a crash between
    its adoption and its own first announcement (A15).
    """
    root, copy = tmp_path / "store", tmp_path / "copy"
    kill_while(root, lambda log: fill(log, 30))
    shutil.copytree(root, copy)
    with CommitLog(root, mode="r") as log:
        at = [int(one) for rows in log.scan() for one in rows["offset"]][20]
    with (copy / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(at)
        file.write(bytes(SEGMENT - at))
    _die_behind_the_adoption(copy)

    with CommitLog(copy) as log:
        assert 20 == len(bodies(log))


def test_files_of_another_program_are_synced_before_the_adoption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A copy may be in the page cache only: files and names of log and queues.
    """
    root, copy = tmp_path / "store", tmp_path / "copy"
    with Store(root, segment_size=SEGMENT) as store:
        fill(store.log, 1000)
    shutil.copytree(root, copy)
    synced = set()

    def sync(descriptor: int) -> None:
        synced.add(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        sync_descriptor(descriptor)

    monkeypatch.setattr(adopt, "sync_descriptor", sync)
    CommitLog(copy).close()
    expected = {copy / "commitlog", copy / "consumequeue"}
    for top in list(expected):
        expected.update(top.rglob("*"))

    assert len(list((copy / "commitlog").iterdir())) > 1
    assert expected == synced
    synced.clear()
    CommitLog(copy).close()
    assert set() == synced
