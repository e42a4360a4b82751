"""
Repairs that the system refuses: no space, errors of the disk, another file system.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from lib.command_line import overwrite, segment_file
from lib.store.late import follow_from
from lib.store.pairs import SEGMENT, fill, seal

from pystore import Store
from pystore.errors import FullError, PoisonedError, StorageError
from pystore.segments.mend_plan import MendAction, plan_mending
from pystore.segments.mending import MendProgress, fill_store, mend_closed, mend_open
from pystore.segments.store_copy import StoreCopy
from pystore.verify import verify_store

CALLS = (
    *("pwrite", "posix_fallocate", "truncate", "fdatasync", "fsync"),
    *("link", "replace", "rename", "unlink", "mkdir"),
)


class Refusals:
    """
    Calls of the system, of which one fails.

    Args:
        patch: of the test.

    Attributes:
        failing: the number of the call that fails, from 1 on; 0: none.
        number: of its error.
        count: of the calls so far.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failing = self.number = self.count = 0
        for name in CALLS:
            patch.setattr(os, name, self._refusing(getattr(os, name)))

    def begin(self, failing: int, number: int) -> None:
        """
        Counts anew.
        """
        self.failing, self.number, self.count = failing, number, 0

    def _refusing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **names: Any) -> object:
            if self.failing:
                self.count += 1
                if self.count == self.failing:
                    raise OSError(self.number, os.strerror(self.number))
            return real(*words, **names)

        return call


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """
    A sealed store.
    """
    fill(tmp_path / "good", 600)
    seal(tmp_path / "good")
    return tmp_path / "good"


def check_whole(good: Path, bad: Path) -> None:
    """
    Checks that a store has all that the other one has.
    """
    report = verify_store(bad)
    assert ("whole", 0) == (report.verdict, report.queues.missing)
    for path in sorted((good / "commitlog").iterdir())[:-1]:
        assert path.read_bytes() == (bad / "commitlog" / path.name).read_bytes()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_whatever_call_fails_the_next_repair_ends(
    good: Path, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The error says which file; a segment is damaged as before or whole, nothing else is
    changed, and the next repair ends it. What begins late is filled.
    """
    refusals = Refusals(monkeypatch)
    for failing in itertools.count(1):
        bad = tmp_path / f"bad-{failing}"
        follow_from(good, bad, SEGMENT)
        # A sync that failed is an error of the close as well.
        with suppress(PoisonedError), Store(bad) as store:
            overwrite(segment_file(bad, SEGMENT), 700, b"????")
            os.truncate(segment_file(bad, 2 * SEGMENT), 3000)
            refusals.begin(failing, number)
            error = refused(store, good, tmp_path / f"kept-{failing}")
            is_over = refusals.count < failing
            refusals.begin(0, 0)
        mend_closed(bad, [StoreCopy(good)], tmp_path / f"kept-again-{failing}")
        check_whole(good, bad)
        if is_over:
            assert error is None
            break
        assert error is None or re.search(r" /\S+: ", str(error)), error
        is_full = number == errno.ENOSPC
        expected = FullError if is_full else StorageError
        assert isinstance(error, expected | PoisonedError | None)
    assert failing > 10


def refused(store: Store, good: Path, kept: Path) -> StorageError | None:
    """
    Repairs an open store; returns what the system refused.
    """
    plan, progress = (
        plan_mending(StoreCopy(store.path), [StoreCopy(good)]),
        MendProgress(),
    )
    try:
        mend_open(store, fill_store(store, nullcontext()), plan.steps, kept, progress)
    except StorageError as error:
        # The test looks at it.
        return error
    return None


@pytest.mark.parametrize("at", ["here", "source"])
def test_a_block_that_cannot_be_read_is_damage(
    good: Path, tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Here it is written anew, as the disk may have other sectors for it; a source gives
    none, and the next one is asked.
    """
    bad, third = tmp_path / "bad", tmp_path / "third"
    for root in (bad, third):
        follow_from(good, root, 0)
    ill = segment_file(bad if at == "here" else third, SEGMENT)
    if at == "source":
        overwrite(segment_file(bad, SEGMENT), 700, b"????")
    real = StoreCopy.block
    is_over = False

    def block(self: StoreCopy, base: int, index: int) -> bytes:
        if not is_over and segment_file(self.root, base) == ill:
            raise StorageError(f"cannot read {ill}: EIO", path=str(ill))
        return real(self, base, index)

    monkeypatch.setattr(StoreCopy, "block", block)
    own, sources = StoreCopy(bad), [StoreCopy(third), StoreCopy(good)]
    (step,) = plan_mending(own, sources).steps
    assert (SEGMENT, MendAction.PATCH) == (step.base, step.action)
    names = [one.name for one in step.sources]
    assert ([str(third)] if at == "here" else []) == names[:-1]
    assert str(good) == names[-1]
    with Store(bad) as store:
        progress = MendProgress()
        is_over = at == "here"
        mend_open(
            store, fill_store(store, nullcontext()), [step], tmp_path / "kept", progress
        )
    assert [step] == progress.done
    is_over = True
    check_whole(good, bad)


def test_what_is_replaced_is_kept_on_another_file_system(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A link cannot reach there: it is copied.
    """
    bad, kept = tmp_path / "bad", tmp_path / "kept"
    follow_from(good, bad, 0)
    os.truncate(segment_file(bad, SEGMENT), 3000)
    before = segment_file(bad, SEGMENT).read_bytes()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", refuse)
    mend_closed(bad, [StoreCopy(good)], kept)
    assert before == (kept / segment_file(bad, SEGMENT).name).read_bytes()
    monkeypatch.undo()
    check_whole(good, bad)
