"""
Judges what readers make of a damaged store.

A range that is read to its end without an error holds each record that was acknowledged
there; a read that goes on behind damage delivers each record or names a range around
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from damage.stores import Kept

from pystore import CommitLog, arrow_reader
from pystore.errors import CorruptError, PystoreError

__all__ = ["judge_reading"]

Ranges = list[tuple[int, int]]


def judge_reading(root: Path, kept: Kept, *, with_arrow: bool) -> list[str]:
    """
    The objections to what a reader of a store delivers, one line each.

    Args:
        root: the store.
        kept: what was acknowledged in it.
        with_arrow: also read it by `arrow_reader`, which takes longer.
    """
    try:
        log = CommitLog(root, mode="r")
    except PystoreError:
        # A reader that is refused leaves nothing out.
        return []
    ways: list[tuple[str, Callable[[], tuple[set[int], Ranges]]]] = [
        ("scan", lambda: _scan(log)),
        ("scan_past_damage", lambda: _scan_past_damage(log)),
    ]
    if with_arrow:
        ways += [
            (f"arrow_reader, {one}", _arrow(root, one)) for one in ("fail", "report")
        ]
    with log:
        low, high = log.min_offset, log.end_offset
        owed = {offset for offset in kept.records if low <= offset < high}
        return [line for name, read in ways for line in _left_out(name, read, owed)]


def _left_out(
    name: str, read: Callable[[], tuple[set[int], Ranges]], owed: set[int]
) -> Iterator[str]:
    try:
        found, ranges = read()
    except CorruptError as error:
        # A way without rows below the damage: it refused as a whole.
        if error.offset is None:
            yield f"{name}: the error has no offset: {error}"
        return
    left = owed - found
    left = {at for at in left if not any(one <= at < end for one, end in ranges)}
    if left:
        yield f"{name}: {len(left)} records are left out in silence: {sorted(left)[:3]}"


def _scan(log: CommitLog) -> tuple[set[int], Ranges]:
    found: set[int] = set()
    try:
        for rows in log.scan(bodies=True):
            found.update(rows["offset"].tolist())
    except CorruptError as error:
        # It stops at damage: what is below it was delivered.
        if error.offset is None:
            raise
        return found, [(error.offset, log.end_offset)]
    return found, []


def _scan_past_damage(log: CommitLog) -> tuple[set[int], Ranges]:
    found: set[int] = set()
    ranges: Ranges = []

    def note(error: CorruptError, behind: int) -> None:
        assert error.offset is not None
        ranges.append((error.offset, behind))

    for rows in log.scan_past_damage(on_damage=note):
        found.update(rows["offset"].tolist())
    return found, ranges


def _arrow(root: Path, on_damage: str) -> Callable[[], tuple[set[int], Ranges]]:
    def read() -> tuple[set[int], Ranges]:
        columns = ["offset", "size"] + ["damage"] * (on_damage == "report")
        found: set[int] = set()
        ranges: Ranges = []
        with arrow_reader(root, columns=columns, on_damage=on_damage) as reader:
            for batch in reader:
                for row in batch.to_pylist():
                    if row.get("damage"):
                        ranges.append((row["offset"], row["offset"] + row["size"]))
                    else:
                        found.add(row["offset"])
        return found, ranges

    return read
