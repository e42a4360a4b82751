"""
What a comparison of two stores found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pystore.epochs.table import EpochTable

__all__ = [
    "CompareReport",
    "CompareVerdict",
    "FirstDifference",
    "LogDifference",
    "LogSummary",
    "SideState",
]

CompareVerdict = Literal[
    "whole", "unproved", "damaged", "no record", "missing", "unreadable"
]


class SideState(NamedTuple):
    """
    The state of a range in one store.

    Attributes:
        verdict: *whole*: property CRCs prove the records; *unproved*: structure,
            offset and body are right, and nothing proves the rest; *damaged*: a record
            is bad; *no record*: zeros or a blank record; *missing*: no file has it;
            *unreadable*: the disk cannot read it.
        reason: why it is bad, one line; empty: it is not.
    """

    verdict: CompareVerdict
    reason: str = ""


class LogDifference(NamedTuple):
    """
    A range in which two logs differ.

    Attributes:
        offset: of the first byte that differs.
        size: up to the last one, in bytes.
        states: of the range in both stores.
    """

    offset: int
    size: int
    states: tuple[SideState, SideState]


class FirstDifference(NamedTuple):
    """
    The first byte in which two logs differ.

    Attributes:
        offset: of the byte, in the log.
        paths: the file of both stores that has it, or that is missing.
        record_offset: of the record that holds the byte; ``None``: no whole record
            does, in either store.
        field: the part of the record, by RocketMQ's name; empty: not known.
    """

    offset: int
    paths: tuple[str, str]
    record_offset: int | None
    field: str


@dataclass(slots=True)
class LogSummary:
    """
    One of the compared logs.

    Attributes:
        path: of the store.
        min_offset: the beginning of the log.
        end_offset: the end of the log.
        segment_size: in bytes; ``None``: the files do not show it.
        tail_reason: what stands at the end and is no record; empty: nothing.
        epochs: the epoch table; ``None``: the store has none.
        epochs_error: why the epoch table cannot be read; empty: it can.
    """

    path: str
    min_offset: int = 0
    end_offset: int = 0
    segment_size: int | None = None
    tail_reason: str = ""
    epochs: EpochTable | None = None
    epochs_error: str = ""


@dataclass(slots=True)
class CompareReport:
    """
    The comparison of two stores.

    Attributes:
        logs: the two logs.
        start_offset: the beginning of the range that both have.
        end_offset: its end; not above the start: they have no range in common.
        compared_bytes: that were read in both and compared.
        first: the first difference; ``None``: there is none.
        differences: the first ranges that differ, by offset.
        ranges: the number of all of them.
        bytes_differing: their size.
        unreadable_bytes: that could not be read in one of the stores.
        consistent_point: where the epochs of the two part; ``None``: they have none in
            common, or one of them has no epochs.
    """

    logs: tuple[LogSummary, LogSummary]
    start_offset: int = 0
    end_offset: int = 0
    compared_bytes: int = 0
    first: FirstDifference | None = None
    differences: list[LogDifference] = field(default_factory=list)
    ranges: int = 0
    bytes_differing: int = 0
    unreadable_bytes: int = 0
    consistent_point: int | None = None

    @property
    def has_epochs(self) -> bool:
        """
        Whether both stores have epochs.
        """
        return all(log.epochs is not None and log.epochs.entries for log in self.logs)

    @property
    def has_same_ends(self) -> bool:
        """
        Whether both logs end at the same offset.
        """
        return self.logs[0].end_offset == self.logs[1].end_offset

    @property
    def is_identical(self) -> bool:
        """
        Whether all bytes that both have are the same, and both have the same end.
        """
        return not self.ranges and self.has_same_ends
