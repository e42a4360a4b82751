"""
``pystore epochs``: the epochs of a log, and where two logs diverge.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pystore.cli.lib.exit_codes import BAD, DONE
from pystore.cli.lib.group import StorePath, json_option, store_argument
from pystore.cli.lib.output import echo_json, lines_text, table_text, verdict_text
from pystore.epochs.table import EpochTable
from pystore.fs.layout import META_NAME
from pystore.recovery.dry_run import inspect
from pystore.recovery.foreign_writer import find
from pystore.store.commit_log import CommitLog
from pystore.text import count_text

__all__ = ["StoreEpochs", "epochs", "history_of"]

_EXAMPLE = """\b
Example: the consistent point of two replicas
  pystore epochs /data/master --against /data/slave
"""


@dataclass(frozen=True, slots=True)
class StoreEpochs:
    """
    The epochs of a store and the end of its log.
    """

    table: EpochTable
    end_offset: int

    def rows(self) -> list[tuple[int, int, int]]:
        """
        Returns epoch, start and end of each epoch, oldest first.
        """
        return [
            (
                entry.epoch,
                entry.start_offset,
                min(self.table.end_of(entry), self.end_offset),
            )
            for entry in self.table.entries
        ]


def history_of(store: Path) -> StoreEpochs:
    """
    Reads the epochs of a store: from ``meta/``, or from RocketMQ's epoch file.

    Raises:
        PystoreError: not a store, or its epochs cannot be read.
    """
    if (store / META_NAME).is_dir():
        plan = inspect(store, with_rocketmq=False).plan
        return StoreEpochs(plan.epochs, plan.end_offset)
    with CommitLog(store, mode="r") as log:
        table = find(store).read().epochs or EpochTable()
        return StoreEpochs(table.drop_above(log.end_offset), log.end_offset)


@click.command(short_help="Show epochs; compare two stores.", epilog=_EXAMPLE)
@store_argument
@click.option(
    "--against",
    type=StorePath(),
    metavar="STORE",
    help="Also find the offset below which both stores hold the same bytes.",
)
@json_option
def epochs(*, store: Path, against: Path | None, as_json: bool) -> int:
    """
    Show the epochs of STORE: one for each mastership that wrote to its log.

    With --against, show the consistent point of two replicas: below it their logs
    are equal, above it one of them must be cut. The exit code is 1 if the replicas have
    no epoch in common.
    """
    ours = history_of(store)
    report = {"store": str(store), **_json(ours)}
    if against is None:
        echo_json(report) if as_json else click.echo(_text(store, ours))
        return DONE
    theirs = history_of(against)
    point = ours.table.consistent_point(
        theirs.table, ours.end_offset, theirs.end_offset
    )
    if as_json:
        report["against"] = {"store": str(against), **_json(theirs)}
        report["consistentPoint"] = point
        echo_json(report)
    else:
        click.echo(_text(store, ours) + "\n\n" + _text(against, theirs))
        click.echo("\n" + _point_text(point, (store, ours), (against, theirs)))
    return BAD if point is None else DONE


def _json(history: StoreEpochs) -> dict[str, Any]:
    return {
        "endOffset": history.end_offset,
        "epochs": [
            {"epoch": epoch, "startOffset": start, "endOffset": end}
            for epoch, start, end in history.rows()
        ],
    }


def _text(store: Path, history: StoreEpochs) -> str:
    rows = [
        (str(epoch), count_text(start), count_text(end), count_text(end - start))
        for epoch, start, end in history.rows()
    ]
    head = f"{store}: the log ends at {count_text(history.end_offset)}"
    if not rows:
        return lines_text([f"{head}; no epochs"])
    return (
        lines_text([head]) + "\n" + table_text(("epoch", "start", "end", "bytes"), rows)
    )


def _point_text(
    point: int | None, ours: tuple[Path, StoreEpochs], theirs: tuple[Path, StoreEpochs]
) -> str:
    if point is None:
        text = "the two stores have no epoch in common, and so no common point"
        return verdict_text(text, is_good=False)
    lines = [f"consistent point: {count_text(point)}"]
    for path, history in (ours, theirs):
        above = history.end_offset - point
        lines.append(f"  {path}: {count_text(above)} bytes above it")
    return lines_text(lines)
