"""
The codes that a controller answers with, under RocketMQ's numbers. Pure.

Source: formats 3.6.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Code"]


class Code(IntEnum):
    """
    What became of a request.
    """

    SUCCESS = 0
    FENCED_MASTER_EPOCH = 2000
    FENCED_SET_EPOCH = 2001
    INVALID_MASTER = 2002
    INVALID_REPLICAS = 2003
    MASTER_NOT_AVAILABLE = 2004
    INVALID_REQUEST = 2005
    BROKER_NOT_ALIVE = 2006
    NOT_LEADER = 2007
    METADATA_NOT_EXIST = 2008
    INVALID_CLEAN = 2009
    NEED_TO_BE_REGISTERED = 2010
    MASTER_STILL_EXISTS = 2011
    ELECT_MASTER_FAILED = 2012
    ALTER_SET_FAILED = 2013
    BROKER_ID_INVALID = 2014
