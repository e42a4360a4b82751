"""
Histories that were holes once, told as text: one file each.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sim.scenario import Scenario

_TELLINGS = int(os.environ.get("TELLINGS", "8"))
_FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("seed", range(_TELLINGS))
@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_a_history_goes_as_it_is_told(path: Path, seed: int) -> None:
    """
    Whatever the network's chance: what is expected happens, nothing is violated.
    """
    Scenario(path, seed).run()


def test_every_scenario_says_what_it_shows() -> None:
    """
    In its first line, as a comment.
    """
    assert len(_FILES) > 35
    assert [] == [path.stem for path in _FILES if len(Scenario(path, 0).title) < 20]
