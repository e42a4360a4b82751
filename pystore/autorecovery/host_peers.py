"""
What a replacement asks of the hosts, and of the controllers about members.

A host is a process that carries replicas of many sets; a spare is a host with none. As
in `pystore.autorecovery.replica_peers` an answer is definite, and whatever else happens
is `pystore.errors.UnavailableError`. Each request may be repeated: it asks for a state,
and one that is there is fine.

Source: D2; docs/autorecovery.md, *Replacing a replica*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "CarriedReplica",
    "HostPeers",
    "NewReplica",
    "RecoveryHost",
    "SetOperators",
]


@dataclass(frozen=True, slots=True)
class CarriedReplica:
    """
    A replica that a host carries.

    Attributes:
        cluster: of the set.
        set_name: of the set.
        broker_id: in the set; ``None``: it has not got one yet.
        store: its path on the host.
    """

    cluster: str
    set_name: str
    broker_id: int | None
    store: str = ""


@dataclass(frozen=True, slots=True)
class RecoveryHost:
    """
    A host, as it told last.

    Attributes:
        name: its identity, the same after a restart: ``HOST:PORT`` where it takes
            requests.
        rack: its label; empty: none.
        free_bytes: of the file system of its stores.
        disk_used_percent: of that file system; -1: unknown.
        replicas: that it carries, or that it carried when it was heard last.
        is_alive: it answers.
    """

    name: str
    rack: str = ""
    free_bytes: int = 0
    disk_used_percent: int = -1
    replicas: tuple[CarriedReplica, ...] = ()
    is_alive: bool = False

    def replica_of(self, cluster: str, set_name: str) -> CarriedReplica | None:
        """
        Returns its replica of a set.
        """
        same = (cluster, set_name)
        found = (one for one in self.replicas if (one.cluster, one.set_name) == same)
        return next(found, None)


@dataclass(frozen=True, slots=True)
class NewReplica:
    """
    A replica that a host is to carry, with an id that it applies for itself.

    Attributes:
        cluster: of the set.
        set_name: of the set.
        is_from_last_file: its log begins with the master's last segment, and is filled
            downwards afterwards.
    """

    cluster: str
    set_name: str
    is_from_last_file: bool = True


class HostPeers(Protocol):
    """
    The hosts. For one thread; each call is bounded in time.

    All methods raise `pystore.errors.UnavailableError` if there was no definite answer:
    what was asked for may be done or not. Another `pystore.errors.PystoreError` is a
    refusal.
    """

    def all_hosts(self) -> Mapping[str, RecoveryHost]:
        """
        Returns all hosts that have an identity, alive or not, by name.
        """
        ...

    def add(self, host: str, replica: NewReplica) -> None:
        """
        Adds a replica (902). One of that set that the host has already is fine. A store
        that an earlier removal kept is not opened.
        """
        ...

    def remove(
        self, host: str, cluster: str, set_name: str, *, deletes_store: bool
    ) -> None:
        """
        Stops a replica and forgets it (903). One that the host does not have is fine.
        """
        ...

    def forget(self, host: str) -> None:
        """
        Deletes the identity of a host without replicas. One that has none is fine.
        """
        ...


class SetOperators(Protocol):
    """
    The changes of members that controller and masters carry out. For one thread.

    Errors as of `HostPeers`. The version is that of the description on which the change
    was decided (`SetDescription.version`); with another one nothing is changed, and the
    answer is ``False``.
    """

    def clean(self, cluster: str, set_name: str, broker_id: int, version: int) -> bool:
        """
        Removes a broker that is not alive from its set (1011).
        """
        ...

    def set_learner(
        self, cluster: str, set_name: str, broker_id: int, version: int
    ) -> bool:
        """
        Makes a broker a learner (7102).
        """
        ...

    def hand_over(self, master: str, broker_id: int) -> None:
        """
        Asks the master at an address to hand over to a member (7201).
        """
        ...
