"""
Histories that were defects once, told as text: one file each.

They run in a process of their own, whose threads and clocks are virtual.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_TELLINGS = int(os.environ.get("TELLINGS", "2"))
_FILES = sorted((_HERE / "scenarios").glob("*.txt"))

Tell = Callable[[Path, int], str]


@pytest.fixture(scope="module")
def tell() -> Iterator[Tell]:
    """
    Carries out one history; returns what went another way, or nothing.
    """
    with subprocess.Popen(
        [sys.executable, _HERE / "tell.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        given, answers = child.stdin, child.stdout

        def told(path: Path, seed: int) -> str:
            given.write(f"{seed} {path}\n")
            given.flush()
            answer: str = json.loads(answers.readline())
            return answer

        yield told


@pytest.mark.parametrize("seed", range(_TELLINGS))
@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_a_history_goes_as_it_is_told(path: Path, seed: int, tell: Tell) -> None:
    """
    Whatever the network's chance: what is expected happens, nothing is violated.
    """
    assert not tell(path, seed)


def test_every_scenario_says_what_it_shows() -> None:
    """
    In its first line, as a comment.
    """
    titles = [path.read_text("utf-8").splitlines()[0] for path in _FILES]

    assert len(_FILES) > 35
    assert all(one.startswith("# ") and len(one) > 20 for one in titles)
