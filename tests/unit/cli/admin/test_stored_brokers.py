"""
What a store knows of its broker, also while it is open, and of RocketMQ's stores.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pystore.cli.admin.stored_brokers import stored_broker
from pystore.controller.identity.store import IdentityStore
from pystore.epochs.file import encode_epochs
from pystore.epochs.table import EpochTable
from pystore.errors import InvalidError
from pystore.fs.layout import EPOCH_FILE, IDENTITY_FILE
from pystore.ha.slave.replica_log import ReplicaLog
from pystore.rocketmq.identity_file import BrokerIdentity, TemporaryIdentity

ID = BrokerIdentity("c", "b", 2)
UUID = "a" * 32


def test_an_open_store_tells_id_starts_promise_and_uuid(tmp_path: Path) -> None:
    """
    A copy of ``meta/`` tells the same.
    """
    with ReplicaLog(tmp_path / "s", segment_size=1 << 20) as log:
        identity = IdentityStore(log.writer)
        with pytest.raises(InvalidError, match="no confirmed broker id"):
            stored_broker(tmp_path / "s")
        identity.write_temporary(TemporaryIdentity(ID, "h:1;1"))
        with pytest.raises(InvalidError, match="no confirmed broker id"):
            stored_broker(tmp_path / "s")
        identity.confirm(ID)
        log.join_cluster(UUID)
        with log.writer.metastore.change() as change:
            change.promise(9)
        found = stored_broker(tmp_path / "s")
        assert ("c", "b", 2, 9, UUID) == (
            found.cluster,
            found.name,
            found.broker_id,
            found.epoch,
            found.cluster_id,
        )
        assert log.incarnation == found.incarnation
        shutil.copytree(tmp_path / "s" / "meta", tmp_path / "copy" / "meta")
        assert found.incarnation == stored_broker(tmp_path / "copy").incarnation


def test_a_store_of_rocketmq_tells_id_and_epochs(tmp_path: Path) -> None:
    """
    From its two small files.
    """
    (tmp_path / IDENTITY_FILE).write_bytes(ID.encode())
    assert 0 == stored_broker(tmp_path).epoch
    table = EpochTable.of([(3, 0), (6, 100)])
    (tmp_path / EPOCH_FILE).write_bytes(encode_epochs(table))
    found = stored_broker(tmp_path)
    assert (2, 6, None, "") == (
        found.broker_id,
        found.epoch,
        found.incarnation,
        found.cluster_id,
    )
