"""
What a broker tells a controller of the opening of its store.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from lib.ha.slave_logs import master_bytes
from lib.store.stores import SEGMENT, fill

from pystore.broker.recovery_facts import log_begin_of, log_end_of, recovery_of
from pystore.controller.model.log_end import LogBegin, LogEnd
from pystore.epochs.table import EpochEntry
from pystore.ha.slave.effects import Append, Begin
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.store.commit_log import CommitLog


def test_each_fact_of_the_opening_is_told(tmp_path: Path) -> None:
    """
    B2: the end of before, the clean mark and the pages; A15: that it is a copy.
    """
    root = tmp_path / "s"
    with CommitLog(root, segment_size=SEGMENT) as written:
        written.begin_epoch(3)
        fill(written, 20)
        end = written.end_offset
    shutil.copytree(root, tmp_path / "copy")
    with ReplicaLog(root, segment_size=SEGMENT) as log:
        told = recovery_of(log)
        assert (LogEnd(3, end), end) == (told.position, told.published_end)
        assert log.incarnation == told.incarnation
        assert log.writer.boot.boot_id.hex() == told.boot_id
        assert (told.is_clean, told.keeps_pages, told.is_copy) == (True, True, False)
    with ReplicaLog(tmp_path / "copy", segment_size=SEGMENT) as log:
        told = recovery_of(log)
        assert (told.is_clean, told.keeps_pages, told.is_copy) == (False, False, True)


def test_a_new_store_tells_no_end_of_before(tmp_path: Path) -> None:
    """
    Its log ends at 0, in no epoch.
    """
    with ReplicaLog(tmp_path / "s", segment_size=SEGMENT) as log:
        assert LogEnd(0, 0) == log_end_of(log)
        assert -1 == recovery_of(log).published_end


def test_the_begin_of_a_log_tells_what_it_lacks(tmp_path: Path) -> None:
    """
    B11, A20: without queue offsets no place tells when it lacks nothing more.
    """
    tail = memoryview(master_bytes(tmp_path / "master"))[SEGMENT:]
    with ReplicaLog(tmp_path / "late", segment_size=SEGMENT) as log:
        assert LogBegin(0) == log_begin_of(log)
        log.carry_out(Begin(SEGMENT, 0, ()))
        assert LogBegin(SEGMENT, is_filling=True) == log_begin_of(log)
    with ReplicaLog(tmp_path / "java", segment_size=SEGMENT) as log:
        log.carry_out(Append(SEGMENT, tail, EpochEntry(1, 0)))
        assert LogBegin(is_filling=True) == log_begin_of(log)
