"""
The identity of a record store: made once, and kept.
"""

from __future__ import annotations

import pytest

from pystore.controller.protocol.cluster_id import is_cluster_id
from pystore.controller.server.cluster_identity import begun_cluster, cluster_id_in
from pystore.controller.server.record_keys import CLUSTER, LEADER
from pystore.errors import FormatError, SessionLostError
from pystore.records.memory import MemorySpace, MemoryStore
from pystore.records.ops import Put


def test_the_first_leader_makes_it_and_later_ones_read_it() -> None:
    """
    Whatever random bits a later leader has.
    """
    space = MemorySpace()
    store = MemoryStore(space)
    assert "" == cluster_id_in(store)
    made = begun_cluster(store, store.campaign(LEADER, "a"), 7)
    assert is_cluster_id(made)
    store.close()
    later = MemoryStore(space)
    assert made == cluster_id_in(later)
    assert made == begun_cluster(later, later.campaign(LEADER, "b"), 8)


def test_a_controller_that_leads_no_more_makes_none() -> None:
    """
    Its term is checked with the write.
    """
    space = MemorySpace()
    store = MemoryStore(space)
    term = store.campaign(LEADER, "a")
    store.close()
    other = MemoryStore(space)
    other.campaign(LEADER, "b")
    with pytest.raises(SessionLostError):
        begun_cluster(MemoryStore(space), term, 7)
    assert other.get(CLUSTER) is None


def test_a_damaged_identity_is_not_replaced() -> None:
    """
    Brokers would refuse every controller of this record store.
    """
    store = MemoryStore(MemorySpace())
    store.commit([Put(CLUSTER, b"ill")])
    with pytest.raises(FormatError, match="controller/cluster: it is no UUID"):
        begun_cluster(store, store.campaign(LEADER, "a"), 7)
