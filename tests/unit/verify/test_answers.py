"""
What the system does not answer.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pystore import CommitLog, Message
from pystore.errors import StorageError
from pystore.verify import verify_store
from pystore.verify.answers import require_answers, require_readable


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """
    A store of one segment.
    """
    with CommitLog(tmp_path / "a", segment_size=65536) as log:
        log.append(Message("T", b"x"))
    return tmp_path / "a"


def test_a_store_answers(root: Path) -> None:
    """
    A folder that is missing is an answer, too.
    """
    require_answers(root)
    require_answers(root / "no such store")
    require_answers(next((root / "commitlog").iterdir()))


@pytest.mark.parametrize("name", ["commitlog", "meta"])
@pytest.mark.parametrize("target", ["loop", "nothing"])
def test_a_link_that_leads_nowhere_is_no_answer(
    root: Path, name: str, target: str
) -> None:
    """
    A folder behind it may be whole.
    """
    shutil.rmtree(root / name)
    (root / name).symlink_to(name if target == "loop" else "../gone")

    with pytest.raises(StorageError, match=name):
        verify_store(root)


def test_a_segment_that_was_deleted_is_no_refusal(root: Path) -> None:
    """
    Retention may have done it.
    """
    require_readable(root / "commitlog" / "1")
    with pytest.raises(StorageError, match="cannot open"):
        require_readable(next((root / "commitlog").iterdir()) / "file")
