"""
Lists of addresses and networks. Pure.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from pystore.errors import InvalidError

__all__ = ["Networks", "is_in", "parse_networks"]

Networks = tuple[IPv4Network | IPv6Network, ...]


def parse_networks(text: str, where: str) -> Networks:
    """
    Returns the networks of a list such as ``10.0.0.7, 10.1.0.0/16, fd00::/8``.

    Args:
        text: the list; may be empty.
        where: the setting, for the message.

    Raises:
        InvalidError: an entry is neither an address nor a network.
    """
    found = []
    for entry in filter(None, (one.strip() for one in text.split(","))):
        try:
            found.append(ip_network(entry))
        except ValueError as error:
            # Such as a host name, or 10.0.0.7/8.
            raise InvalidError(f"{where}: {error}") from error
    return tuple(found)


def is_in(host: str, networks: Networks) -> bool:
    """
    Returns whether an address is in one of the networks; a name is in none.
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        # The peer has disconnected, or has no IP address.
        return False
    return any(address in one for one in networks)
