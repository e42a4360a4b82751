"""
The growth of memory beyond mapped files, for all kinds of work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from contest import Figure
from large_stores import Stores
from table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Sizes
    from pytest_benchmark.fixture import BenchmarkFixture


@pytest.mark.benchmark(group="growth of resident memory")
def test_resident_memory_hardly_grows(
    stores: Stores,
    folder: Callable[[], Path],
    sizes: Sizes,
    table: Table,
    benchmark: BenchmarkFixture,
) -> None:
    """
    A process of its own appends in every way, recovers, verifies, reads in order
    and at random; its anonymous memory is watched from after the imports on.
    Timed: all of that.
    """
    command = [sys.executable, str(Path(__file__).with_name("memory_child.py"))]
    command += [str(folder()), str(stores.closed)]
    command += map(str, (sizes.total // 4, sizes.segment))
    environment = os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path))}

    def run() -> dict[str, int]:
        output = subprocess.check_output(command, env=environment, text=True)
        found: dict[str, int] = json.loads(output)
        return found

    grown = benchmark.pedantic(run, rounds=1)
    benchmark.extra_info.update(grown)
    table.at_most(
        "growth of resident memory beyond mapped files, any of the above",
        64,
        Figure((max(grown.values()) / 2**20,)),
        "MiB",
        {name: f"{size / 2**20:.0f} MiB" for name, size in grown.items()},
    )
