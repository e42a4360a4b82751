"""
The output of a round.
"""

from __future__ import annotations

import json
from pathlib import Path

from pystore.spark.verify.output import PAGE, SUMMARY, write_output
from pystore.spark.verify.rounds import NEWEST
from pystore.spark.verify.run import VerifyRun
from pystore.spark.verify.verdicts import SegmentVerdict, Verdict


def test_rounds_stay_and_summary_and_page_are_of_the_last_round(
    tmp_path: Path,
) -> None:
    """
    Rows are kept for every round; the other two files are replaced.
    """
    for number in range(2):
        verdict = SegmentVerdict("g", "/s", number, Verdict.OK)
        write_output(tmp_path, VerifyRun(number, [verdict], ["/s"], 1.0, 0.0))

    assert ["round=0", "round=1"] == sorted(
        p.name for p in (tmp_path / "audit").iterdir()
    )
    summary = json.loads((tmp_path / SUMMARY).read_text())
    assert (1, 1) == (summary["schemaVersion"], summary["round"])
    assert "pystore: round 1" in (tmp_path / PAGE).read_text()
    names = {path.name for path in tmp_path.iterdir()}
    assert {"audit", NEWEST, SUMMARY, PAGE} == names
