"""
What the Auditor and the workers ask of the replicas of a set, and of the controllers.

Both are answered by other processes. An answer is definite: the replica itself, or the
leading controller under its authority, said so. Whatever else happens, a time-out, a
refused connection, an overload, a controller that leads for too short a time, is
`pystore.errors.UnavailableError`: it is known of nothing, and marks nothing (AR-R6).

Source: AR-R6, AR-R12; docs/autorecovery.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pystore.controller.protocol.set_descriptions import SetDescription
from pystore.segments.order import OrderProgress, ReplicaStat, SegmentOrder

__all__ = [
    "ClusterView",
    "Controllers",
    "ReplicaAddress",
    "ReplicaPeers",
]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """
    All sets at one moment, told by the leading controller.

    Attributes:
        sets: by cluster and name, in their order.
        damaged: cluster and name of the sets whose records are unreadable.
        led_ms: for how long that controller has led.
        may_replace: what it tells as not alive is dead; otherwise it is unknown.
        at_ms: Unix time of the first page.
    """

    sets: Mapping[tuple[str, str], SetDescription]
    damaged: tuple[tuple[str, str], ...]
    led_ms: int
    may_replace: bool
    at_ms: int


class Controllers(Protocol):
    """
    The leading controller. For one thread.
    """

    def all_sets(self) -> ClusterView:
        """
        Returns the description of all sets.

        Raises:
            UnavailableError: no controller tells it under its authority.
        """
        ...

    def one_set(self, cluster: str, name: str) -> SetDescription | None:
        """
        Returns the description of one set; ``None``: there is no such set.

        Raises:
            UnavailableError: as `all_sets`; or the controller has led for too short a
                time to know who is alive.
            FormatError: the record of the set is unreadable.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReplicaAddress:
    """
    One replica of a set and where it answers.

    Attributes:
        cluster: of the set.
        set_name: of the set.
        broker_id: in the set.
        address: ``HOST:PORT`` of its remoting port.
    """

    cluster: str
    set_name: str
    broker_id: int
    address: str

    @property
    def text(self) -> str:
        """
        For people.
        """
        return f"broker {self.broker_id} at {self.address}"


class ReplicaPeers(Protocol):
    """
    The replicas. Any thread; each call is bounded in time.

    All methods raise `pystore.errors.UnavailableError` if the replica gave no definite
    answer, and another `pystore.errors.PystoreError` if it refused.
    """

    def stat(self, replica: ReplicaAddress) -> ReplicaStat:
        """
        Returns what a replica says about its copy.
        """
        ...

    def order(self, replica: ReplicaAddress, order: SegmentOrder) -> OrderProgress:
        """
        Starts a job, or joins the one of the same claim; returns how far it is.
        """
        ...

    def progress(self, replica: ReplicaAddress, claim: str) -> OrderProgress:
        """
        Returns how far a job is; `OrderOutcome.FAILED` with a detail, if the replica
        knows none: it was started again.
        """
        ...

    def stop(self, replica: ReplicaAddress, claim: str) -> None:
        """
        Ends a job. One that the replica does not know is fine.
        """
        ...
