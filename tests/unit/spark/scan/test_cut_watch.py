"""
A task notices cuts below its end, and no others.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, fill, message

from pystore.errors import CutError, StorageError
from pystore.fs.cut_history import CUTS_AT
from pystore.spark.plan.split import Split
from pystore.spark.scan.cut_watch import CutWatch
from pystore.store.commit_log import CommitLog


def split_to(log: CommitLog, end: int, generation: int | None) -> Split:
    """
    The records of the first segment below an offset.
    """
    return Split(str(log.path), 0, SEGMENT, 0, end, end, generation=generation)


def test_cuts_above_the_end_of_a_task_are_none_of_its_cuts(tmp_path: Path) -> None:
    """
    Any number of them. A cut below is an error that names the least offset.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 100)
        planned = log.reader.ends().cut_generation
        with CutWatch(split_to(log, offsets[50], planned)) as watch:
            for record in (90, 70, 60):
                log.cut(offsets[record])
                watch.unchanged()
            log.cut(offsets[20])
            fill(log, 30)
            log.cut(log.append(message(1)).offset)
            with pytest.raises(CutError, match=f"cut at {offsets[20]} while"):
                watch.unchanged()
        with CutWatch(split_to(log, offsets[50], planned + 99)) as watch:
            watch.unchanged()  # a page of another host, older than the plan
        with CutWatch(split_to(log, offsets[50], None)) as watch:
            watch.unchanged()


def test_without_a_history_one_cut_above_is_known(tmp_path: Path) -> None:
    """
    The writer is an older pystore. After a second cut the first one is not known.
    """
    with CommitLog(tmp_path / "store", segment_size=SEGMENT) as log:
        offsets = fill(log, 100)
        planned = log.reader.ends().cut_generation
        with CutWatch(split_to(log, offsets[50], planned)) as watch:
            for cut, is_noticed in ((90, False), (80, True)):
                log.cut(offsets[cut])
                with (log.path / "meta" / "live").open("r+b") as page:
                    page.seek(CUTS_AT)
                    page.write(bytes(64))
                if not is_noticed:
                    watch.unchanged()
                    continue
                with pytest.raises(CutError):
                    watch.unchanged()


def test_a_missing_page_is_an_error(tmp_path: Path) -> None:
    """
    The store was replaced since the plan.
    """
    with pytest.raises(StorageError, match="meta/live: cannot read"):
        CutWatch(Split(str(tmp_path), 0, SEGMENT, 0, 1, 1, generation=1))
