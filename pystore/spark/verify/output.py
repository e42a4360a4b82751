"""
The output of a round: rows as Parquet, a summary, an HTML page.
"""

from __future__ import annotations

import json
from pathlib import Path

from pystore.fs.atomic import replace_file
from pystore.spark.verify.html_report import render_report
from pystore.spark.verify.rounds import AUDIT, write_round
from pystore.spark.verify.run import VerifyRun
from pystore.spark.verify.summary import summary_of
from pystore.text import SCHEMA_VERSION

__all__ = ["PAGE", "SUMMARY", "write_output"]

PAGE = "report.html"
SUMMARY = "summary.json"


def write_output(folder: Path, found: VerifyRun) -> None:
    """
    Writes the rows of a round, then the summary and the page of the latest round.

    Each file appears complete or not at all.

    Raises:
        StorageError: the system refused.
        InvalidError: another job writes into the folder.
    """
    write_round(folder, found)
    summary = {"schemaVersion": SCHEMA_VERSION, **summary_of(found)}
    texts = {
        SUMMARY: json.dumps(summary, ensure_ascii=False, indent=2) + "\n",
        PAGE: render_report(found),
    }
    for name, text in texts.items():
        replace_file(folder / name, text.encode(), folder / AUDIT)
