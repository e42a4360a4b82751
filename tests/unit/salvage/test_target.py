"""
A record gets a new place, and stays what it is.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.command_line import SEGMENT

from pystore.message.message import Message
from pystore.salvage import target as salvage_target
from pystore.salvage.pieces import find_pieces
from pystore.salvage.records import walk_pieces
from pystore.salvage.report import SalvageReport
from pystore.salvage.target import SalvageTarget
from pystore.store.commit_log import CommitLog
from pystore.verify import verify_store


@pytest.mark.parametrize("size", [1024, 4096, SEGMENT])
def test_records_move_to_segments_of_another_size(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Each segment ends with a blank record, and each queue begins where it began.
    """
    monkeypatch.setattr(salvage_target, "_DISPATCH_BYTES", 3000)
    with CommitLog(tmp_path / "s", segment_size=SEGMENT) as log:
        log.writer.log.queues_load({("t", 1): 77})
        for number in range(100):
            log.append(Message("t", b"%d" % number * 100, queue_id=number % 3))
        before = [log.read(int(at)) for rows in log.scan() for at in rows["offset"]]
    firsts = {("t", 0): 0, ("t", 1): 77, ("t", 2): 0}
    root = tmp_path / "t"
    with SalvageTarget(
        root, segment_size=size, queue_file_bytes=200, firsts=firsts
    ) as target:
        walk_pieces(
            find_pieces(tmp_path / "s"),
            lambda block: target.append(block, block.rows),
            SalvageReport(),
        )
        target.finish()
        end = target.end_offset
    with CommitLog(root, mode="r") as log:
        after = [log.read(int(at)) for rows in log.scan() for at in rows["offset"]]
        assert end == log.end_offset

    assert [(one.queue_id, one.queue_offset, one.body) for one in before] == [
        (one.queue_id, one.queue_offset, one.body) for one in after
    ]
    report = verify_store(root)
    assert ("whole", 100, 100, 0) == (
        report.verdict,
        report.records,
        report.queues.entries,
        report.unproved,
    )
