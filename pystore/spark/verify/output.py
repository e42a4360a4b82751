"""
The output of a round: rows as Parquet, a summary, an HTML page.
"""

from __future__ import annotations

import json
from pathlib import Path

from pystore.fs.atomic import replace_file
from pystore.spark.verify.html_report import render_report
from pystore.spark.verify.rounds import AUDIT, write_newest, write_round
from pystore.spark.verify.run import VerifyRun
from pystore.spark.verify.summary import summary_of
from pystore.text import SCHEMA_VERSION

__all__ = ["PAGE", "SUMMARY", "write_output"]

PAGE = "report.html"
SUMMARY = "summary.json"


def write_output(
    folder: Path, found: VerifyRun, newest: VerifyRun | None = None
) -> None:
    """
    Writes the rows of a round, then the newest verdicts over all rounds, and the
    summary and the page of these.

    Each file appears complete or not at all.

    Args:
        folder: for the files.
        found: the round.
        newest: the newest verdicts; by default those of the round.

    Raises:
        StorageError: the system refused.
        InvalidError: another job writes into the folder.
    """
    newest = newest or found
    write_round(folder, found)
    write_newest(folder, newest)
    summary = {"schemaVersion": SCHEMA_VERSION, **summary_of(newest)}
    texts = {
        SUMMARY: json.dumps(summary, ensure_ascii=False, indent=2) + "\n",
        PAGE: render_report(newest),
    }
    for name, text in texts.items():
        replace_file(folder / name, text.encode(), folder / AUDIT)
