"""
The option ``--sample``: some of the chosen tests, at random. A ``conftest.py`` imports
its functions; pytest calls them.
"""

from __future__ import annotations

import os
import random

import pytest

__all__ = ["pytest_addoption", "pytest_collection_modifyitems"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """
    Adds ``--sample``.
    """
    parser.addoption("--sample", type=int, help="so many of the tests, at random")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """
    Leaves out all but a sample of the chosen tests; ``PS_SEED`` draws the same sample
    again.
    """
    count = config.getoption("sample", None)
    if count is not None and count < len(items):
        seed = int(os.environ.get("PS_SEED", random.randrange(2**32)))
        print("seed of the sample", seed)
        kept = set(random.Random(seed).sample(items, count))
        config.hook.pytest_deselected(items=[one for one in items if one not in kept])
        items[:] = [one for one in items if one in kept]
