"""
Full segments get their seals, one at a time.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, fill

from pystore.errors import CorruptError
from pystore.seals import NO_CHAIN, list_seals, read_seal, verify_seal
from pystore.store import sealer
from pystore.store.commit_log import CommitLog
from pystore.store.sealer import DEFAULT_GROUP, seal_next
from pystore.store.store import Store


def test_every_full_and_synced_segment_is_sealed_in_a_chain(tmp_path: Path) -> None:
    """
    Seals name records and times, verify the bytes, and follow one another.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        fill(log, 1000)
        assert not seal_next(log.writer)  # nothing is synced yet
        log.sync()
        while seal_next(log.writer):
            pass
        bases = log.reader.segments()[:-1]
        directory = root / "meta" / "seals"

        assert bases == list_seals(directory)
        chain, records = NO_CHAIN, 0
        for base in bases:
            seal = read_seal(directory, base)
            assert seal is not None
            assert DEFAULT_GROUP == seal.group
            assert seal.follows(chain)
            blocks = [b.view for b in log.blocks(base, base + SEGMENT)]
            assert [] == verify_seal(seal, blocks)
            chain, records = seal.chain, records + seal.record_count
        last = log.reader.scan(bases[-1] + SEGMENT).finish().records
        assert 1000 == records + last


@pytest.mark.parametrize(
    ("at", "content"), [(110, b"\xee"), (0, bytes(64))], ids=["a bit", "zeros"]
)
def test_damage_is_never_sealed(tmp_path: Path, at: int, content: bytes) -> None:
    """
    The error has the offset of the bad record; the segment is not tried again.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 600)
        log.sync()
        with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(offsets[3] + at)
            file.write(content)
        with pytest.raises(CorruptError, match="cannot be sealed") as caught:
            seal_next(log.writer)

        assert offsets[3] == caught.value.offset
        assert seal_next(log.writer)


def test_the_folder_of_the_seals_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The maintenance calls `keep` each second, and there can be thousands of seals.
    """
    listed: list[Path] = []

    def list_and_note(directory: Path) -> list[int]:
        listed.append(directory)
        return list_seals(directory)

    monkeypatch.setattr(sealer, "list_seals", list_and_note)
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT) as store:
        for first in range(0, 1000, 100):
            fill(store.log, 100, first)
            store.log.sync()
            store.keep()
            store.keep()
        bases = store.log.reader.segments()[:-1]

    directory = root / "meta" / "seals"
    assert len(bases) > 1
    assert bases == list_seals(directory)
    assert [directory] == listed


def test_a_cut_removes_the_seals_of_cut_segments(tmp_path: Path) -> None:
    """
    A cut segment is no longer sealed.
    """
    root = tmp_path / "store"
    with CommitLog(root, segment_size=SEGMENT) as log:
        offsets = fill(log, 1000)
        log.sync()
        while seal_next(log.writer):
            pass
        log.cut(offsets[0])

        assert [] == list_seals(root / "meta" / "seals")


def test_a_replica_seals_confirmed_segments_only(tmp_path: Path) -> None:
    """
    A22: what is above the confirm offset may still be cut, and is no evidence.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT, until_confirmed=True) as store:
        fill(store.log, 1000)
        store.log.sync()
        ends = store.log.ends
        assert ends.synced_end > 3 * SEGMENT
        for confirmed, sealed in (
            (0, []),
            (SEGMENT - 1, []),
            (SEGMENT, [0]),
            (2 * SEGMENT + 100, [0, SEGMENT]),
        ):
            store.log.writer.log.confirm(confirmed)
            while store.keep():
                pass
            assert sealed == list_seals(root / "meta" / "seals")
