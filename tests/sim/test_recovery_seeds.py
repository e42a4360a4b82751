"""
AutoRecovery in virtual time: random schedules, and the rules that judge its commits.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from sim.recovery_rules import RecoveryRules

from pystore.autorecovery.auditor_term import AUDITOR
from pystore.autorecovery.segment_key import SegmentKey
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import (
    ABSENT,
    CheckVersion,
    Delete,
    Hold,
    Op,
    Put,
    by_key,
)

_RUN = Path(__file__).with_name("run.py")
_KEY = SegmentKey("cluster", "set", 0)


def _lines(seed: int, steps: int) -> list[str]:
    words = ("--recovery", "--first", str(seed), "--seeds", "1", "--lines")
    done = subprocess.run(
        [sys.executable, _RUN, *words, "--steps", str(steps)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # The folder has the number of the process, and the last word is real time.
    text = re.sub(r"/pystore-sim-\d+/", "/", done.stdout)
    # A process ends when its last real thread has, and so at a time of its own.
    *lines, last = re.sub(r"[\d.]+ ended: in order", "ended", text).splitlines()
    return [*lines, last.rpartition(";")[0]]


def test_a_schedule_with_recovery_does_the_same_again() -> None:
    """
    Every line of every process, each at the same time; copies are repaired in it.
    """
    first = _lines(0, 60)

    assert any("repair: repaired" in one for one in first)
    assert _lines(0, 60) == first


class Session:
    """
    A session whose commits are judged.
    """

    def __init__(self, space: MemorySpace, rules: RecoveryRules) -> None:
        self._store, self._rules = MemoryStore(space), rules

    def commit(self, *ops: Op) -> list[str]:
        """
        Commits, and returns what that broke.
        """
        found = self._rules.broken(self._store, by_key(ops))
        assert self._store.commit(ops) is not None
        return found


@pytest.fixture
def sessions() -> tuple[Session, Session]:
    """
    The Auditor, which has marked a segment, and a worker.
    """
    space = MemorySpace()
    rules = RecoveryRules(space)
    auditor, worker = Session(space, rules), Session(space, rules)
    assert not auditor.commit(CheckVersion(AUDITOR, ABSENT), Hold(AUDITOR, b"a"))
    assert not auditor.commit(Put(_KEY.mark, b"1"))
    return auditor, worker


def test_a_claim_that_saw_the_mark_may_delete_it(
    sessions: tuple[Session, Session],
) -> None:
    """
    With its lock, in one commit.
    """
    _, worker = sessions

    assert not worker.commit(Hold(_KEY.lock, b"w"))
    assert not worker.commit(Delete(_KEY.mark), Delete(_KEY.lock))


def test_what_breaks_a_rule_is_told(sessions: tuple[Session, Session]) -> None:
    """
    A second slot of one worker, a mark without its claim, one that changed since, and
    what the Auditor alone writes.
    """
    auditor, worker = sessions

    (found,) = worker.commit(Delete(_KEY.mark))
    assert found.startswith("I2")
    assert not auditor.commit(Put(_KEY.mark, b"2"))
    assert not worker.commit(Hold(_KEY.lock, b"w/0"))
    (found,) = worker.commit(Hold(_KEY.lock, b"w/1"))
    assert found.startswith("I1")
    assert not auditor.commit(Put(_KEY.mark, b"3"))
    (found,) = worker.commit(Delete(_KEY.mark), Delete(_KEY.lock))
    assert found.startswith("I2")
    (found,) = worker.commit(Put("recovery/checked", b"now"))
    assert found.startswith("I8")
    (found,) = worker.commit(Put(_KEY.dead, b"no copy"))
    assert found.startswith("I8")
