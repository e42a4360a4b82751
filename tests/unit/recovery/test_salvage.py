"""
Giving up damaged bytes saves and names what goes.
"""

from __future__ import annotations

import errno
import tracemalloc
from pathlib import Path

import pytest
from lib.store.segment_files import restart_machine, segment, write
from lib.store.stores import SEGMENT, bodies, fill, kill_while, message

from pystore.errors import CorruptError, FullError
from pystore.message.message import BODY_SIZE_MAX, Message
from pystore.recovery import salvage
from pystore.recovery.salvage import LOSS_MAX, save_loss
from pystore.recovery.segments import Segments
from pystore.store import open as opening
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


def test_an_accepted_loss_that_a_crash_stopped_needs_no_second_consent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The cut was intended before a byte went; so the next opening finishes it (A3).
    """
    root = tmp_path / "store"
    _damaged(root)

    def stop(*_: object) -> None:
        raise FullError("stopped behind the first transaction")

    monkeypatch.setattr(opening, "_write_abort", stop)
    with pytest.raises(FullError, match="stopped"):
        CommitLog(root, accept_loss=True)
    monkeypatch.undo()
    with CommitLog(root) as log:
        assert [message(i).body for i in range(100)] == bodies(log)


def test_a_loss_is_not_saved_over_an_earlier_one(tmp_path: Path) -> None:
    """
    What was saved once is never overwritten.
    """
    root = tmp_path / "store"
    offsets = _damaged(root)
    earlier = Path(f"{root}.lost-{offsets[100]:020d}")
    earlier.mkdir()

    with CommitLog(root, accept_loss=True) as log:
        loss = log.recovery.loss

    assert loss is not None
    assert [] == list(earlier.iterdir())
    assert Path(f"{earlier}-2") == loss.directory
    assert any(loss.directory.iterdir())


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


def _large_loss(root: Path) -> tuple[int, int]:
    """
    A store after a power cut that tore a record, with more whole records behind it than
    an opening may move without consent: the offset of the torn one, and their number.
    """
    body = b"x" * BODY_SIZE_MAX
    count = LOSS_MAX // BODY_SIZE_MAX + 2

    def append_all(log: CommitLog) -> None:
        for _ in range(count):
            log.append(Message("t", body))

    kill_while(root, append_all, segment_size=1 << 27)
    with CommitLog(root, mode="r") as log:
        torn = int(next(log.scan(rows=2))["offset"][1])
    lost_sector = torn + 512 - torn % 512
    write(segment(root, 0), lost_sector, bytes(512))
    restart_machine(root)
    return torn, count - 2


def test_a_large_loss_needs_consent_and_a_place(tmp_path: Path) -> None:
    """
    Above 64 MiB an opening refuses, and changes nothing; with a named place or with
    consent it saves all of it.
    """
    root = tmp_path / "store"
    torn, behind = _large_loss(root)
    before = segment(root, 0).read_bytes()
    text = r"would remove \d{8} bytes .*--save-to"
    with pytest.raises(CorruptError, match=text) as refused:
        CommitLog(root)
    assert torn == refused.value.offset
    assert before == segment(root, 0).read_bytes()
    assert [root] == list(tmp_path.iterdir())

    place = tmp_path / "place"
    with CommitLog(root, save_to=place) as log:
        loss = log.recovery.loss
        assert torn == log.end_offset
    assert loss is not None
    assert (place, behind) == (loss.directory.parent, len(loss.records))
    (saved,) = loss.directory.iterdir()
    assert before[torn:].rstrip(b"\0") == saved.read_bytes()


def test_a_loss_of_many_records_is_saved_in_bounded_memory(tmp_path: Path) -> None:
    """
    Only the offsets of the records are kept, eight bytes each; not their bytes (A17).
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=1 << 23) as log:
        log.append_batch([Message("t", b"") for _ in range(40_000)])
        with CommitLog(root, mode="r") as read:
            segments = Segments(read.reader)
            behind = log.end_offset - read.read(0).end
            tracemalloc.start()
            loss = save_loss(root, segments, read.read(0).end)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert (behind, 39_999) == (loss.bytes_saved, len(loss.records))
    assert peak < 3 << 20


def test_consent_alone_saves_a_large_loss_beside_the_store(tmp_path: Path) -> None:
    """
    Who accepts the loss need not name a place.
    """
    root = tmp_path / "store"
    torn, behind = _large_loss(root)
    with CommitLog(root, accept_loss=True) as log:
        loss = log.recovery.loss
        assert torn == log.end_offset
    assert loss is not None
    assert (tmp_path, behind) == (loss.directory.parent, len(loss.records))
    assert loss.bytes_saved > LOSS_MAX
