"""
One store as a copy: never while a broker of RocketMQ has it open.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lib.command_line import run, segment_file
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT, fill, seal

from pystore import Store
from pystore.errors import LockedError
from pystore.segments.store_copy import StoreCopy

# Holds byte 0 of `lock` and leaves its number in `abort`, as RocketMQ does.
ROCKETMQ = """
import fcntl, os, pathlib, sys
root = pathlib.Path(sys.argv[1])
file = (root / "lock").open("w+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
(root / "abort").write_text(str(os.getpid()))
print("held", flush=True)
sys.stdin.read()
(root / "abort").unlink()
"""


@contextmanager
def open_in_rocketmq(root: Path) -> Iterator[int]:
    """
    A process that has a store open as RocketMQ has; yields its number.
    """
    with subprocess.Popen(
        [sys.executable, "-c", ROCKETMQ, root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "held\n" == process.stdout.readline()
        yield process.pid
        process.communicate()


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """
    A whole store.
    """
    root = tmp_path / "good"
    fill(root, 300)
    seal(root)
    return root


@pytest.mark.parametrize("has_meta", [True, False])
def test_a_store_that_rocketmq_has_open_is_no_copy(
    good: Path, *, has_meta: bool
) -> None:
    """
    RMQ-R167: its records may be left by a cut. Neither one that pystore had before.
    """
    if not has_meta:
        shutil.rmtree(good / "meta")
    with open_in_rocketmq(good) as pid:
        with pytest.raises(LockedError, match=rf"RocketMQ \(process {pid}\) has it"):
            StoreCopy(good)
        assert 3 == run("recovery", "serve", good).exit_code
    assert StoreCopy(good).facts.has(0)


def test_a_copy_that_rocketmq_opens_under_way_gives_no_more_blocks(good: Path) -> None:
    """
    The next copy is asked.
    """
    copy = StoreCopy(good)
    assert copy.block(0, 0)
    with open_in_rocketmq(good), pytest.raises(LockedError, match="name another copy"):
        copy.block(0, 0)


def test_a_store_that_rocketmq_has_open_is_not_repaired(
    good: Path, tmp_path: Path
) -> None:
    """
    Nothing of it is changed.
    """
    target = tmp_path / "target"
    follow_from(good, target, 0)
    segment_file(target, SEGMENT).unlink()
    with open_in_rocketmq(target) as pid:
        refused = run("recovery", "mend", target, "--from", good)
        assert (3, True) == (refused.exit_code, str(pid) in refused.stderr)
    assert not segment_file(target, SEGMENT).exists()


def test_a_store_that_pystore_has_open_is_a_copy(good: Path) -> None:
    """
    What is settled is not cut any more.
    """
    with Store(good):
        assert StoreCopy(good).block(0, 0)
