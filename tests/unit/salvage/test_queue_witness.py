"""
The consume queues of a damaged store are a witness, as far as they can be read.
"""

from __future__ import annotations

from pathlib import Path

from lib.command_line import SEGMENT

from pystore.message.message import Message
from pystore.salvage.queue_witness import QueueWitness
from pystore.store.store import Store


def test_an_entry_names_its_record_and_no_other(tmp_path: Path) -> None:
    """
    A queue, a slot or a store without an entry names nothing.
    """
    root = tmp_path / "s"
    with Store(root, segment_size=SEGMENT, queue_file_bytes=400) as store:
        offsets = [store.log.append(Message("t", b"body")).offset for _ in range(3)]
    with QueueWitness(root) as queues:
        assert queues.names(("t", 0, 1), offsets[1])
        assert not queues.names(("t", 0, 1), offsets[2])
        assert not queues.names(("t", 0, 3), offsets[2])
        assert not queues.names(("t", 0, -1), offsets[2])
        assert not queues.names(("t", 7, 0), offsets[0])
    with QueueWitness(tmp_path) as queues:
        assert not queues.names(("t", 0, 1), offsets[1])


def test_damaged_queues_are_no_witness(tmp_path: Path) -> None:
    """
    And no reason to stop.
    """
    root = tmp_path / "s"
    with Store(root, segment_size=SEGMENT, queue_file_bytes=400) as store:
        offset = store.log.append(Message("t", b"body")).offset
    (root / "consumequeue" / "t" / "0" / f"{40:020d}").write_bytes(b"short")
    with QueueWitness(root) as queues:
        assert not queues.names(("t", 0, 0), offset)
