"""
The cost of one record: the parts of an append, in each of the three ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from contest import Contest, Timed
from load import BODY_SIZE, Load
from loops import cost
from table import Table
from writers import WAYS

from pystore.store.commit_log import CommitLog

if TYPE_CHECKING:
    from conftest import Sizes


@pytest.mark.benchmark(group="cost of one record")
@pytest.mark.parametrize(
    ("way", "batch"),
    [("single", 1), ("batch", 64), ("columns", 1024)],
    ids=["way=single-batch=1", "way=batch-batch=64", "way=columns-batch=1024"],
)
def test_the_cost_of_a_record_is_split(
    way: str,
    batch: int,
    contest: Contest,
    folder: Callable[[], Path],
    sizes: Sizes,
    table: Table,
) -> None:
    """
    Timed: appends into the page cache, without the sync. The parts are measured
    in C one by one; what they leave is the core's rest and the way through Python.
    """
    load = Load.of(sizes.appends * BODY_SIZE, batch)
    parts = cost(folder, max(64, sizes.appends // 20), sizes.segment)

    @contextmanager
    def contend() -> Iterator[Timed]:
        with CommitLog(folder(), segment_size=sizes.segment) as log:
            WAYS[way](log, Load.of(0, batch))  # makes the segment
            yield lambda: WAYS[way](log, load)

    taken = contest.hold(contend, {})

    total = taken["pystore"].least / load.records * 1e9
    write = parts["pwrite"] if way == "single" else parts["pwrite-64k"]
    split = {
        "copy": parts["copy"],
        "checksum": parts["checksum"],
        "encode": parts["encode"],
        "system call": write,
    }
    split["rest"] = max(0.0, total - sum(split.values()))
    for name, value in split.items():
        line = way if batch == 1 else f"{way} of {batch}"
        table.point("cost", line, name, value)
