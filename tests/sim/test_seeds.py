"""
A seed decides all that is random.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_RUN = Path(__file__).with_name("run.py")


def _lines(seed: int) -> list[str]:
    words = ("--first", str(seed), "--seeds", "1", "--length", "6", "--lines")
    done = subprocess.run(
        [sys.executable, _RUN, *words], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # The folder has the number of the process, and the last word is real time.
    *lines, last = re.sub(r"/pystore-sim-\d+/", "/", done.stdout).splitlines()
    return [*lines, last.rpartition(";")[0]]


def test_a_seed_does_the_same_again() -> None:
    """
    Every line of every process, each at the same time.
    """
    first = _lines(7)

    assert len(first) > 20
    assert _lines(7) == first
