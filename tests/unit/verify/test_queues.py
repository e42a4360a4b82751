"""
A consume queue entry that names a wrong record is reported.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lib.oracle.golden_data import STORES
from lib.store.stores import SEGMENT, fill

from pystore.doctor.apply import heal
from pystore.store.store import Store
from pystore.verify import verify_store

ENTRY = 20


def a_store(tmp_path: Path) -> tuple[Path, Path]:
    """
    Returns a golden store and the file of one of its queues.
    """
    (store,) = (store for store in STORES if store.name == "mixed-clean")
    root = store.extract(tmp_path)
    return root, root / "consumequeue" / "TopicA" / "0" / f"{0:020d}"


def change(path: Path, at: int, data: bytes) -> None:
    """
    Overwrites bytes of a file.
    """
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


def test_an_entry_with_another_offset_is_damage(tmp_path: Path) -> None:
    """
    The report has the queue, the queue offset and the offset.
    """
    root, queue = a_store(tmp_path)
    change(queue, 2 * ENTRY, (12345).to_bytes(8))
    report = verify_store(root)

    (damage,) = report.damages
    assert (str(queue.parent), 12345) == (damage.path, damage.offset)
    assert "queue offset 2 names" in damage.reason


@pytest.mark.parametrize("bit", range(96))
def test_a_bit_of_the_offset_or_size_of_an_entry_is_damage(
    tmp_path: Path, bit: int
) -> None:
    """
    Also if the entry then names bytes above the end of the log.
    """
    root, queue = a_store(tmp_path)
    at = ENTRY + bit // 8
    byte = queue.read_bytes()[at]
    change(queue, at, bytes([byte ^ 1 << bit % 8]))

    assert ["queue offset 1"] == [
        damage.reason[:14] for damage in verify_store(root).damages
    ]


def test_an_entry_with_another_tags_code_is_noted(tmp_path: Path) -> None:
    """
    The code of a delayed message depends on the delay levels of the broker.
    """
    root, queue = a_store(tmp_path)
    byte = queue.read_bytes()[ENTRY + 19]
    change(queue, ENTRY + 19, bytes([byte ^ 1]))

    report = verify_store(root)

    assert ("whole", 1) == (report.verdict, report.queues.other_tags)


@pytest.mark.parametrize("slot", [0, 3])
def test_an_entry_that_is_missing_below_others_is_damage(
    tmp_path: Path, slot: int
) -> None:
    """
    A filler stands where a record has its queue offset.
    """
    root, queue = a_store(tmp_path)
    filler = bytes(8) + (2**31 - 1).to_bytes(4) + bytes(8)
    change(queue, slot * ENTRY, filler)

    (damage,) = verify_store(root).damages

    assert f"queue offset {slot}" in damage.reason


def test_a_record_that_entry_and_order_contradict_is_the_damage(
    tmp_path: Path,
) -> None:
    """
    Without a property CRC the queue id of a record is not covered: its entry and the
    queue offsets around it tell, and the healthy queue is not named.
    """
    root, queue = a_store(tmp_path)
    offset = int.from_bytes(queue.read_bytes()[2 * ENTRY : 2 * ENTRY + 8])
    base = offset // 65536 * 65536
    change(root / "commitlog" / f"{base:020d}", offset - base + 15, b"\x07")

    (damage,) = verify_store(root).damages

    assert offset == damage.offset
    assert damage.path.endswith(f"commitlog/{base:020d}")
    assert "queue offset 2" in damage.reason


def test_many_bad_entries_are_partly_listed_and_otherwise_counted(
    tmp_path: Path,
) -> None:
    """
    A completely wrong queue does not fill the screen.
    """
    root, _ = a_store(tmp_path)
    queue = root / "consumequeue" / "TopicA" / "2"
    files = sorted(queue.iterdir())
    for file in files:
        data = bytearray(file.read_bytes())
        for at in range(0, len(data), ENTRY):
            if any(data[at : at + ENTRY]):
                data[at + 7] ^= 1
        file.write_bytes(data)
    damages = verify_store(root).damages

    assert 21 == len(damages)
    assert any("more entries of this queue are bad" in d.reason for d in damages)


def test_records_without_entries_are_counted(tmp_path: Path) -> None:
    """
    Queues follow the log: an entry that is not yet written is not damage.
    """
    root, queue = a_store(tmp_path)
    for file in queue.parent.iterdir():
        file.unlink()
    queue.parent.rmdir()
    report = verify_store(root)

    assert "whole" == report.verdict
    assert 0 < report.queues.missing < 357


def test_a_queue_file_of_a_wrong_size_is_damage(tmp_path: Path) -> None:
    """
    The records are checked nevertheless.
    """
    root, queue = a_store(tmp_path)
    queue.write_bytes(queue.read_bytes()[:-7])
    report = verify_store(root)

    assert str(queue) in {damage.path for damage in report.damages}
    assert 357 == report.records


@pytest.mark.parametrize("what", ["last file", "queue", "all queues"])
def test_entries_that_were_written_once_and_are_missing_are_damage(
    tmp_path: Path, what: str
) -> None:
    """
    The metadata say how far the entries were on disk. Opening with queues builds them.
    """
    root = tmp_path / "store"
    with Store(root, segment_size=SEGMENT, queue_file_bytes=400) as store:
        fill(store.log, 200)
    folder = root / "consumequeue"
    if what == "all queues":
        shutil.rmtree(folder)
    elif what == "queue":
        shutil.rmtree(folder / "Topic" / "1")
    else:
        max((folder / "Topic" / "1").iterdir()).unlink()

    damages = verify_store(root).damages
    with Store(root) as store:
        end = store.queue_range("Topic", 1)[1]

    assert ["are missing"] == [one.reason.split(": ")[0][-11:] for one in damages]
    assert end > 20
    assert "whole" == verify_store(root).verdict


def test_a_queue_that_cannot_be_read_hides_no_wrong_entry_of_another(
    tmp_path: Path,
) -> None:
    """
    Two findings, and the doctor heals both at once.
    """
    root, queue = a_store(tmp_path)
    short = next(
        path
        for path in sorted((root / "consumequeue").glob("*/*/*"))
        if path.parent != queue.parent
    )
    change(queue, 2 * ENTRY, (12345).to_bytes(8))
    short.write_bytes(short.read_bytes()[:125])

    report = verify_store(root)

    assert {str(queue.parent), str(short)} == {one.path for one in report.damages}
    # Nothing is said to be missing of a queue that cannot be read.
    assert 2 == len(report.damages)
    heal(root)
    assert [] == verify_store(root).damages
