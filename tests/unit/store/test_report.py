"""
The report of an opening.
"""

from __future__ import annotations

from pathlib import Path

from lib.store.stores import SEGMENT, fill, kill_while

from pystore.recovery.dry_run import inspect
from pystore.store.commit_log import CommitLog
from pystore.store.report import report_of


def test_a_dry_run_and_the_opening_after_it_report_the_same_cut(
    tmp_path: Path,
) -> None:
    """
    Bytes, offset, reason and rule agree; the opening adds the work it did.
    """
    root = tmp_path / "store"
    kill_while(root, lambda log: fill(log, 10))
    end = inspect(root).plan.end_offset
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(end)
        file.write(b"\xff" * 37)
    dry = report_of(inspect(root).plan)
    with CommitLog(root, segment_size=SEGMENT) as log:
        done = log.recovery

    assert (end, 37, "A19") == (dry.cut_offset, dry.cut_bytes, dry.rule)
    assert (dry.cut_offset, dry.cut_bytes, dry.cut_reason, dry.rule) == (
        done.cut_offset,
        done.cut_bytes,
        done.cut_reason,
        done.rule,
    )
    assert done.bytes_zeroed == 37
