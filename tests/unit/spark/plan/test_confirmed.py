"""
One rule for what is confirmed, for streams, export and compact.
"""

from __future__ import annotations

from pathlib import Path

from lib.store.stores import SEGMENT, fill

from pystore.spark.compact.plan import CompactionChoice, make_plan
from pystore.spark.plan.confirmed import confirmed_end
from pystore.spark.source.tail import FollowedStore
from pystore.store.commit_log import CommitLog


def ends_of(root: Path) -> tuple[int, int]:
    """
    The confirmed ends for compact, and for streams and export.
    """
    with FollowedStore(root, published=False).snapshot() as snapshot:
        plan = make_plan(root, CompactionChoice(topics=("*",)))
        return plan.end, snapshot.top


def test_a_store_with_epochs_is_confirmed_to_its_confirm_offset(tmp_path: Path) -> None:
    """
    Also if that is 0: a new master may cut everything.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        offsets = fill(log, 20)
        assert (0, 0) == ends_of(log.path)
        log.writer.log.confirm(offsets[7])
        assert (offsets[7], offsets[7]) == ends_of(log.path)
        with FollowedStore(log.path, published=True).snapshot() as snapshot:
            assert log.end_offset == snapshot.top


def test_a_store_without_replicas_is_confirmed_to_its_end(tmp_path: Path) -> None:
    """
    It has no epochs and no confirm offset.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        fill(log, 20)
        end = log.end_offset
        assert (end, end) == ends_of(log.path)
        assert end == confirmed_end(log.path, log.reader.ends(), is_live=True)
