"""
Addresses of listeners and peers as text, and the warning for an open listener. Pure.
"""

from __future__ import annotations

import ipaddress

from pystore.errors import InvalidError

__all__ = ["exposure_warning", "is_reachable", "parse_address", "parse_listen_address"]

_PORT_MAX = (1 << 16) - 1
_HOST_MAX = 253
_SHOWN = 100


def parse_address(text: str) -> tuple[str, int]:
    """
    Returns host and port of ``HOST:PORT``; an IPv6 host may stand in brackets.

    Raises:
        InvalidError: the text is no address of a peer.
    """
    host, port = _split(text)
    if not host:
        raise InvalidError(f"{text!r} is no HOST:PORT")
    if not 0 < port <= _PORT_MAX:
        raise InvalidError(f"{text!r}: a port is within 1 and {_PORT_MAX}")
    if not _is_host(host):
        raise InvalidError(
            f"{text[:_SHOWN]!r}: what is before the port is no name of a host: a label "
            "has 1 to 63 characters, a name 253"
        )
    return host, port


def _is_host(host: str) -> bool:
    """
    Returns whether a resolver takes a host: for others Python raises a `UnicodeError`
    or a `ValueError` when it connects.
    """
    if len(host) > _HOST_MAX or " " in host or not host.isprintable():
        return False
    try:
        return len(host.encode("idna")) <= _HOST_MAX
    except UnicodeError:
        # An empty or too long label, or half of a surrogate pair.
        return False


def parse_listen_address(text: str) -> tuple[str, int]:
    """
    Returns host and port of ``HOST:PORT`` where a server listens.

    An empty host is every address of this machine; port 0 is any free port.

    Raises:
        InvalidError: the text is no address to listen on.
    """
    host, port = _split(text)
    if port > _PORT_MAX:
        raise InvalidError(f"{text!r}: a port is within 0 and {_PORT_MAX}")
    return host, port


def _split(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not (colon and port.isascii() and port.isdigit()):
        raise InvalidError(f"{text!r} is no HOST:PORT")
    # Python refuses to convert thousands of digits; six are out of range already.
    return host, int(port[:6])


def exposure_warning(host: str, port: int, service: str, risk: str) -> str | None:
    """
    Returns a warning if other machines can reach a listener; ``None``: they cannot.

    Args:
        host: where it listens; empty: every address.
        port: where it listens.
        service: the protocol, as the subject of the warning.
        risk: a sentence without a full stop: what a stranger could do.
    """
    if not is_reachable(host):
        return None
    return (
        f"warning: {service} listens on {host or 'every address'}:{port} without "
        f"passwords or encryption: {risk}; let a firewall keep strangers out"
    )


def is_reachable(host: str) -> bool:
    """
    Returns whether other machines can reach a listener at a host; empty: at every
    address of this machine.
    """
    return host != "localhost" and not _is_loopback(host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # A name, or empty for every address: it may be reachable from outside.
        return False
