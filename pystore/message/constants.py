"""
The numbers of RocketMQ's record layout: magics, flag bits, positions, sizes. Pure.

``csrc/format.h`` has the same numbers for the core; a test compares the two.

Source: docs/format.md, message record (formats 1.3, 1.5).
"""

from __future__ import annotations

MAGIC_V1 = 0xDAA320A7
"""A record whose topic length has one byte."""

MAGIC_V2 = 0xDAA320AB
"""A record whose topic length has two bytes."""

MAGIC_BLANK = 0xCBD43194
"""A blank record: it fills the rest of a segment."""

BLANK_SIZE = 8
"""Bytes of the smallest blank record: its size and its magic."""

RECORD_SIZE_MIN = 91
"""Bytes of a V1 record with IPv4 hosts and without body, topic and properties."""

# Positions in a record. `AT_STORE_MS` is counted without the born host,
# `AT_RECONSUME_TIMES` and `AT_BODY` without both hosts: add their sizes.
AT_OFFSET = 28
AT_SYS_FLAG = 36
AT_BORN_HOST = 48
AT_STORE_MS = AT_BORN_HOST
AT_RECONSUME_TIMES = 56
AT_BODY = 72

IPV4_SIZE = 8
"""Bytes of an IPv4 address and its port."""

IPV6_SIZE = 20
"""Bytes of an IPv6 address and its port."""

# Bits of the system flag.
COMPRESSED = 0x1
NO_ENTRY = 0x4
"""Set in PREPARED (4) and ROLLBACK (12) records: they have no consume queue entry."""

BORN_IPV6 = 0x10
STORE_IPV6 = 0x20
INNER_BATCH = 0x80
"""The record holds several messages (RocketMQ 5.3); the core writes no such record."""

TOPIC_SIZE_MAX_V1 = 127
TOPIC_SIZE_MAX_V2 = 32767
PROPERTIES_SIZE_MAX = 32767
"""The largest value of the properties' length field."""

CRC_NAME = "__CRC32#"
CRC_SIZE = 20
"""Bytes of the CRC property, which is the last of a record that has one."""

CRC_MASK = 0x7FFFFFFF
"""RocketMQ keeps 31 bits of a CRC-32."""


def born_host_size(sys_flag: int) -> int:
    """
    Returns the bytes of the born host: 8 or 20.
    """
    return IPV6_SIZE if sys_flag & BORN_IPV6 else IPV4_SIZE


def store_host_size(sys_flag: int) -> int:
    """
    Returns the bytes of the store host: 8 or 20.
    """
    return IPV6_SIZE if sys_flag & STORE_IPV6 else IPV4_SIZE
