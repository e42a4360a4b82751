"""
The small files of a store, read on the driver.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystore.epochs.file import encode_epochs
from pystore.epochs.table import EpochTable
from pystore.errors import FormatError
from pystore.fs.layout import EPOCH_FILE, EPOCH_FILE_BACKUP
from pystore.spark.plan.store_files import read_epoch_table, read_if_present


def test_a_missing_file_has_no_content(tmp_path: Path) -> None:
    """
    An empty file has: they differ.
    """
    (tmp_path / "empty").touch()

    assert read_if_present(tmp_path / "missing") is None
    assert b"" == read_if_present(tmp_path / "empty")


def test_a_store_without_an_epoch_file_has_no_epochs(tmp_path: Path) -> None:
    """
    It never had a controller.
    """
    assert read_epoch_table(tmp_path) is None


def test_the_epochs_come_from_the_backup_if_the_file_is_missing(tmp_path: Path) -> None:
    """
    As in RocketMQ.
    """
    table = EpochTable.of([(1, 0), (3, 500)])
    (tmp_path / EPOCH_FILE_BACKUP).write_bytes(encode_epochs(table))

    assert table == read_epoch_table(tmp_path)


def test_an_epoch_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """
    The error names the file.
    """
    (tmp_path / EPOCH_FILE).write_bytes(b"no epochs")

    with pytest.raises(FormatError, match=EPOCH_FILE):
        read_epoch_table(tmp_path)
