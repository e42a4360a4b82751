"""
The constants of the remoting protocol. Pure.

Source: formats 3.1, 3.2, 3.5, 3.6; docs/remoting.md.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "FRAME_BYTES_MAX",
    "HEADER_BYTES_MAX",
    "HEARTBEAT_TIMEOUT_MS",
    "LOWEST_PRIORITY",
    "VERSION",
    "CommandFlag",
    "Language",
    "RequestCode",
    "ResponseCode",
    "Serialisation",
]

FRAME_BYTES_MAX = 16 << 20
"""The longest frame that RocketMQ accepts, with its length field."""

HEADER_BYTES_MAX = 256 << 10
"""The longest accepted header; a few hundred bytes are usual."""

HEARTBEAT_TIMEOUT_MS = 10_000
"""The validity of a heartbeat that names none."""

LOWEST_PRIORITY = 2**31 - 1
"""The election priority of a broker that sends none (RMQ-R67)."""

VERSION = 479
"""The ordinal of RocketMQ 5.3.3: name servers choose the body format by it."""


class Serialisation(IntEnum):
    """
    The serialisation of a header: the first byte after the length.
    """

    JSON = 0
    ROCKETMQ = 1


class CommandFlag(IntFlag):
    """
    The bits of a command's flag.
    """

    RESPONSE = 1
    ONE_WAY = 2


class Language(IntEnum):
    """
    The programming language of a peer; unknown ones are `OTHER`.
    """

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13


class RequestCode(IntEnum):
    """
    The code of a request.
    """

    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_TOPIC_IN_NAMESRV = 216
    QUERY_DATA_VERSION = 322
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_BROKER_MEMBER_GROUP = 901
    ADD_BROKER = 902
    REMOVE_BROKER = 903
    BROKER_HEARTBEAT = 904
    NOTIFY_MIN_BROKER_ID_CHANGE = 905
    EXCHANGE_BROKER_HA_INFO = 906
    GET_BROKER_HA_STATUS = 907
    RESET_MASTER_FLUSH_OFFSET = 908
    CONTROLLER_ALTER_SYNC_STATE_SET = 1001
    CONTROLLER_ELECT_MASTER = 1002
    CONTROLLER_REGISTER_BROKER = 1003
    CONTROLLER_GET_REPLICA_INFO = 1004
    CONTROLLER_GET_METADATA_INFO = 1005
    CONTROLLER_GET_SYNC_STATE_DATA = 1006
    GET_BROKER_EPOCH_CACHE = 1007
    NOTIFY_BROKER_ROLE_CHANGED = 1008
    UPDATE_CONTROLLER_CONFIG = 1009
    GET_CONTROLLER_CONFIG = 1010
    CLEAN_BROKER_DATA = 1011
    CONTROLLER_GET_NEXT_BROKER_ID = 1012
    CONTROLLER_APPLY_BROKER_ID = 1013
    # Extensions of pystore: RocketMQ uses no code between 3010 and 200050.
    DESCRIBE_BROKER_SET = 7101
    CHANGE_BROKER = 7102
    CHANGE_ELECTIONS = 7103
    READMIT_BROKER = 7104
    TRANSFER_CONTROLLER = 7105
    DELETE_BROKER_SET = 7106
    ELECT_UNCLEAN = 7107
    EXPORT_SETS = 7108
    IMPORT_SET = 7109
    BROKER_SET_EVENTS = 7110
    GET_CHALLENGE = 7111
    CHANGE_USER = 7112
    LIST_USERS = 7113
    READ_AUDIT = 7114
    VERIFY_REQUEST = 7115
    GET_LINK_SECRETS = 7116
    SET_COPIES = 7117
    DESCRIBE_SETS = 7118
    HOST_HEARTBEAT = 7119
    SEGMENT_STAT = 7120
    SEGMENT_ORDER = 7121
    SEGMENT_PROGRESS = 7122
    SEGMENT_STOP = 7123
    SEGMENT_RATE = 7124
    DESCRIBE_HOSTS = 7125
    DESCRIBE_HOST = 7126
    FORGET_HOST = 7127
    HAND_OVER = 7201


class ResponseCode(IntEnum):
    """
    The code of a response.
    """

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    TRANSACTION_FAILED = 4
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    BROKER_NOT_EXIST = 211
    GO_AWAY = 1500
    CONTROLLER_FENCED_MASTER_EPOCH = 2000
    CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH = 2001
    CONTROLLER_INVALID_MASTER = 2002
    CONTROLLER_INVALID_REPLICAS = 2003
    CONTROLLER_MASTER_NOT_AVAILABLE = 2004
    CONTROLLER_INVALID_REQUEST = 2005
    CONTROLLER_BROKER_NOT_ALIVE = 2006
    CONTROLLER_NOT_LEADER = 2007
    CONTROLLER_BROKER_METADATA_NOT_EXIST = 2008
    CONTROLLER_INVALID_CLEAN_BROKER_METADATA = 2009
    CONTROLLER_BROKER_NEED_TO_BE_REGISTERED = 2010
    CONTROLLER_MASTER_STILL_EXIST = 2011
    CONTROLLER_ELECT_MASTER_FAILED = 2012
    CONTROLLER_ALTER_SYNC_STATE_SET_FAILED = 2013
    CONTROLLER_BROKER_ID_INVALID = 2014
    CONTROLLER_JRAFT_INTERNAL_ERROR = 2015
    CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS = 2016
    OTHER_CLUSTER = 7301
    """Of pystore: the sender belongs to the controllers of another record store."""
    CLUSTER_NOT_BEGUN = 7302
    """Of pystore: the record store is empty, and brokers with ids are there."""
    SET_CHANGED = 7303
    """Of pystore: the record of the set has another version than the sender saw."""
