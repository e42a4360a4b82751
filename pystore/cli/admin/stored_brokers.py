"""
What the directory of a store knows of its broker: for a rebuilt record.

A running broker may have the store open. ``meta/`` is enough, so that of other hosts
can be copied; of a store of RocketMQ its small files are.
"""

from __future__ import annotations

from pathlib import Path

from pystore.controller.decide.rebuild import StoredBroker
from pystore.epochs.table import EpochTable
from pystore.errors import InvalidError
from pystore.fs.layout import META_NAME
from pystore.metastore.database import MetaStore
from pystore.metastore.schema import CLUSTER, EPOCHS, IDENTITY, INCARNATION, PROMISED
from pystore.metastore.values import Identity
from pystore.recovery.foreign_writer import find
from pystore.rocketmq.identity_file import BrokerIdentity

__all__ = ["stored_broker"]


def stored_broker(store: Path) -> StoredBroker:
    """
    Reads the broker of a store.

    Raises:
        InvalidError: no controller gave it an id.
        PystoreError: its metadata, or a file of RocketMQ, is damaged or cannot be read.
    """
    if not (store / META_NAME).is_dir():
        found = find(store).read()
        own = _confirmed(store, found.identity)
        epoch = (found.epochs or EpochTable()).last_epoch
        return StoredBroker(
            str(store), own.cluster, own.broker, own.broker_id, max(epoch, 0)
        )
    with MetaStore.open_read_only(store / META_NAME) as metastore:
        own = _confirmed(store, metastore.read(IDENTITY))
        epochs, promised = metastore.read(EPOCHS), metastore.read(PROMISED)
        return StoredBroker(
            str(store),
            own.cluster,
            own.broker,
            own.broker_id,
            max(epochs.last_epoch, promised, 0),
            metastore.read(INCARNATION),
            metastore.read(CLUSTER),
        )


def _confirmed(store: Path, identity: Identity) -> BrokerIdentity:
    if isinstance(identity, BrokerIdentity):
        return identity
    raise InvalidError(
        f"{store}: it has no confirmed broker id, so it held nothing under a "
        "controller: leave it out, or correct the path"
    )
