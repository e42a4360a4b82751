"""
Random damage to small stores: the judge of ``pystore spark verify`` and ``pystore
verify`` give one exit code for one store, and the judge drops no finding.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

from damage.harm import harm
from damage.spark_verdict import spark_exit_code
from damage.stores import Kept

from pystore.errors import PystoreError
from pystore.verify import verify_store

SEED = int(os.environ.get("PS_SEED", "1"))
CASES = int(os.environ.get("DAMAGE_CASES", "600")) // 4


def test_both_verify_commands_give_one_exit_code(
    folder: Path, stores: list[Kept]
) -> None:
    """
    Each case is named by its number under the seed.
    """
    objections = {}
    for number in range(CASES):
        for text in _case(folder, stores, random.Random(f"{SEED} {number}")):
            objections[number] = text

    assert {} == objections, f"seed {SEED}"


def _case(folder: Path, stores: list[Kept], draw: random.Random) -> Iterator[str]:
    kept = draw.choice(stores)
    root = folder / "copy" if draw.random() < 0.3 else kept.root
    kept.restore(root)
    harms = harm(root, draw, kept)
    one, why = _by_verify(root)
    other, texts = spark_exit_code(root)
    if one != other:
        yield f"{kept.root.name}, {harms}: {one} {why}, on Spark {other} {texts}"


def _by_verify(root: Path) -> tuple[int, list[str]]:
    try:
        report = verify_store(root)
    except PystoreError as error:
        # It could not finish.
        return 3, [str(error)]
    return int(bool(report.damages)), [one.reason for one in report.damages[:3]]
