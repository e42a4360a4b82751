"""
Lists of addresses and networks.
"""

from __future__ import annotations

import pytest

from pystore.errors import InvalidError
from pystore.net.networks import is_in, parse_networks

LIST = " 10.0.0.7, 10.1.0.0/16,fd00::/8 "


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("10.0.0.7", True),
        ("10.0.0.8", False),
        ("10.1.255.1", True),
        ("fd12::1", True),
        ("fe80::1%eth0", False),
        ("", False),
        ("host.example", False),
    ],
)
def test_an_address_is_in_one_of_the_networks(host: str, *, expected: bool) -> None:
    """A name is in none: its address may change."""
    assert expected == is_in(host, parse_networks(LIST, "haUnproven"))
    assert not is_in(host, ())
    assert parse_networks("", "haUnproven") == ()


@pytest.mark.parametrize("text", ["host.example", "10.0.0.7/8", "10.0.0", "*"])
def test_what_is_no_network_is_refused(text: str) -> None:
    """In one line with the setting."""
    with pytest.raises(InvalidError, match=r"^haUnproven: "):
        parse_networks(f"10.0.0.1, {text}", "haUnproven")
