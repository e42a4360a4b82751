"""
Segments by store times, although clocks step back.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from pystore.epochs.file import encode_epochs
from pystore.epochs.table import EpochTable
from pystore.fs.layout import EPOCH_FILE
from pystore.spark.plan import time_pruning
from pystore.spark.plan.selection import Selection
from pystore.spark.plan.time_pruning import segments_of_times

SEED = 20260731
SIZE = 1000

Found: TypeAlias = Callable[..., list[int]]


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Found:
    """
    Returns the segments of times for the first store times of the segments.
    """

    def choose(
        firsts: list[int | None], starts: list[int], skew: int = 3000, **times: int
    ) -> list[int]:
        monkeypatch.setattr(
            time_pruning, "_first_ms", lambda _, base: firsts[base // SIZE]
        )
        table = EpochTable.of(enumerate(starts))
        (tmp_path / EPOCH_FILE).write_bytes(encode_epochs(table))
        bases = [SIZE * number for number in range(len(firsts))]
        chosen = Selection(from_ms=times.get("first"), to_ms=times.get("last"))
        kept = segments_of_times(tmp_path, bases, SIZE, chosen, skew)
        return [base // SIZE for base in kept]

    return choose


def test_no_segment_with_a_wanted_record_is_left_out(found: Found) -> None:
    """
    Random logs: clocks step back by any time where an epoch begins.
    """
    chance = random.Random(SEED)
    for case in range(300):
        now, starts = 1_000_000, [0]
        records: list[tuple[int, int]] = []
        for offset in range(0, 12 * SIZE, 100):
            if offset and not chance.randrange(25):
                starts.append(offset)
                now += chance.randrange(-900_000, 900_000)
            now += chance.choice((0, 1000, 30_000))
            records.append((offset // SIZE, now - chance.choice((0, 2000))))
        firsts = [
            next(ms for number, ms in records if number == segment)
            for segment in range(12)
        ]
        first = chance.choice(records)[1]
        last = first + chance.randrange(60_000)
        wanted = {number for number, ms in records if first <= ms <= last}

        kept = found(firsts, starts, first=first, last=last)

        assert wanted <= set(kept), f"seed {SEED}, case {case}"


def test_segments_before_and_after_are_left_out(found: Found) -> None:
    """
    A step back that is seen later keeps those that it may concern; a damaged first
    record bounds nothing.
    """
    rising = [10_000 * number for number in range(10)]

    assert [4, 5, 6] == found(rising, [0], first=50_000, last=60_000, skew=0)
    assert [3, 4, 5, 6] == found(rising, [0, 3500], first=50_000, last=60_000, skew=0)
    behind = [*rising[:6], *(ms - 30_000 for ms in rising[6:])]
    assert [4, 5, 6, 7, 8, 9] == found(behind, [0], first=45_000, skew=0)
    damaged = [*rising[:4], None, *rising[5:]]
    assert [3, 4, 5, 6] == found(damaged, [0], first=50_000, last=60_000, skew=0)
