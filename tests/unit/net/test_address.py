"""
Addresses as text: what is parsed, what is refused, and when a listener warns.
"""

from __future__ import annotations

import pytest

from pystore.errors import InvalidError
from pystore.net.address import exposure_warning, parse_address, parse_listen_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", ("a", 1)),
        ("host:10912", ("host", 10912)),
        ("[::1]:9878", ("::1", 9878)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
    ],
)
def test_an_address_is_host_and_port(text: str, expected: tuple[str, int]) -> None:
    """
    RocketMQ writes addresses in this form; an IPv6 host may stand in brackets.
    """
    assert expected == parse_address(text)
    assert expected == parse_listen_address(text)


@pytest.mark.parametrize(
    "text", ["", "a", ":1", "[]:1", "a:", "a:x", "a:0", "a:-1", "a:65536", "a:\u0661"]
)
def test_text_that_is_no_address_is_refused(text: str) -> None:
    """
    The error names the text and what is expected instead.
    """
    expected = r"^'.*(is no HOST:PORT|within 1 and 65535)$"
    with pytest.raises(InvalidError, match=expected):
        parse_address(text)


def test_a_port_of_thousands_of_digits_is_out_of_range() -> None:
    """
    Python does not convert so many digits, so the error has to be ours.
    """
    with pytest.raises(InvalidError, match="within 1 and 65535"):
        parse_address("a:" + "9" * 5000)


def test_a_listen_address_may_have_no_host_and_port_0() -> None:
    """
    They mean every address of the machine, and any free port.
    """
    assert ("", 0) == parse_listen_address(":0")
    for wrong in ("", "a", "a:x", "a:65536"):
        with pytest.raises(InvalidError, match=r"is no HOST:PORT|within 0 and 65535"):
            parse_listen_address(wrong)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_a_loopback_listener_needs_no_warning(host: str) -> None:
    """
    Other machines cannot reach these addresses.
    """
    assert exposure_warning(host, 1, "x", "y") is None


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "broker-a"])
def test_a_listener_that_others_reach_warns(host: str) -> None:
    """
    The warning has the service, the address, the risk and what to do.
    """
    warning = exposure_warning(host, 10912, "replication", "a stranger can read")

    assert warning is not None
    assert warning.startswith("warning: replication listens on ")
    assert f"{host or 'every address'}:10912" in warning
    assert "a stranger can read" in warning
    assert "firewall" in warning
