"""
A healing that is killed at a random instant, and run again, leaves what an undisturbed
one leaves.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lib.command_line import overwrite, segment_file
from lib.store.pairs import SEGMENT, fill, seal

from pystore.doctor.apply import heal
from pystore.verify import verify_store

RUNS = 10
_PARTS = ("commitlog", "consumequeue", "meta/seals")


def damage(root: Path) -> dict[str, bytes]:
    """
    Damages a record, a queue and a seal; returns the damaged files by their names.
    """
    queue = next((root / "consumequeue/t0/0").iterdir())
    sealed = sorted((root / "meta/seals").iterdir())[0]
    overwrite(segment_file(root, SEGMENT), 800, b"????")
    overwrite(queue, 100, b"????")
    overwrite(sealed, 20, b"????")
    return {str(path.relative_to(root)): path.read_bytes() for path in (queue, sealed)}


def contents(root: Path) -> dict[str, bytes]:
    """
    The files that a healing may change, but for the small truth.
    """
    return {
        str(path.relative_to(root)): path.read_bytes()
        for part in _PARTS
        for path in (root / part).rglob("*")
        if path.is_file()
    }


def killed_after(seconds: float, work: Callable[[], object]) -> bool:
    """
    Runs *work* in a process that the system ends at an instant; returns whether it did.
    """
    child = os.fork()
    if child == 0:
        try:
            # Its default ends the process at once, as SIGKILL does.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_a_healing_that_was_killed_is_finished_by_the_next_one(tmp_path: Path) -> None:
    """
    Log, queues and seals are those of an undisturbed healing, and what was replaced is
    kept beside the store.
    """
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    copy, damaged = tmp_path / "copy", tmp_path / "damaged"
    fill(copy)
    seal(copy)
    shutil.copytree(copy, damaged)
    replaced = damage(damaged)
    healed = tmp_path / "healed" / "store"
    shutil.copytree(damaged, healed)
    begin = time.perf_counter()
    heal(healed, [copy])
    duration = time.perf_counter() - begin
    expected = contents(healed)
    assert "whole" == verify_store(healed).verdict

    kills = 0
    for run in range(RUNS):
        root = tmp_path / f"run-{run}" / "store"
        shutil.copytree(damaged, root)
        instants = sorted(draw.uniform(0, duration) for _ in range(draw.randint(1, 3)))
        for instant in instants:
            kills += killed_after(max(instant, 1e-4), partial(heal, root, [copy]))
        heal(root, [copy])

        assert expected == contents(root), instants
        assert "whole" == verify_store(root).verdict, instants
        kept = [path for path in root.parent.iterdir() if path != root]
        for name, content in replaced.items():
            assert any(content == _bytes_of(one / name) for one in kept), name
        shutil.rmtree(root.parent)
    assert kills > RUNS // 2


def _bytes_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
