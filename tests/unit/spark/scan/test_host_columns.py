"""
Addresses of many records equal those of one at a time.
"""

from __future__ import annotations

import numpy as np
import pytest

from pystore.message.constants import IPV4_SIZE, IPV6_SIZE
from pystore.message.host import host_text, pack_host
from pystore.spark.scan.host_columns import address_texts, message_ids

NARROW = ["10.0.0.1:9876", "10.0.0.2:65535", "10.0.0.1:9876"]
WIDE = ["[::1]:1", "[fe80::2]:10911"]


@pytest.mark.parametrize(
    "hosts",
    [NARROW, WIDE, [WIDE[0], NARROW[0], WIDE[1], NARROW[1], WIDE[0]], NARROW[:1]],
)
def test_addresses_and_ids_are_those_of_one_at_a_time(hosts: list[str]) -> None:
    """
    IPv4, IPv6, and both in any order.
    """
    packed = [pack_host(host) for host in hosts]
    sizes = np.array([len(one) for one in packed])
    data = np.frombuffer(b"?".join([b"", *packed]), np.uint8)
    at = np.cumsum(sizes + 1) - sizes
    is_wide = sizes == IPV6_SIZE
    offsets = np.array([2**40 + number for number in range(len(hosts))], np.uint64)

    texts = address_texts(data, at, is_wide).to_pylist()
    ids = message_ids(data, at, is_wide, offsets).to_pylist()

    assert [host_text(one) for one in packed] == texts
    assert [
        (one + int(offset).to_bytes(8)).hex().upper()
        for one, offset in zip(packed, offsets, strict=True)
    ] == ids
    assert {IPV4_SIZE, IPV6_SIZE} >= set(sizes.tolist())
