"""
The identity of a record store: read by each controller that leads, and made with the
first commit.

Source: docs/record-store.md, docs/identity.md.
"""

from __future__ import annotations

import uuid

from pystore.controller.protocol.cluster_id import is_cluster_id
from pystore.controller.server.record_keys import CLUSTER
from pystore.errors import FormatError, SessionLostError
from pystore.records.ops import ABSENT, CheckVersion, Op, Put
from pystore.records.record_store import RecordStore
from pystore.records.term import Term

__all__ = ["begun_cluster", "cluster_id_in"]


def cluster_id_in(store: RecordStore) -> str:
    """
    Returns the identity of a record store; empty: it has none yet. Blocks.

    Raises:
        FormatError: the record is damaged.
        PystoreError: the store cannot be read.
    """
    record = store.get(CLUSTER)
    if record is None:
        return ""
    found = record.value.decode("ascii", "replace")
    if record.damage or not is_cluster_id(found):
        raise FormatError(
            f"record {CLUSTER}: {record.damage or 'it is no UUID'}: restore the record "
            "store from a backup",
            path=CLUSTER,
        )
    return found


def begun_cluster(
    store: RecordStore, term: Term, bits: int, cluster_id: str = ""
) -> str:
    """
    Returns the identity of a record store, which gets one if it has none. Blocks.

    Args:
        store: the record store.
        term: of the controller that leads.
        bits: 128 random bits, for a store without an identity.
        cluster_id: the identity that such a store gets instead; empty: none.

    Raises:
        SessionLostError: another controller leads.
        FormatError: the record is damaged.
        PystoreError: the store cannot be read or written.
    """
    found = cluster_id_in(store)
    if found:
        return found
    made = cluster_id or uuid.UUID(int=bits, version=4).hex
    ops: list[Op] = [
        term.check,
        CheckVersion(CLUSTER, ABSENT),
        Put(CLUSTER, made.encode()),
    ]
    if store.commit(ops) is None:
        raise SessionLostError("another controller leads")
    return made
