"""
No queue offset is given twice, whichever program wrote between two openings (A16).
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pystore import CommitLog, Message, Store, inspect
from pystore.errors import PystoreError
from pystore.fs.layout import segment_path
from pystore.store.retention import Retention
from pystore.verify import verify_store

SEED = int(os.environ.get("PS_SEED", random.randrange(2**32)))
SEGMENT = 16384


def _copied(root: Path) -> Path:
    copy = root.with_name(f"{root.name}-copy")
    shutil.copytree(root, copy)
    shutil.rmtree(root)
    return copy


def _without_checkpoint(root: Path) -> Path:
    (root / "checkpoint").unlink()
    return root


def _damaged(root: Path) -> Path:
    """
    The record at the beginning of the newest segment is bad.
    """
    path = max((root / "commitlog").iterdir())
    with path.open("r+b") as file:
        file.seek(0)
        file.write(b"\xff" * 40)
    (root / "abort").write_bytes(b"")  # so that the opening looks at the records
    return root


def _as_it_is(root: Path) -> Path:
    return root


WAYS: dict[str, Callable[[Path], Path]] = {
    "closed": _as_it_is,
    "copied": _copied,
    "without a checkpoint": _without_checkpoint,
    "accept_loss": _damaged,
}


@pytest.mark.parametrize("has_queues", [False, True], ids=["log", "store"])
@pytest.mark.parametrize("way", WAYS)
def test_no_queue_offset_is_given_twice(
    tmp_path: Path, way: str, *, has_queues: bool
) -> None:
    """
    An idle queue lost its records to retention, or the newest ones to damage.
    """
    print(f"PS_SEED={SEED}")
    draw = random.Random(f"{SEED} {way} {has_queues}")
    root = tmp_path / "store"
    given: dict[tuple[str, int], int] = {}
    kind: type[Store | CommitLog] = Store if has_queues else CommitLog
    options = {"queue_file_bytes": 8000} if has_queues else {}
    for turn in range(4):
        accept = way == "accept_loss"
        with kind(root, segment_size=SEGMENT, accept_loss=accept, **options) as store:  # type: ignore[arg-type]
            log = store.log if isinstance(store, Store) else store
            for number in range(draw.randrange(150, 300)):
                topic = "idle" if number < 5 and turn == 0 else f"t{number % 2}"
                if turn == 3 and number < 2:
                    topic = "idle"
                found = log.append(Message(topic, b"x" * draw.randrange(200)))
                offset = log.read(found.offset).queue_offset
                assert given.get((topic, 0), -1) < offset, (turn, topic)
                given[topic, 0] = offset
            log.sync()
            store.keep()
            if turn == 1:
                if isinstance(store, Store):
                    store.retain(Retention(reserved_hours=None, total_bytes_max=1), 0)
                else:
                    log.delete_before(log.end_offset)
        if turn in (1, 2):
            root = WAYS[way](root)
    report = verify_store(root)
    assert [] == report.damages


@pytest.mark.parametrize(
    ("has_queues", "expected"), [(True, 5), (False, 0)], ids=["store", "log"]
)
def test_without_the_metadata_queues_tell_how_offsets_go_on(
    tmp_path: Path, *, has_queues: bool, expected: int
) -> None:
    """
    Retention took all records of a queue: in a log without consume queues only the
    metadata knew its end, as docs/operations.md says.
    """
    kind: type[Store | CommitLog] = Store if has_queues else CommitLog
    with kind(tmp_path, segment_size=SEGMENT) as store:
        log = store.log if isinstance(store, Store) else store
        log.append_batch([Message("idle", b"x")] * 5)
        log.append_batch([Message("t", bytes(100))] * 60)
        log.append_batch([Message("t", bytes(100))] * 60)
        log.sync()
        store.keep()
        log.delete_before(log.end_offset)
        assert log.min_offset > 0
    shutil.rmtree(tmp_path / "meta")

    with kind(tmp_path) as store:
        log = store.log if isinstance(store, Store) else store
        assert (
            expected == log.read(log.append(Message("idle", b"x")).offset).queue_offset
        )
        assert 120 == log.read(log.append(Message("t", b"x")).offset).queue_offset


def test_lost_records_leave_a_gap_in_their_queue(tmp_path: Path) -> None:
    """
    A consumer that stood behind them goes on with the next record.
    """
    with Store(tmp_path, segment_size=SEGMENT, queue_file_bytes=8000) as store:
        for number in range(300):
            store.log.append(Message("t", b"%d" % number * 30))
        store.keep()
    last = max((tmp_path / "commitlog").iterdir())
    last.unlink()
    with pytest.raises(PystoreError):
        Store(tmp_path)
    with Store(tmp_path, accept_loss=True) as store:
        kept = store.queue_range("t", 0)[1]
        store.log.append(Message("t", b"next"))
        assert (0, 301) == store.queue_range("t", 0)
        assert b"next" == store.read("t", 0, 300).body
    assert kept < 300
    assert [] == verify_store(tmp_path).damages


@pytest.mark.parametrize("wrong", [-(2**63) + 18, -1, 1 << 62, (1 << 63) - 1])
def test_an_impossible_queue_offset_closes_no_store(tmp_path: Path, wrong: int) -> None:
    """
    Opening, dry run and verify agree: the record is damage, which verify reports, and
    its queue goes on behind the others.
    """
    root = tmp_path / "store"
    with Store(
        root, segment_size=SEGMENT, property_crc=False, queue_file_bytes=400
    ) as store:
        starts = [store.log.append(Message("T", b"x")).offset for _ in range(9)]
    with segment_path(root, 0).open("r+b") as file:
        file.seek(starts[7] + 20)
        file.write(wrong.to_bytes(8, "big", signed=True))
    copy = _copied(root)

    assert [starts[7]] == [one.offset for one in verify_store(copy).damages]
    assert inspect(copy).plan.corrupt is None
    with CommitLog(copy) as log:
        assert 9 == log.read(log.append(Message("T", b"y")).offset).queue_offset
