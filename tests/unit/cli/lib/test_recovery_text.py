"""
The cut of an opening is reported in one line.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lib.command_line import make_store

from pystore.cli.lib.recovery_text import opening_lines, recovery_json
from pystore.recovery.salvage import Loss
from pystore.store.commit_log import CommitLog


def test_a_clean_opening_has_no_lines(tmp_path: Path) -> None:
    """
    There is nothing to report.
    """
    with CommitLog(make_store(tmp_path / "s")) as log:
        assert [] == opening_lines(log.recovery)
        assert recovery_json(log.recovery)["clean"] is True


def test_cuts_and_changes_by_other_programs_are_reported(tmp_path: Path) -> None:
    """
    The line has number, offset, reason and rule.
    """
    with CommitLog(make_store(tmp_path / "s")) as log:
        report = replace(
            log.recovery,
            foreign=("abort was removed",),
            cut_offset=70,
            cut_bytes=1234,
            cut_reason="the reason",
            rule="A6",
            loss=Loss(tmp_path / "lost", 5, (80, 90)),
        )

    assert [
        "another program changed the store: abort was removed",
        "1,234 bytes were cut at offset 70: the reason (rule A6)",
    ] == opening_lines(report)
    found = recovery_json(report)
    assert (str(tmp_path / "lost"), 5, [80, 90]) == (
        found["lostDirectory"],
        found["lostBytesSaved"],
        found["lostRecords"],
    )
