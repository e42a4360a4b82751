"""
Hosts are stored as RocketMQ stores them, and read as it prints them.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystore.errors import InvalidError
from pystore.message.host import host_text, pack_host


@given(st.ip_addresses(), st.integers(0, 65535))
def test_a_host_is_read_back(address: IPv4Address | IPv6Address, port: int) -> None:
    """
    Packing and printing are inverse; the address comes first, then the port.
    """
    plain = f"[{address.exploded}]" if address.version == 6 else str(address)
    raw = pack_host(f"{plain}:{port}")

    assert address.packed + port.to_bytes(4) == raw
    assert raw == pack_host(host_text(raw))


def test_ipv6_is_printed_with_all_groups_and_no_leading_zeros() -> None:
    """
    Java has the same texts, and golden files contain them.
    """
    assert "[2001:db8:0:0:0:0:0:1]:10911" == host_text(pack_host("[2001:db8::1]:10911"))


@pytest.mark.parametrize(
    "text",
    ["", "host:1", "1.2.3.4", "1.2.3.4:x", "1.2.3.4:65536", "1.2.3.4:-1", "::1:2",
     "[1.2.3.4]:5", "1.2.3:5"],
)  # fmt: skip
def test_a_text_that_is_no_host_is_refused(text: str) -> None:
    """
    Names are not resolved; the error repeats the argument.
    """
    with pytest.raises(InvalidError, match=r"^host "):
        pack_host(text)


def test_a_negative_port_in_a_record_is_printed_as_it_is() -> None:
    """
    A record may hold any 32 bits there.
    """
    assert "127.0.0.1:-1" == host_text(b"\x7f\0\0\x01\xff\xff\xff\xff")
