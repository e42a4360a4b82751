"""
How many of these tests run: all, or ``CLUSTER_SAMPLE`` of them at random, as in CI.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """
    Leaves out all but the sample. ``PS_SEED`` draws the same one again; without it the
    processes of a run agree on one by the run's own name.
    """
    count = int(os.environ.get("CLUSTER_SAMPLE", "0"))
    mine = [one for one in items if _HERE in one.path.parents]
    if not 0 < count < len(mine):
        return
    names = ("PS_SEED", "PYTEST_XDIST_TESTRUNUID")
    seed = next((os.environ[one] for one in names if one in os.environ), None)
    if seed is None:
        seed = str(random.randrange(2**32))
    print("seed of the sample", seed)
    ordered = sorted(mine, key=lambda one: one.nodeid)
    kept = set(random.Random(seed).sample(ordered, count))
    left_out = set(mine) - kept
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [one for one in items if one not in left_out]
