"""
Which header a request has, and which its response. Pure.

Source: formats 3.8, 4; docs/remoting.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pystore.remoting import controller_headers as controller
from pystore.remoting import host_headers as host
from pystore.remoting import name_server_headers as name_server
from pystore.remoting import operator_headers as operator
from pystore.remoting.codes import RequestCode

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["HEADERS", "Headers"]


class Headers(NamedTuple):
    """
    The header of a request and of its response; ``None``: it has no fields.
    """

    request: type[DataclassInstance] | None
    response: type[DataclassInstance] | None = None


HEADERS: dict[RequestCode, Headers] = {
    RequestCode.REGISTER_BROKER: Headers(
        name_server.RegisterBrokerRequest, name_server.RegisterBrokerResponse
    ),
    RequestCode.UNREGISTER_BROKER: Headers(name_server.UnregisterBrokerRequest),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Headers(name_server.GetRouteInfoRequest),
    RequestCode.GET_BROKER_CLUSTER_INFO: Headers(None),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: Headers(
        name_server.WritePermRequest, name_server.WipeWritePermResponse
    ),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Headers(None),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: Headers(name_server.DeleteTopicRequest),
    RequestCode.QUERY_DATA_VERSION: Headers(
        name_server.QueryDataVersionRequest, name_server.QueryDataVersionResponse
    ),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: Headers(
        name_server.WritePermRequest, name_server.AddWritePermResponse
    ),
    RequestCode.GET_BROKER_MEMBER_GROUP: Headers(name_server.BrokerMemberGroupRequest),
    RequestCode.BROKER_HEARTBEAT: Headers(controller.BrokerHeartbeat),
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: Headers(
        name_server.NotifyMinBrokerIdChange
    ),
    RequestCode.EXCHANGE_BROKER_HA_INFO: Headers(
        name_server.ExchangeHaInfo, name_server.ExchangeHaInfo
    ),
    RequestCode.GET_BROKER_HA_STATUS: Headers(None),
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: Headers(
        controller.AlterSyncStateSetRequest, controller.AlterSyncStateSetResponse
    ),
    RequestCode.CONTROLLER_ELECT_MASTER: Headers(
        controller.ElectMasterRequest, controller.ElectMasterResponse
    ),
    RequestCode.CONTROLLER_REGISTER_BROKER: Headers(
        controller.RegisterBrokerToControllerRequest,
        controller.RegisterBrokerToControllerResponse,
    ),
    RequestCode.CONTROLLER_GET_REPLICA_INFO: Headers(
        controller.GetReplicaInfoRequest, controller.GetReplicaInfoResponse
    ),
    RequestCode.CONTROLLER_GET_METADATA_INFO: Headers(
        None, controller.GetMetadataResponse
    ),
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: Headers(None),
    RequestCode.GET_BROKER_EPOCH_CACHE: Headers(None),
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: Headers(controller.NotifyRoleChanged),
    RequestCode.UPDATE_CONTROLLER_CONFIG: Headers(None),
    RequestCode.GET_CONTROLLER_CONFIG: Headers(None),
    RequestCode.CLEAN_BROKER_DATA: Headers(controller.CleanBrokerDataRequest),
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: Headers(
        controller.GetNextBrokerIdRequest, controller.GetNextBrokerIdResponse
    ),
    RequestCode.CONTROLLER_APPLY_BROKER_ID: Headers(
        controller.ApplyBrokerIdRequest, controller.ApplyBrokerIdResponse
    ),
    RequestCode.DESCRIBE_BROKER_SET: Headers(operator.DescribeBrokerSetRequest),
    RequestCode.CHANGE_BROKER: Headers(operator.ChangeBrokerRequest),
    RequestCode.CHANGE_ELECTIONS: Headers(operator.ChangeElectionsRequest),
    RequestCode.DESCRIBE_SETS: Headers(
        operator.DescribeSetsRequest, operator.DescribeSetsResponse
    ),
    RequestCode.ADD_BROKER: Headers(host.AddBrokerRequest),
    RequestCode.REMOVE_BROKER: Headers(host.RemoveBrokerRequest),
    RequestCode.HOST_HEARTBEAT: Headers(host.HostHeartbeatRequest),
    RequestCode.DESCRIBE_HOSTS: Headers(
        host.DescribeHostsRequest, host.DescribeHostsResponse
    ),
    RequestCode.DESCRIBE_HOST: Headers(None),
    RequestCode.FORGET_HOST: Headers(host.ForgetHostRequest),
    RequestCode.SET_COPIES: Headers(operator.SetCopiesRequest),
    RequestCode.SEGMENT_STAT: Headers(operator.SegmentPeerRequest),
    RequestCode.SEGMENT_ORDER: Headers(operator.SegmentPeerRequest),
    RequestCode.SEGMENT_PROGRESS: Headers(operator.SegmentClaimRequest),
    RequestCode.SEGMENT_STOP: Headers(operator.SegmentClaimRequest),
    RequestCode.SEGMENT_RATE: Headers(operator.SegmentRateRequest),
    RequestCode.READMIT_BROKER: Headers(operator.ReadmitBrokerRequest),
    RequestCode.ELECT_UNCLEAN: Headers(operator.ElectUncleanRequest),
    RequestCode.DELETE_BROKER_SET: Headers(operator.DeleteBrokerSetRequest),
    RequestCode.TRANSFER_CONTROLLER: Headers(None),
    RequestCode.EXPORT_SETS: Headers(
        operator.ExportSetsRequest, operator.ExportSetsResponse
    ),
    RequestCode.IMPORT_SET: Headers(operator.ImportSetRequest),
}
