"""
The log in the end: what all stores of a set have.
"""

from __future__ import annotations

from pathlib import Path

from chaos.checker import Final, Record

from pystore.core.log_reader import LogReader

__all__ = ["final_of"]


def final_of(stores: list[Path], begin: int = 0) -> Final:
    """
    Returns the log that all stores have.

    Args:
        stores: of the set.
        begin: of a record; what is below is not looked at.

    Raises:
        AssertionError: two of them differ.
    """
    first, *others = [_records(one, begin) for one in stores]
    for store, found in zip(stores[1:], others, strict=True):
        both = max(first[0].offset, found[0].offset)
        one = [row for row in first if row.offset >= both]
        other = [row for row in found if row.offset >= both]
        assert one == other, f"{stores[0]} and {store} differ: {_where(one, other)}"
    longest = min((first, *others), key=lambda rows: rows[0].offset)
    return Final(longest[0].offset, longest)


def _where(one: list[Record], other: list[Record]) -> str:
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            return f"{mine} and {yours}"
    return f"{len(one)} and {len(other)} records"


def _records(store: Path, begin: int) -> list[Record]:
    found: list[Record] = []
    with LogReader(store) as log:
        ends = log.ends()
        for rows in log.scan(max(begin, ends.min_offset), ends.published_end):
            for offset in rows["offset"].tolist():
                one = log.read(offset)
                body = bytes(one.body).decode().rstrip("x")
                found.append(Record(offset, one.queue_id, one.queue_offset, body))
    return found
