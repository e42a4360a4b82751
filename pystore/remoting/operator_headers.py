"""
The headers of pystore's own requests of operators to a controller, or to a master.
Pure.

The codes are in a range that RocketMQ does not use: its controllers answer that they do
not support them. Answers are JSON bodies, or empty.

Source: RMQ-R271; docs/operations.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from pystore.remoting.fields import Int32, Int64

__all__ = [
    "BrokerSetEventsRequest",
    "ChangeBrokerRequest",
    "ChangeElectionsRequest",
    "ChangeUserRequest",
    "ChangeUserResponse",
    "DeleteBrokerSetRequest",
    "DescribeBrokerSetRequest",
    "ElectUncleanRequest",
    "ExportSetsRequest",
    "ExportSetsResponse",
    "HandOverRequest",
    "HandOverResponse",
    "ImportSetRequest",
    "LinkSecretsRequest",
    "ReadAuditRequest",
    "ReadmitBrokerRequest",
    "VerifyRequestResponse",
]


@dataclass(frozen=True, slots=True)
class DescribeBrokerSetRequest:
    """
    7101: asks for the details of a set; an empty cluster: the only one with that set.
    """

    broker_name: str
    cluster_name: str = ""


@dataclass(frozen=True, slots=True)
class ChangeBrokerRequest:
    """
    7102: changes attributes of a broker; ``None`` leaves one as it is.
    """

    broker_name: str
    broker_id: Int64
    cluster_name: str = ""
    is_learner: bool | None = None
    priority: Int32 | None = None


@dataclass(frozen=True, slots=True)
class ChangeElectionsRequest:
    """
    7103: changes the elections of a set; ``None`` leaves an attribute as it is.

    Attributes:
        preferred_broker_id: 0: none.
        allow_elect_master: elections need no operator.
    """

    broker_name: str
    cluster_name: str = ""
    preferred_broker_id: Int64 | None = None
    allow_elect_master: bool | None = None


@dataclass(frozen=True, slots=True)
class ReadmitBrokerRequest:
    """
    7104: re-admits a broker: a master may fill and admit it, whatever its store was.
    """

    broker_name: str
    broker_id: Int64
    cluster_name: str = ""


@dataclass(frozen=True, slots=True)
class DeleteBrokerSetRequest:
    """
    7106: removes the record of a set without live brokers. The cluster is required: a
    set with a wrong cluster may have the name of another one.
    """

    broker_name: str
    cluster_name: str


@dataclass(frozen=True, slots=True)
class ElectUncleanRequest:
    """
    7107: elects a broker whose log may lack acknowledged records, in one set.

    Attributes:
        is_confirmed: otherwise nothing is changed, and the answer says what would be
            lost.
    """

    broker_name: str
    broker_id: Int64
    cluster_name: str = ""
    is_confirmed: bool = False


@dataclass(frozen=True, slots=True)
class ExportSetsRequest:
    """
    7108: asks for the records of the sets after this one, in the order of their names;
    empty names: from the first one on. The body of the answer has one a line.
    """

    after_cluster: str = ""
    after_name: str = ""


@dataclass(frozen=True, slots=True)
class ExportSetsResponse:
    """
    The answer to 7108.

    Attributes:
        next_cluster: of the last set that it looked at; empty: there are no more.
        next_name: of that set.
        damaged: the sets whose records are unreadable, ``CLUSTER/NAME;...``.
    """

    next_cluster: str = ""
    next_name: str = ""
    damaged: str = ""


@dataclass(frozen=True, slots=True)
class ImportSetRequest:
    """
    7109: imports the record in the body into a set without brokers.

    Attributes:
        cluster_id: the UUID of the record store from which it comes; empty: none is
            known. An empty record store gets it.
    """

    cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class BrokerSetEventsRequest:
    """
    7110: asks for the last events of a set; an empty cluster: the only one with that
    set. The body of the answer has one event a line, as JSON, oldest first.
    """

    broker_name: str
    cluster_name: str = ""


@dataclass(frozen=True, slots=True)
class HandOverRequest:
    """
    7201, to a master: hands the mastership over to a member of its set.

    Attributes:
        broker_id: of the next master.
        timeout_millis: how long it may take to catch up, and then for the rest.
    """

    broker_id: Int64
    timeout_millis: Int32 = 2_000


@dataclass(frozen=True, slots=True)
class HandOverResponse:
    """
    The answer to 7201.

    Attributes:
        master_epoch: of the next mastership.
    """

    master_epoch: Int64 = 0


@dataclass(frozen=True, slots=True)
class ChangeUserRequest:
    """
    7112: changes a user; the body is sealed with the key file of the cluster.
    """

    name: str


@dataclass(frozen=True, slots=True)
class ChangeUserResponse:
    """
    The version of the user: after the change, or in a refusal the present one.
    """

    version: Int64


@dataclass(frozen=True, slots=True)
class ReadAuditRequest:
    """
    7114: asks for so many of the last orders of operators.
    """

    count: Int32


@dataclass(frozen=True, slots=True)
class VerifyRequestResponse:
    """
    The answer to 7115: who signed the request in the body.

    Attributes:
        user: its name; empty: the controllers do not enforce.
        is_bound: its requests have to be bound to their connection.
    """

    user: str = ""
    is_bound: bool = False


@dataclass(frozen=True, slots=True)
class LinkSecretsRequest:
    """
    7116: a broker asks for the secrets of its links. The body of the answer is one
    sealed text a line (`pystore.access.link_secrets`).

    Attributes:
        incarnation: of the process that asks.
        nonce: random; the answer is sealed for it.
    """

    cluster_name: str
    broker_name: str
    broker_id: Int64
    incarnation: str
    nonce: str
