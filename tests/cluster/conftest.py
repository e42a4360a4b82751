"""
How many of these tests run: all, or ``CLUSTER_SAMPLE`` of them at random, as in CI.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lib.samples import keep_sample

_HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """
    Leaves out all but the sample.
    """
    count = int(os.environ.get("CLUSTER_SAMPLE", "0"))
    mine = [one for one in items if _HERE in one.path.parents]
    keep_sample(config, items, mine, count)
