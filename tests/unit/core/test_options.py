"""
Options reach the core as they were given, or are refused by name.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pystore.bindings.ffi import ffi, lib
from pystore.core.options import LogOptions, Route
from pystore.errors import InvalidError


def test_options_are_the_struct_of_the_core() -> None:
    """
    Every field is in the struct.
    """
    packed = LogOptions(
        writable=True,
        segment_size=4096,
        property_crc=False,
        message_size_max=5,
        flush_interval_ms=6,
        writeback_bytes=7,
        store_host="[1::2]:9",
    ).pack()

    assert (4096, 5, 6, 7) == (
        packed.segment_size,
        packed.message_size_max,
        packed.flush_interval_ms,
        packed.writeback_bytes,
    )
    assert (lib.PS_MODE_WRITE, 0, 20) == (
        packed.mode,
        packed.property_crc,
        packed.store_host_size,
    )
    assert packed.wake_one_by_one == getattr(sys, "_is_gil_enabled", lambda: True)()
    host = bytes(ffi.buffer(packed.store_host))
    assert bytes([0, 1, *[0] * 13, 2, 0, 0, 0, 9]) == host


def test_the_default_is_to_read() -> None:
    """
    The default is to read.
    """
    packed = LogOptions().pack()

    assert (lib.PS_MODE_READ, 1, 8) == (
        packed.mode,
        packed.property_crc,
        packed.store_host_size,
    )
    assert lib.PS_MODE_READ_ILL == LogOptions(serves_ill=True).pack().mode


def test_a_route_is_the_struct_of_the_core() -> None:
    """
    Every field is in the struct; without a born host its size is 0.
    """
    packed, topic = Route("T", 1, 2, 3, 4, "1.2.3.4:5").pack()

    assert (1, 2, 3, 4) == (
        packed.queue_id,
        packed.born_ms,
        packed.sys_flag,
        packed.reconsume_times,
    )
    assert b"T" == bytes(ffi.buffer(packed.topic, packed.topic_size))
    assert 8 == packed.born_host_size
    assert bytes([1, 2, 3, 4, 0, 0, 0, 5]) == bytes(ffi.buffer(packed.born_host))[:8]
    assert 1 == len(topic)
    assert 0 == Route("T").pack()[0].born_host_size


@pytest.mark.parametrize(
    "fields",
    [{"segment_size": -1}, {"message_size_max": 2**32}, {"store_host": "here"}],
)
def test_options_that_no_log_could_have_are_refused(fields: dict[str, Any]) -> None:
    """
    The error repeats the argument.
    """
    value = next(iter(fields.values()))

    with pytest.raises(InvalidError, match=str(value)):
        LogOptions(**fields).pack()


@pytest.mark.parametrize(
    "fields", [{"queue_id": 2**31}, {"topic": "a/b"}, {"born_host": "here"}]
)
def test_a_route_that_no_log_could_take_is_refused(fields: dict[str, Any]) -> None:
    """
    The error repeats the argument.
    """
    value = next(iter(fields.values()))

    with pytest.raises(InvalidError, match=str(value)):
        Route(**({"topic": "T"} | fields)).pack()
