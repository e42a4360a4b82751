"""
The replica that is read: the highest epoch, then the record, then the end.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, fill

from pystore.errors import PystoreError
from pystore.spark.source.followed_log import FollowedLog
from pystore.spark.source.offsets import StreamOffset
from pystore.spark.source.replicas import LogReplicas
from pystore.store.commit_log import CommitLog


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    """
    Two replicas of 100 records of epoch 1.
    """
    with CommitLog(tmp_path / "a", segment_size=SEGMENT) as log:
        log.begin_epoch(1)
        fill(log, 100)
        log.writer.log.confirm(log.end_offset)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    return tmp_path / "a", tmp_path / "b"


def follow(*roots: Path) -> FollowedLog:
    """
    The log of these stores, up to their published ends.
    """
    replicas = LogReplicas("log", tuple(map(str, roots)))
    return FollowedLog(replicas, published=True)


def position_of(root: Path) -> StreamOffset:
    """
    The position at the end of a store.
    """
    with follow(root).store(None).snapshot() as snapshot:
        return snapshot.last(0, snapshot.top)


def chosen(log: FollowedLog, position: StreamOffset | None) -> str:
    """
    The store that is read from a position on.
    """
    with log.store(position).snapshot() as snapshot:
        return Path(snapshot.store).name


def test_the_store_that_was_read_is_read_again(roots: tuple[Path, Path]) -> None:
    """
    Until another one has more records.
    """
    a, b = roots
    assert ["a", "b"] == [chosen(follow(a, b), position_of(one)) for one in roots]
    with CommitLog(b) as log:
        fill(log, 1)
    assert "b" == chosen(follow(a, b), position_of(a))


def test_the_highest_epoch_is_the_log(roots: tuple[Path, Path]) -> None:
    """
    The old master wrote more records, which were never confirmed: they are gone, and
    reading goes on at the consistent point.
    """
    a, b = roots
    fork = position_of(a).offset
    with CommitLog(a) as log:
        fill(log, 50)
    position = position_of(a)
    with CommitLog(b) as log:
        log.begin_epoch(2)
        fill(log, 10, 1000)

    assert "b" == chosen(follow(a, b), position)
    with follow(a, b).store(position).snapshot() as snapshot:
        assert fork == snapshot.resume(position, fails=False)


def test_a_replica_that_lags_is_waited_for(roots: tuple[Path, Path]) -> None:
    """
    The other one is gone. The records that were read are not read again.
    """
    a, b = roots
    with CommitLog(a) as log:
        fill(log, 50)
    position = position_of(a)
    shutil.rmtree(a)

    with follow(b).store(position).snapshot() as snapshot:
        assert snapshot.end < position.offset
        assert position.offset == snapshot.resume(position, fails=True)


def test_a_replica_that_cannot_be_read_is_passed_over(
    roots: tuple[Path, Path],
) -> None:
    """
    If none can be read, the first error is raised.
    """
    a, b = roots
    position = position_of(a)
    shutil.rmtree(a)

    assert "b" == chosen(follow(a, b), position)
    assert follow(a, b).holds(position)
    shutil.rmtree(b)
    with pytest.raises(PystoreError, match="a: no such directory"):
        follow(a, b).store(position)
    assert not follow(a, b).holds(position)
