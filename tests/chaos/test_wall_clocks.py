"""
Wall clocks that step, and other clocks that do not.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from chaos.wall_clocks import WallClocks

SCRIPT = """
import sys, time
for line in sys.stdin:
    print(time.time(), time.clock_gettime(time.CLOCK_MONOTONIC), flush=True)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc"), reason="needs Linux and cc"
)
def test_a_wall_clock_steps_and_no_other_clock_does(tmp_path: Path) -> None:
    """
    By an hour ahead, and back.
    """
    clocks = WallClocks(tmp_path)
    with subprocess.Popen(
        [*clocks.before("one"), sys.executable, "-c", SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        found = []
        for seconds in (0, 3_600, 0):
            clocks.step("one", seconds)
            child.stdin.write("\n")
            child.stdin.flush()
            found.append([float(one) for one in child.stdout.readline().split()])
        child.stdin.close()
    first, ahead, last = found
    assert 3_500 < ahead[0] - first[0] < 3_700
    assert -100 < last[0] - first[0] < 100
    assert first[1] < ahead[1] < last[1] < first[1] + 100
