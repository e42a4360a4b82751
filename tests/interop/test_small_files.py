"""
The small files in the root of a store mean the same to both programs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from interop.jvm import StoreTool

from pystore.epochs.file import encode_epochs, read_epochs
from pystore.epochs.table import EpochTable
from pystore.fs.layout import CHECKPOINT, EPOCH_FILE, EPOCH_FILE_BACKUP, IDENTITY_FILE
from pystore.rocketmq.checkpoint_file import CheckpointTimes, parse_checkpoint
from pystore.rocketmq.identity_file import BrokerIdentity, parse_identity

TABLES = [
    [(1, 0)],
    [(1, 0), (2, 1580), (5, 2**40)],
    [(number, 1000 * number) for number in range(200)],
    [(2**31 - 1, 2**63 - 2)],
]
IDENTITIES = [
    ("DefaultCluster", "broker-a", 1),
    ("cluster", "мост 桥", 2**62),
]
TIMES = [
    CheckpointTimes(),
    CheckpointTimes(1_700_000_005_000, 1_700_000_004_000, 1_700_000_001_000, 77, 88),
    CheckpointTimes(2**63 - 1, 1, 2**62, 0, 2**63 - 1),
]


@pytest.mark.parametrize("pairs", TABLES, ids=lambda pairs: f"{len(pairs)}-epochs")
def test_an_epoch_file_of_pystore_is_read_by_rocketmq(
    java: StoreTool, tmp_path: Path, pairs: list[tuple[int, int]]
) -> None:
    """
    The table that RocketMQ loads is the one that was exported.
    """
    (tmp_path / EPOCH_FILE).write_bytes(encode_epochs(EpochTable.of(pairs)))

    answer = java.ask({"do": "epochs", "root": str(tmp_path)})

    assert {"loaded": True, "entries": [list(pair) for pair in pairs]} == answer


@pytest.mark.parametrize("pairs", TABLES, ids=lambda pairs: f"{len(pairs)}-epochs")
def test_an_epoch_file_of_rocketmq_is_written_byte_for_byte_by_pystore(
    java: StoreTool, tmp_path: Path, pairs: list[tuple[int, int]]
) -> None:
    """
    The table of RocketMQ is read, and its encoding has the same bytes.
    """
    java.ask({"do": "epochs", "root": str(tmp_path), "append": pairs})
    content = (tmp_path / EPOCH_FILE).read_bytes()

    found = read_epochs(content, None)

    assert found is not None
    assert pairs == found.table.pairs()
    assert content == encode_epochs(found.table)


def test_rocketmq_continues_an_epoch_table_of_pystore(
    java: StoreTool, tmp_path: Path
) -> None:
    """
    RocketMQ appends to the file and keeps the old one as ``.bak``; pystore reads both.
    """
    ours = EpochTable.of([(1, 0), (2, 100)])
    (tmp_path / EPOCH_FILE).write_bytes(encode_epochs(ours))

    java.ask({"do": "epochs", "root": str(tmp_path), "append": [(3, 300)]})
    content = (tmp_path / EPOCH_FILE).read_bytes()
    backup = (tmp_path / EPOCH_FILE_BACKUP).read_bytes()
    found, former = read_epochs(content, backup), read_epochs(backup, None)

    assert found is not None
    assert former is not None
    assert ours.append(3, 300) == found.table
    assert ours == former.table


@pytest.mark.parametrize("names", IDENTITIES, ids=lambda names: names[0])
def test_an_identity_is_the_same_to_both(
    java: StoreTool, tmp_path: Path, names: tuple[str, str, int]
) -> None:
    """
    Each program reads the other's ``brokerIdentity``, and the bytes are equal.
    """
    ours = BrokerIdentity(*names)
    (tmp_path / IDENTITY_FILE).write_bytes(ours.encode())

    read = java.ask({"do": "identity", "root": str(tmp_path)})
    java.ask({"do": "identity", "root": str(tmp_path), "write": names})
    theirs = (tmp_path / IDENTITY_FILE).read_bytes()

    assert {"loaded": True, "identity": list(names)} == read
    assert ours.encode() == theirs
    assert ours == parse_identity(theirs)


@pytest.mark.parametrize("times", TIMES, ids=["new", "usual", "extreme"])
def test_a_checkpoint_is_the_same_to_both(
    java: StoreTool, tmp_path: Path, times: CheckpointTimes
) -> None:
    """
    Values and the minima computed from them agree, and so do the bytes.
    """
    (tmp_path / CHECKPOINT).write_bytes(times.encode())

    read = java.ask({"do": "checkpoint", "root": str(tmp_path)})
    (tmp_path / CHECKPOINT).unlink()
    values = [value for key, value in read.items() if not key.startswith("min")]
    java.ask({"do": "checkpoint", "root": str(tmp_path), "write": values})
    theirs = (tmp_path / CHECKPOINT).read_bytes()

    assert times.min_ms == read["minTimestamp"]
    assert times.min_index_ms == read["minTimestampIndex"]
    assert times.encode() == theirs
    assert times == parse_checkpoint(theirs)
