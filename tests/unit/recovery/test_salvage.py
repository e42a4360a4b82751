"""
Giving up damaged bytes saves and names what goes.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, bodies, fill, kill_while, message

from pystore.errors import CorruptError, FullError, InvalidError
from pystore.recovery import salvage
from pystore.store.commit_log import CommitLog


def _damaged(root: Path) -> list[int]:
    """
    A killed store whose 100th record lost a byte; returns the offsets.
    """
    kill_while(root, lambda log: fill(log, 300))
    with CommitLog(root, mode="r") as log:
        offsets = [int(at) for rows in log.scan() for at in rows["offset"]]
    path = root / "commitlog" / f"{0:020d}"
    with path.open("r+b") as file:
        file.seek(offsets[100] + 120)
        file.write(b"\xff")
    return offsets


def test_damage_below_the_bound_forbids_writing(tmp_path: Path) -> None:
    """
    Opening for writing fails with the offset; reading and scanning work.
    """
    root = tmp_path / "store"
    offsets = _damaged(root)
    with pytest.raises(CorruptError, match="--accept-loss") as caught:
        CommitLog(root)

    assert offsets[100] == caught.value.offset
    with CommitLog(root, mode="r") as log:
        assert message(99).body == log.read(offsets[99]).body


def test_accepting_the_loss_saves_the_bytes_and_names_the_records(
    tmp_path: Path,
) -> None:
    """
    The log ends before the damage, and every whole record after it is listed.
    """
    root = tmp_path / "store"
    offsets = _damaged(root)
    with CommitLog(root, accept_loss=True) as log:
        salvage = log.recovery.loss
        assert salvage is not None
        assert offsets[101:] == list(salvage.records)
        assert [message(i).body for i in range(100)] == bodies(log)
    saved = sorted(salvage.directory.iterdir())
    assert f"{offsets[100]:020d}" == saved[0].name
    assert salvage.bytes_saved == sum(path.stat().st_size for path in saved)
    with CommitLog(root, segment_size=SEGMENT) as log:
        assert 100 == len(bodies(log))


def test_a_loss_is_not_saved_over_an_earlier_one(tmp_path: Path) -> None:
    """
    What was saved once is never overwritten.
    """
    root = tmp_path / "store"
    offsets = _damaged(root)
    Path(f"{root}.lost-{offsets[100]:020d}").mkdir()

    with pytest.raises(InvalidError, match="move it away"):
        CommitLog(root, accept_loss=True)


def test_a_loss_that_cannot_be_saved_leaves_nothing_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    With space the next attempt works, without a clean-up.
    """
    root = tmp_path / "store"
    _damaged(root)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(salvage, "sync_descriptor", refuse)
    with pytest.raises(FullError):
        CommitLog(root, accept_loss=True)
    assert [root] == list(tmp_path.iterdir())
    monkeypatch.undo()
    with CommitLog(root, accept_loss=True) as log:
        assert 100 == len(bodies(log))
