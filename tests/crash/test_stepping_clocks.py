"""
A real process whose wall clock steps: what it does not stamp, and what it says.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from crash.boots import another_boot
from crash.recording import search_path

from pystore.store.commit_log import CommitLog

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="stepping a clock needs LD_PRELOAD"
)

STEPPING = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long ahead_s;

void step_wall(long seconds) { ahead_s += seconds; }

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_REALTIME)
    now->tv_sec += ahead_s;
  return result;
}
"""

TEN_YEARS_S = 3650 * 86400

WRITER = """
import ctypes, logging, sys
from pystore import CommitLog, Message

step = ctypes.CDLL(None).step_wall
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
with CommitLog(sys.argv[1], segment_size=1 << 16) as log:
    right = log.append(Message("t", b"1")).store_ms
    step(int(sys.argv[2]))
    wrong = log.append(Message("t", b"2")).store_ms
    assert 0 <= wrong - right < 60_000, wrong - right
    assert abs(log.clock.ahead_ms - 1000 * int(sys.argv[2])) < 60_000, log.clock
    log.keep()
    log.keep()
with CommitLog(sys.argv[1]) as log:
    again = log.append(Message("t", b"3")).store_ms
    assert 0 <= again - right < 60_000, again - right
    print(again)
"""


@pytest.fixture(scope="module")
def stepping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A library that steps the wall clock of the process that loads it.
    """
    folder = tmp_path_factory.mktemp("stepping")
    source, library = folder / "stepping.c", folder / "stepping.so"
    source.write_text(STEPPING)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return library


def test_a_step_that_boot_time_does_not_confirm_is_not_stamped(
    tmp_path: Path, stepping: Path
) -> None:
    """
    Ten years ahead for one append: neither it nor a later one is stamped so, also after
    opening again, in this boot or another one; one warning names the step.
    """
    root = tmp_path / "store"
    done = subprocess.run(
        [sys.executable, "-c", WRITER, root, str(TEN_YEARS_S)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(search_path()),
            "LD_PRELOAD": str(stepping),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "" == done.stderr
    *warnings, stamped = done.stdout.splitlines()
    assert 1 == len(warnings), warnings
    assert warnings[0].startswith(f"WARNING {root}: the wall clock stepped 3153")
    with another_boot(), CommitLog(root) as log:
        assert int(stamped) <= log.clock.store_ms < int(stamped) + 60_000
        assert 0 == log.clock.ahead_ms


def test_a_step_that_the_caller_accepts_is_stamped(
    tmp_path: Path, stepping: Path
) -> None:
    """
    From then on records have the time of the wall clock.
    """
    script = WRITER.replace(
        "    log.keep()\n    log.keep()\n",
        "    print(log.accept_clock().now_ms - right)\n"
        "    print(log.append(Message('t', b'3')).store_ms - right)\n"
        "    sys.exit()\n",
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "store", str(TEN_YEARS_S)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(search_path()),
            "LD_PRELOAD": str(stepping),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "" == done.stderr
    for ahead_ms in done.stdout.split():
        assert 0 <= int(ahead_ms) - 1000 * TEN_YEARS_S < 60_000
