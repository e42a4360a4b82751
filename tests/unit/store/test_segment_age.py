"""
The age of a segment is in its seal; damage makes no segment old.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lib.store.stores import SEGMENT, fill

from pystore.errors import CorruptError
from pystore.events import DamageFound, StoreEvent
from pystore.seals import list_seals, read_seal
from pystore.store.commit_log import CommitLog
from pystore.store.retention import Retention
from pystore.store.sealer import seal_next
from pystore.store.segment_age import SegmentAges
from pystore.store.store import Store

HOUR_MS = 3_600_000
OLD = Retention(reserved_hours=1)
# Structural fields of the first record, behind its size: magic, body CRC, queue id,
# flag, queue offset, physical offset, system flags, born time, store time, lengths.
FIELDS = [0, 4, 8, 12, 16, 20, 28, 36, 40, 56, 80, 84, 88]


def _filled(store: Store, count: int = 2000) -> None:
    fill(store.log, count)
    store.log.sync()
    store.dispatch()


def _seal_all(store: Store) -> list[int]:
    while seal_next(store.log.writer):
        pass
    return list_seals(store.path / "meta" / "seals")


def _flip(root: Path, offset: int) -> None:
    """
    Change one bit of the log.
    """
    name = f"{offset // SEGMENT * SEGMENT:020d}"
    with (root / "commitlog" / name).open("r+b", buffering=0) as file:
        byte = os.pread(file.fileno(), 1, offset % SEGMENT)[0]
        os.pwrite(file.fileno(), bytes([byte ^ 1]), offset % SEGMENT)


def _age(store: Store) -> int | None:
    """
    As a writer sees it that has asked for none before.
    """
    return SegmentAges(store.path, store.log.reader).last_ms(0)


def _newest_ms(log: CommitLog, base: int) -> int:
    return int(max(rows["store_ms"].max() for rows in log.scan(base, base + SEGMENT)))


@pytest.mark.parametrize("at", FIELDS)
def test_one_flipped_bit_makes_no_segment_old(tmp_path: Path, at: int) -> None:
    """
    Whatever the field, young records stay, and the damage is reported: as an error
    with its offset, and once as an event.
    """
    events: list[StoreEvent] = []
    with Store(tmp_path / "s", segment_size=SEGMENT, on_event=events.append) as store:
        _filled(store)
        now = store.log.read(0).store_ms
        _flip(store.path, at)

        for _ in range(2):
            with pytest.raises(CorruptError, match="not deleted for its age") as caught:
                store.retain(Retention(reserved_hours=72), now)

        assert 0 == caught.value.offset
        assert 0 == store.log.min_offset
        assert 1 == sum(isinstance(event, DamageFound) for event in events)


def test_whole_segments_before_a_damaged_one_are_deleted(tmp_path: Path) -> None:
    """
    The damaged one and all after it stay, however old they are.
    """
    with Store(tmp_path / "s", segment_size=SEGMENT) as store:
        _filled(store)
        now = store.log.read(0).store_ms + 9 * HOUR_MS
        _flip(store.path, SEGMENT + 4)

        with pytest.raises(CorruptError, match=f"{SEGMENT:020d}"):
            store.retain(OLD, now)

        assert SEGMENT == store.log.min_offset


def test_a_limit_of_size_deletes_a_damaged_segment(tmp_path: Path) -> None:
    """
    Its reason is not the damage; the segments after it wait for the next call.
    """
    with Store(tmp_path / "s", segment_size=SEGMENT) as store:
        _filled(store)
        now = store.log.read(0).store_ms
        total = SEGMENT * len(store.log.reader.segments())
        _flip(store.path, 4)

        assert 1 == store.retain(Retention(72, total - 1), now)


def test_a_sealed_segment_is_not_scanned_for_its_age(tmp_path: Path) -> None:
    """
    The age is that of its last record, from the seal; the bytes between may be bad.
    """
    with Store(tmp_path / "s", segment_size=SEGMENT) as store:
        _filled(store)
        newest = _newest_ms(store.log, 0)
        assert newest == _age(store)
        _seal_all(store)

        assert newest == _age(store)
        _flip(store.path, 4)  # the seal is of other bytes now
        with pytest.raises(CorruptError):
            _age(store)


def test_a_damaged_seal_proves_no_age(tmp_path: Path) -> None:
    """
    The segment is scanned, as if it had no seal.
    """
    with Store(tmp_path / "s", segment_size=SEGMENT) as store:
        _filled(store)
        newest = _newest_ms(store.log, 0)
        _seal_all(store)
        seal = store.path / "meta" / "seals" / f"{0:020d}.seal"
        seal.write_bytes(bytes([seal.read_bytes()[0] ^ 1]) + seal.read_bytes()[1:])

        assert newest == _age(store)


def test_an_age_is_forgotten_when_the_log_is_cut(tmp_path: Path) -> None:
    """
    Other records may take the place of those that were cut.
    """
    with Store(tmp_path / "s", segment_size=SEGMENT) as store:
        _filled(store)
        ages = store.log.writer.ages
        assert ages.last_ms(0) is not None
        _flip(store.path, SEGMENT // 2)
        assert ages.last_ms(0) is not None  # remembered
        store.cut(store.log.reader.read(0).size)
        _filled(store)

        assert _newest_ms(store.log, 0) == ages.last_ms(0)


def test_seals_go_with_their_segments(tmp_path: Path) -> None:
    """
    Also those that a killed process left; the store opens and is whole.
    """
    root = tmp_path / "s"
    with Store(root, segment_size=SEGMENT) as store:
        _filled(store)
        bases = _seal_all(store)
        left = root / "meta" / "seals" / f"{bases[0]:020d}.seal"
        content = left.read_bytes()
        assert 1 == store.log.delete_before(SEGMENT)
        assert bases[1:] == list_seals(root / "meta" / "seals")

        left.write_bytes(content)
        assert 1 == store.log.delete_before(2 * SEGMENT)
        assert bases[2:] == list_seals(root / "meta" / "seals")
    with Store(root) as store:
        assert 2 * SEGMENT == store.log.min_offset


def test_the_chain_of_seals_goes_on_from_a_deleted_segment(tmp_path: Path) -> None:
    """
    The last seal of a deleted segment stays until the first segment is sealed.
    """
    with Store(tmp_path / "s", segment_size=SEGMENT) as store:
        _filled(store, 600)
        assert [0, SEGMENT] == _seal_all(store)
        before = read_seal(store.path / "meta" / "seals", SEGMENT)
        assert before is not None
        store.log.delete_before(2 * SEGMENT)
        assert [SEGMENT] == list_seals(store.path / "meta" / "seals")
        _filled(store, 300)
        assert 2 * SEGMENT == _seal_all(store)[0]

        seal = read_seal(store.path / "meta" / "seals", 2 * SEGMENT)
        assert seal is not None
        assert seal.follows(before.chain)


def test_retention_dispatches_first(tmp_path: Path) -> None:
    """
    Records that are deleted before they have entries would leave a gap in their queue.
    """
    with Store(tmp_path / "s", segment_size=SEGMENT) as store:
        fill(store.log, 2000)
        assert store.retain(Retention(None, SEGMENT), 0) > 0

        first, end = store.queue_range("Topic", 0)
        assert 667 == end
        assert 0 < first < end


@pytest.mark.parametrize("until_confirmed", [False, True])
def test_retention_keeps_what_damage_hides_from_the_queues(
    tmp_path: Path, until_confirmed: bool
) -> None:
    """
    Its queue would never go on: the records after the damage have no entries yet.
    """
    root = tmp_path / "s"
    with Store(root, segment_size=SEGMENT, until_confirmed=until_confirmed) as store:
        fill(store.log, 2000)
        store.log.sync()
        store.log.writer.log.confirm(store.log.ends.published_end)
        offset = int(next(iter(store.log.scan()))["offset"][100])
        _flip(root, offset + 4)

        with pytest.raises(CorruptError) as caught:
            store.retain(Retention(None, SEGMENT), 0)

        assert offset == caught.value.offset
        assert 0 == store.log.min_offset
        _flip(root, offset + 4)
        assert store.retain(Retention(None, SEGMENT), 0) > 0
        assert 667 == store.queue_range("Topic", 0)[1]


def test_damage_further_in_makes_no_segment_old(tmp_path: Path) -> None:
    """
    The records before the damage may be old, and those after it young.
    """
    with Store(tmp_path / "s", segment_size=SEGMENT) as store:
        _filled(store)
        offset = int(next(iter(store.log.scan()))["offset"][100])
        _flip(store.path, offset + 4)

        with pytest.raises(CorruptError) as caught:
            store.retain(OLD, store.log.read(0).store_ms + 9 * HOUR_MS)

        assert offset == caught.value.offset
        assert 0 == store.log.min_offset
