"""
What each role may do: one table of request codes. Pure.

A code without a row is allowed to no role, so a new request is refused until its row
says who may send it. The roles do not contain each other: a user has one or more.

Source: docs/security.md, *Roles*.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum

from pystore.remoting.codes import RequestCode
from pystore.remoting.command import RemotingCommand

__all__ = ["HANDED_OVER", "ROLES_OF_CODE", "UserRole", "roles_of"]


class UserRole(Enum):
    """
    What a user is.
    """

    BROKER = "broker"
    """A process of a set: registers, sends heartbeats, changes its SyncStateSet."""

    OPERATOR = "operator"
    """Decides over sets and controllers."""

    READER = "reader"
    """Asks only: clients of RocketMQ, and programs that observe."""


_B, _O, _R = UserRole.BROKER, UserRole.OPERATOR, UserRole.READER
_ALL = frozenset(UserRole)
_BROKERS = frozenset({_B})
_OPERATORS = frozenset({_O})
_PEOPLE = frozenset({_O, _R})
_REPAIR = frozenset({_B, _O})

ROLES_OF_CODE: Mapping[int, AbstractSet[UserRole]] = {
    # Name server.
    RequestCode.REGISTER_BROKER: _BROKERS,
    RequestCode.UNREGISTER_BROKER: _BROKERS,
    RequestCode.QUERY_DATA_VERSION: _BROKERS,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _ALL,
    RequestCode.GET_BROKER_CLUSTER_INFO: _ALL,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _ALL,
    RequestCode.GET_BROKER_MEMBER_GROUP: _ALL,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: _OPERATORS,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: _OPERATORS,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: _OPERATORS,
    # Both.
    RequestCode.BROKER_HEARTBEAT: _BROKERS,
    # Controller: brokers.
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: _BROKERS,
    RequestCode.CONTROLLER_APPLY_BROKER_ID: _BROKERS,
    RequestCode.CONTROLLER_REGISTER_BROKER: _BROKERS,
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: _BROKERS,
    RequestCode.CONTROLLER_ELECT_MASTER: frozenset({_B, _O}),
    RequestCode.CONTROLLER_GET_REPLICA_INFO: _ALL,
    RequestCode.CONTROLLER_GET_METADATA_INFO: _ALL,
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: _ALL,
    # Controller: people.
    RequestCode.GET_CONTROLLER_CONFIG: _PEOPLE,
    RequestCode.DESCRIBE_BROKER_SET: _PEOPLE,
    RequestCode.DESCRIBE_SETS: _PEOPLE,
    RequestCode.DESCRIBE_HOSTS: _PEOPLE,
    RequestCode.BROKER_SET_EVENTS: _PEOPLE,
    RequestCode.UPDATE_CONTROLLER_CONFIG: _OPERATORS,
    RequestCode.CLEAN_BROKER_DATA: _OPERATORS,
    RequestCode.CHANGE_BROKER: _OPERATORS,
    RequestCode.CHANGE_ELECTIONS: _OPERATORS,
    RequestCode.SET_COPIES: _OPERATORS,
    RequestCode.READMIT_BROKER: _OPERATORS,
    RequestCode.TRANSFER_CONTROLLER: _OPERATORS,
    RequestCode.DELETE_BROKER_SET: _OPERATORS,
    RequestCode.ELECT_UNCLEAN: _OPERATORS,
    # With these, secrets of others could be read or replaced.
    RequestCode.EXPORT_SETS: _OPERATORS,
    RequestCode.IMPORT_SET: _OPERATORS,
    RequestCode.CHANGE_USER: _OPERATORS,
    RequestCode.LIST_USERS: _OPERATORS,
    RequestCode.READ_AUDIT: _OPERATORS,
    # Brokers.
    RequestCode.VERIFY_REQUEST: _BROKERS,
    RequestCode.GET_LINK_SECRETS: _BROKERS,
    RequestCode.GET_BROKER_EPOCH_CACHE: _ALL,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: _OPERATORS,
    RequestCode.HAND_OVER: _OPERATORS,
    # Brokers: repair, ordered by the workers of AutoRecovery.
    RequestCode.SEGMENT_STAT: _REPAIR,
    RequestCode.SEGMENT_ORDER: _REPAIR,
    RequestCode.SEGMENT_PROGRESS: _REPAIR,
    RequestCode.SEGMENT_STOP: _REPAIR,
    RequestCode.SEGMENT_RATE: _REPAIR,
    # Hosts.
    RequestCode.HOST_HEARTBEAT: _BROKERS,
    RequestCode.ADD_BROKER: _OPERATORS,
    RequestCode.REMOVE_BROKER: _OPERATORS,
    RequestCode.DESCRIBE_HOST: _PEOPLE,
    RequestCode.FORGET_HOST: _OPERATORS,
}
"""Who may send a request with this code."""

_NONE: AbstractSet[UserRole] = frozenset()
_FALSE = "false"

HANDED_OVER = "pystoreHandedOverEpoch"
"""Of a master's request for its successor, which its process and epoch prove."""


def roles_of(request: RemotingCommand) -> AbstractSet[UserRole]:
    """
    Returns the roles of which one is needed for a request; empty: no user may send it.
    """
    is_order = request.ext_fields.get("designateElect", _FALSE).lower() != _FALSE
    if request.code == RequestCode.CONTROLLER_ELECT_MASTER and is_order:
        # A broker asks for an election, and a master for its own successor; otherwise
        # only an operator says who is elected.
        is_handed_over = HANDED_OVER in request.ext_fields
        return ROLES_OF_CODE[request.code] if is_handed_over else _OPERATORS
    return ROLES_OF_CODE.get(request.code, _NONE)
