"""
A consume queue entry that names a wrong record is reported.
"""

from __future__ import annotations

from pathlib import Path

from lib.oracle.golden_data import STORES

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


def test_an_entry_of_another_size_or_tag_is_damage(tmp_path: Path) -> None:
    """
    A consumer would read too much, or miss its records.
    """
    for at in (8 + 3, 12 + 7):
        (tmp_path / str(at)).mkdir()
        root, queue = a_store(tmp_path / str(at))
        byte = queue.read_bytes()[ENTRY + at]
        change(queue, ENTRY + at, bytes([byte ^ 1]))

        assert ["queue offset 1"] == [
            damage.reason[:14] for damage in verify_store(root).damages
        ]


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
