"""
The directory of unfinished work: a killed run leaves it, the next run continues it.

It is in the directory of the result, so that publishing is a rename. The id of the plan
is its name, so that work on another plan is never taken for this one. A part of the
work counts as done only if its marker file exists, which is written last and synced.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pystore.fs.atomic import (
    replace_file,
    storage_error,
    sync_directory,
    sync_tree,
)
from pystore.spark.compact.copy import marker_name
from pystore.spark.compact.counts import CompactionDamage
from pystore.spark.compact.layout import QueueLayout, parse_layout
from pystore.spark.compact.plan import CompactionChoice, CompactionPlan, is_unchanged

__all__ = [
    "WORK",
    "CompactionWork",
    "begin_work",
    "find_work",
    "remove_work",
]

WORK = "compacting"
_PLAN, _LAYOUT = "plan.json", "layout.jsonl"


@dataclass(frozen=True)
class CompactionWork:
    """
    The work on one plan.

    Attributes:
        folder: directory of the work.
        plan: of the compaction.
    """

    folder: Path
    plan: CompactionPlan

    @property
    def rows(self) -> Path:
        """
        Directory of the rows with the new place of every record.
        """
        return self.folder / "layout"

    @property
    def output(self) -> Path:
        """
        Directory of the result.
        """
        return self.folder / "compaction"

    def save_layouts(self, layouts: Iterable[QueueLayout]) -> None:
        """
        Saves the layout of each queue: from now on the places are planned.

        Raises:
            StorageError: the system refused.
        """
        sync_tree(self.rows)
        content = "".join(f"{layout.text()}\n" for layout in layouts)
        self._save(_LAYOUT, content)

    def layouts(self) -> list[QueueLayout] | None:
        """
        Returns the layout of each queue; ``None``: the places are not planned yet.
        """
        try:
            text = (self.folder / _LAYOUT).read_text(encoding="utf-8")
        except FileNotFoundError:
            # The last run ended before that.
            return None
        found = [parse_layout(line) for line in text.splitlines()]
        return [one for one in found if not isinstance(one, CompactionDamage)]

    def copied(self) -> dict[int, tuple[int, int]]:
        """
        Returns records and bytes of each copied segment, by the segment's number.
        """
        found = {}
        for number, base in enumerate(self.plan.bases):
            path = self.folder / "copied" / marker_name(base)
            if path.exists():
                counts = json.loads(path.read_bytes())
                found[number] = counts["records"], counts["bytes"]
        return found

    def _save(self, name: str, content: str) -> None:
        raw = content.encode("utf-8", "surrogateescape")
        replace_file(self.folder / name, raw, self.folder / "tmp")


def find_work(
    into: Path, store: str, choice: CompactionChoice
) -> CompactionWork | None:
    """
    Returns unfinished work for the same store and choice, if its plan is still valid.

    Args:
        into: directory of the result.
        store: root of the store.
        choice: of the user.
    """
    for folder in sorted((into / WORK).glob("*")):
        try:
            plan = CompactionPlan.parse((folder / _PLAN).read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError):
            # The run was killed before it had a plan, or the folder is not ours.
            continue
        is_same = (plan.store, plan.choice, plan.id) == (store, choice, folder.name)
        if is_same and is_unchanged(plan):
            return CompactionWork(folder, plan)
    return None


def begin_work(into: Path, plan: CompactionPlan) -> CompactionWork:
    """
    Makes the directory of a plan, and removes the work of other plans.

    Raises:
        StorageError: the system refused.
    """
    remove_work(into)
    work = CompactionWork(into / WORK / plan.id, plan)
    try:
        for name in ("tmp", "copied"):
            (work.folder / name).mkdir(parents=True)
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("make", work.folder, error) from error
    work._save(_PLAN, plan.text())
    for path in (into / WORK, into, into.parent):
        sync_directory(path)
    return work


def remove_work(into: Path) -> None:
    """
    Removes all unfinished work.

    Raises:
        StorageError: the system refused.
    """
    try:
        shutil.rmtree(into / WORK)
    except FileNotFoundError:
        # There is none.
        return
    except OSError as error:
        # The caller gets the path with it.
        raise storage_error("remove", into / WORK, error) from error
