"""
Some of the chosen tests, at random: the option ``--sample``, whose functions a
``conftest.py`` imports and pytest calls, and the long tests of each run.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

__all__ = [
    "keep_sample",
    "long_tests",
    "pytest_addoption",
    "pytest_collection_modifyitems",
]

LONG_TESTS = Path(__file__).parents[1] / "long_tests.txt"


def long_tests() -> set[tuple[str, str]]:
    """
    Returns what ``long_tests.txt`` lists: file, from the root on, and function of a
    test; a file, or a folder, with all its tests has no function.
    """
    found = set()
    for line in LONG_TESTS.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            file, _, name = line.partition("::")
            found.add((file, name))
    return found


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
    keep_sample(config, items, list(items), config.getoption("sample", None) or 0)


def keep_sample(
    config: pytest.Config,
    items: list[pytest.Item],
    among: list[pytest.Item],
    count: int,
) -> None:
    """
    Leaves out all but a sample of some tests. The processes of one run of pytest-xdist
    draw the same sample.

    Args:
        config: of the run.
        items: all chosen tests; changed.
        among: those that a sample is taken of.
        count: how many of them stay; 0: all.
    """
    if not 0 < count < len(among):
        return
    names = ("PS_SEED", "PYTEST_XDIST_TESTRUNUID")
    seeds = (os.environ[name] for name in names if name in os.environ)
    seed = next(seeds, None) or str(random.randrange(2**32))
    print("seed of the sample", seed)
    ordered = sorted(among, key=lambda one: one.nodeid)
    left_out = set(among) - set(random.Random(seed).sample(ordered, count))
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [one for one in items if one not in left_out]
