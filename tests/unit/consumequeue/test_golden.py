"""
Consume queues are RocketMQ's, byte for byte.
"""

from __future__ import annotations

from pathlib import Path

from lib.oracle.golden_data import GoldenStore
from lib.oracle.reference import ReferenceLog

from pystore.consumequeue.queue import ENTRY_SIZE
from pystore.consumequeue.queues import ConsumeQueues, queue_file_size


def _open(root: Path, store: GoldenStore) -> ConsumeQueues:
    configured = int(store.expected["config"]["mappedFileSizeConsumeQueue"])
    queues = ConsumeQueues(root, queue_file_size(configured), is_writable=True)
    queues.load()
    return queues


def test_golden_queues_read_as_java_reported_them(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    After the log's records were dispatched, as Java does on start: every entry, and
    the minimum and maximum offsets.
    """
    log = ReferenceLog.open(golden_root, golden_store.segment_size)
    queues = _open(golden_root, golden_store)
    for rows in log.rows(log.bases[0]):
        queues.dispatch(rows, 0, log.topic)

    found = {}
    for queue in queues:
        first = queue.first_index(log.bases[0])
        found[f"{queue.topic}/{queue.queue_id}"] = {
            "topic": queue.topic,
            "queueId": queue.queue_id,
            "minOffset": queue.min_index(log.bases[0]),
            "maxOffset": queue.max_index,
            "maxPhysicOffset": queue.end_offset,
            "firstEntryOffset": first,
            "entries": [list(e) for e in queue.entries(first, 10**6).tolist()],
        }

    assert golden_store.expected["consumeQueues"] == found


def test_golden_queue_files_are_rebuilt_byte_for_byte(
    golden_store: GoldenStore, golden_root: Path, tmp_path: Path
) -> None:
    """
    From nothing but the log; where Java had removed the log's front, from there on;
    and where it was halted, as far as it had come.
    """
    log = ReferenceLog.open(golden_root, golden_store.segment_size)
    root = tmp_path / "rebuilt"
    root.mkdir()
    rebuilt = _open(root, golden_store)
    for rows in log.rows(log.bases[0]):
        rebuilt.dispatch(rows, 0, log.topic)

    compared = 0
    for theirs in _open(golden_root, golden_store):
        first = theirs.first_index(log.bases[0])
        if first == theirs.max_index:
            continue
        ours = rebuilt.get(theirs.topic, theirs.queue_id)
        assert ours
        for base in theirs.files.bases:
            name = Path(str(theirs.queue_id)) / f"{base:020d}"
            old = (golden_root / "consumequeue" / theirs.topic / name).read_bytes()
            start = max(0, min(len(old), first * ENTRY_SIZE - base))
            end = max(0, min(len(old), theirs.max_index * ENTRY_SIZE - base))
            if start == end:
                continue
            new = (root / "consumequeue" / theirs.topic / name).read_bytes()
            assert len(old) == len(new)
            assert old[start:end] == new[start:end]
            if ours.max_index == theirs.max_index:
                assert old[end:] == new[end:]
            compared += end - start

    assert compared > 0


def test_next_offsets_of_golden_queues_are_java_s(
    golden_store: GoldenStore, golden_root: Path
) -> None:
    """
    What the core's table is loaded with.
    """
    log = ReferenceLog.open(golden_root, golden_store.segment_size)
    queues = _open(golden_root, golden_store)
    for rows in log.rows(log.bases[0]):
        queues.dispatch(rows, 0, log.topic)

    found = {f"{topic}-{n}": length for (topic, n), length in queues.lengths().items()}

    table = golden_store.expected["queueOffsetTableAfterLoad"]
    assert table == {key: found[key] for key in table}
