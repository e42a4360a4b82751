"""
Random stores mean the same to RocketMQ and to pystore, record for record.

``RANDOM_STORES`` is the number of stores for each version (8), ``RANDOM_STORES_FIRST``
the first seed.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest
from interop import jvm
from interop.random_stores import LISTED, RandomStores

COUNT = int(os.environ.get("RANDOM_STORES", "8"))
FIRST = int(os.environ.get("RANDOM_STORES_FIRST", "0"))


@pytest.mark.parametrize("is_odd", [False, True], ids=["usual", "odd"])
@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
@pytest.mark.usefixtures("compiled_tool")
def test_random_stores_mean_the_same_to_both(
    tmp_path: Path, version: str, *, is_odd: bool
) -> None:
    """
    Records, end, queues, and what RocketMQ finds after pystore: no difference but those
    that are listed by rule. A seed makes its store again.
    """
    jvm.fetch(version)
    found = defaultdict[str, list[tuple[int, str]]](list)
    with RandomStores(tmp_path, version, is_odd) as stores:
        for seed in range(FIRST, FIRST + max(1, COUNT // 2)):
            for rule, text in stores.compare(seed):
                found[rule].append((seed, text))
    for rule, cases in sorted(found.items()):
        seeds = sorted({seed for seed, _ in cases})
        print(f"{rule}: {len(seeds)} stores: {LISTED.get(rule, 'NOT LISTED')}; {seeds}")

    unlisted = {rule: cases[:3] for rule, cases in found.items() if rule not in LISTED}
    assert {} == unlisted
