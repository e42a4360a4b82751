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
    "DescribeSetsRequest",
    "DescribeSetsResponse",
    "ElectUncleanRequest",
    "ExportSetsRequest",
    "ExportSetsResponse",
    "HandOverRequest",
    "HandOverResponse",
    "ImportSetRequest",
    "LinkSecretsRequest",
    "ReadAuditRequest",
    "ReadmitBrokerRequest",
    "SegmentClaimRequest",
    "SegmentPeerRequest",
    "SegmentRateRequest",
    "SetCopiesRequest",
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
class SetCopiesRequest:
    """
    7117: says how many replicas a set should have.

    Attributes:
        copies: 0: as many brokers as have an id and are no learners.
    """

    broker_name: str
    copies: Int32
    cluster_name: str = ""


@dataclass(frozen=True, slots=True)
class DescribeSetsRequest:
    """
    7118: asks for the description of the sets after this one, in the order of their
    names; empty names: from the first one on. The body of the answer is
    `pystore.controller.protocol.set_descriptions.encode_sets`.

    Attributes:
        after_cluster: of the set before the first one.
        after_name: of that set.
        only_cluster: of the only set that is asked for; an earlier controller tells the
            page of all sets nevertheless.
        only_name: of that set; empty: all sets are asked for.
    """

    after_cluster: str = ""
    after_name: str = ""
    only_cluster: str = ""
    only_name: str = ""


@dataclass(frozen=True, slots=True)
class DescribeSetsResponse:
    """
    The answer to 7118.

    Attributes:
        led_millis: for how long the answering controller has led.
        may_replace_master: it has led for so long, without a pause, that a silent
            broker is not alive.
        next_cluster: of the last set that it looked at; empty: there are no more.
        next_name: of that set.
    """

    led_millis: Int64 = 0
    may_replace_master: bool = False
    next_cluster: str = ""
    next_name: str = ""


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


@dataclass(frozen=True, slots=True)
class SegmentPeerRequest:
    """
    7120 and 7121, to a broker: asks about its copy, or orders the job in the body. The
    broker refuses what is meant for another one that had its address before.
    """

    cluster_name: str
    broker_name: str
    broker_id: Int64


@dataclass(frozen=True, slots=True)
class SegmentClaimRequest:
    """
    7122 and 7123, to a broker: asks how far a job is, or ends it.

    Attributes:
        claim: of the worker that ordered it.
    """

    cluster_name: str
    broker_name: str
    broker_id: Int64
    claim: str


@dataclass(frozen=True, slots=True)
class SegmentRateRequest:
    """
    7124, to a broker: changes how fast its host takes segments of repairs.

    Attributes:
        bytes_per_second: 0: no limit.
    """

    cluster_name: str
    broker_name: str
    broker_id: Int64
    bytes_per_second: Int64
