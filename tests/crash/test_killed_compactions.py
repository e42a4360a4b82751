"""
Compactions killed by SIGKILL before their steps on the file system, one after another.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from crash.compacting import Compactor
from lib.spark.compaction import CHOICE, LocalJobs, digest, make_store

from pystore.spark.compact.run import compact

KILLS = int(os.environ.get("CRASH_KILLS", "12"))


@pytest.fixture
def store(memory: Path) -> Path:
    """
    A small store.
    """
    return make_store(memory, records=300)


@pytest.fixture
def whole(store: Path, memory: Path) -> dict[str, str]:
    """
    The result of an undisturbed run.
    """
    compact(LocalJobs(), store, memory / "whole", CHOICE)
    return digest(memory / "whole")


def test_runs_that_are_killed_repeatedly_have_the_same_result(
    store: Path, whole: dict[str, str], memory: Path
) -> None:
    """
    Each one gets some steps further than those before; what is published is never
    half of it.
    """
    seed = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
    print("CRASH_SEED", seed)
    chance, into = random.Random(seed), memory / "out"
    runs = 0
    with Compactor(store, into) as compactor:
        while not compactor.run_until(chance.randrange(1, 60 + 40 * runs)):
            runs += 1
            assert not (into / "compaction").exists() or whole == digest(into)

    assert whole == digest(into)
    assert ["compaction", "lock"] == sorted(path.name for path in into.iterdir())


def test_a_run_killed_anywhere_is_continued(
    store: Path, whole: dict[str, str], memory: Path
) -> None:
    """
    A kill before one step, and one more run; the steps are spread over all of them.
    """
    seed = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
    print("CRASH_SEED", seed)
    chance, into = random.Random(seed), memory / "out"
    with Compactor(store, into) as compactor:
        last = 1
        while not compactor.run_until(last):
            shutil.rmtree(into)
            last *= 2
        for _ in range(KILLS):
            shutil.rmtree(into)
            step = chance.randrange(last)
            is_done = compactor.run_until(step)
            is_there = (into / "compaction").exists()
            assert not is_there or whole == digest(into), step
            assert is_there or not is_done
            assert compactor.run_until(10**9)
            assert whole == digest(into), step
            assert not (into / "compacting").exists()
