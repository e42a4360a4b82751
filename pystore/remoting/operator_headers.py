"""
Headers of what operators ask a controller of pystore beyond RocketMQ's requests. Pure.

The codes are in a range that RocketMQ does not use: its controllers answer that they
do not know them. Answers are JSON bodies, or empty.

Source: R271; docs/operations.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.remoting.fields import Int32, Int64

__all__ = [
    "ChangeBrokerRequest",
    "ChangeElectionsRequest",
    "DescribeBrokerSetRequest",
    "ReadmitBrokerRequest",
]


@dataclass(frozen=True, slots=True)
class DescribeBrokerSetRequest:
    """
    7101: everything that is known of a set. An empty cluster: the only one that has it.
    """

    broker_name: str
    cluster_name: str = ""


@dataclass(frozen=True, slots=True)
class ChangeBrokerRequest:
    """
    7102: attributes of a broker; ``None`` leaves one as it is.
    """

    broker_name: str
    broker_id: Int64
    cluster_name: str = ""
    is_learner: bool | None = None
    priority: Int32 | None = None


@dataclass(frozen=True, slots=True)
class ChangeElectionsRequest:
    """
    7103: how a set elects; ``None`` leaves it as it is.

    Attributes:
        preferred_broker_id: 0: nobody.
        allow_elect_master: elections happen without an operator.
    """

    broker_name: str
    cluster_name: str = ""
    preferred_broker_id: Int64 | None = None
    allow_elect_master: bool | None = None


@dataclass(frozen=True, slots=True)
class ReadmitBrokerRequest:
    """
    7104: a broker may be filled and admitted again, whatever its store was.
    """

    broker_name: str
    broker_id: Int64
    cluster_name: str = ""
