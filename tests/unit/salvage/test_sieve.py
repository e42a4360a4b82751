"""
A queue offset has one record, and only those that a queue can have.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.command_line import SEGMENT, overwrite, segment_file

from pystore.message.constants import NO_ENTRY
from pystore.message.message import Message
from pystore.salvage.pieces import find_pieces
from pystore.salvage.queue_witness import QueueWitness
from pystore.salvage.records import RecordBlock, walk_pieces
from pystore.salvage.report import SalvageReport
from pystore.salvage.sieve import QueueSurvey, RecordSieve
from pystore.store.commit_log import CommitLog
from pystore.store.store import Store


def sieved(root: Path, gap_max: int = 10) -> tuple[list[bytes], SalvageReport]:
    """
    The bodies that are kept, and the report on the others.
    """
    pieces, survey, report = (
        find_pieces(root),
        QueueSurvey(QueueWitness(root)),
        SalvageReport(),
    )
    walk_pieces(pieces, survey.note, SalvageReport())
    ranges = {key: runs.main_range(gap_max) for key, runs in survey.queues.items()}
    sieve, bodies = RecordSieve(ranges, survey.named, report), list[bytes]()

    def take(block: RecordBlock) -> None:
        for row in sieve.kept(block):
            at = int(row["offset"]) - block.offset + int(row["body_at"])
            bodies.append(bytes(block.data[at : at + int(row["body_size"])]))

    walk_pieces(pieces, take, report)
    return bodies, report


def test_of_equal_queue_offsets_the_first_is_kept(tmp_path: Path) -> None:
    """
    Records without an entry have no place in a queue, and are all kept.
    """
    with CommitLog(tmp_path / "s", segment_size=SEGMENT) as log:
        for number in range(2):
            log.append(Message("t", b"a%d" % number))
            log.append(Message("t", b"b%d" % number, queue_id=1))
            log.append(Message("t", b"c%d" % number, sys_flag=NO_ENTRY))
            log.writer.log.queues_reset()
    bodies, report = sieved(tmp_path / "s")

    assert [b"a0", b"b0", b"c0", b"c1"] == bodies
    assert (2, 0) == (report.repeated, report.impossible)
    assert [("t", 0, 0), ("t", 1, 0)] == [one[2:5] for one in report.rejected]


def test_a_record_that_no_queue_can_hold_is_named(tmp_path: Path) -> None:
    """
    A topic that is no name of a folder, and a queue offset far from the others.
    """
    root = tmp_path / "s"
    with CommitLog(root, segment_size=SEGMENT, property_crc=False) as log:
        log.append(Message("a_b", b"path"))
        log.append(Message("t", b"0"))
        log.append(Message("t", b"1"))
        log.writer.log.queues_load({("t", 0): 2**50})
        log.append(Message("t", b"far"))
    path = segment_file(root)
    path.write_bytes(path.read_bytes().replace(b"a_b", b"a/b"))
    bodies, report = sieved(root)

    assert [b"0", b"1"] == bodies
    assert (0, 2) == (report.repeated, report.impossible)
    named, far = report.rejected
    assert ("a/b", True) == (named.topic, "folder" in named.reason)
    assert (2**50, "the queue has the queue offsets 0 to 1") == (
        far.queue_offset,
        far.reason,
    )


@pytest.mark.parametrize("has_crc", [True, False])
def test_an_unproved_record_gives_way_to_the_one_that_the_queue_names(
    tmp_path: Path, has_crc: bool
) -> None:
    """
    A changed queue offset takes the place of no other record; a proved one is right.
    """
    root = tmp_path / "s"
    with Store(root, segment_size=SEGMENT, property_crc=has_crc) as store:
        for number in range(6):
            store.log.append(Message("t", b"%d" % number))
        if has_crc:
            store.log.writer.log.queues_reset()
            store.log.append(Message("t", b"again"))
        second = store.read("t", 0, 2).offset
    if not has_crc:
        overwrite(segment_file(root), second + 27, b"\4")
    bodies, report = sieved(root)

    (one,) = report.rejected
    if has_crc:
        assert [b"%d" % number for number in range(6)] == bodies
        assert "an earlier record has this queue offset" == one.reason
    else:
        assert [b"0", b"1", b"3", b"4", b"5"] == bodies
        assert (second, 4) == (one.offset, one.queue_offset)
        assert "the consume queue has another record" in one.reason
    assert (1, 0) == (report.repeated, report.impossible)
