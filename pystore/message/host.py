"""
Addresses of hosts in a record: the address, then the port. Pure.

Source: docs/format.md, message record (formats 1.3): 4 or 16 address bytes and
the port as a 32-bit number, big-endian.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from pystore.errors import InvalidError
from pystore.message.constants import IPV4_SIZE

__all__ = ["host_text", "pack_host"]

_PORT_MAX = 65535


@lru_cache(maxsize=1024)
def pack_host(text: str) -> bytes:
    """
    Returns the 8 or 20 bytes of ``address:port`` or ``[address]:port``.

    Raises:
        InvalidError: no IP address (names are not resolved), or no such port.
    """
    if not isinstance(text, str):
        raise InvalidError(f"host {text!r} is {type(text).__name__}, it must be str")
    address, _, port = text.rpartition(":")
    try:
        parsed = ip_address(address.removeprefix("[").removesuffix("]"))
        number = int(port)
    except ValueError as error:  # of the address or the port
        raise InvalidError(f"host {text!r} is not address:port") from error
    if not 0 <= number <= _PORT_MAX:
        raise InvalidError(f"host {text!r}: the port is not in 0..{_PORT_MAX}")
    if address.startswith("[") is not isinstance(parsed, IPv6Address):
        raise InvalidError(f"host {text!r}: brackets are for IPv6, and only for it")
    return parsed.packed + number.to_bytes(4)


@lru_cache(maxsize=1024)
def host_text(raw: bytes) -> str:
    """
    Returns ``address:port``, or ``[address]:port`` with all eight groups.

    Args:
        raw: 8 or 20 bytes of a record.
    """
    port = int.from_bytes(raw[-4:], signed=True)
    if len(raw) == IPV4_SIZE:
        return f"{raw[0]}.{raw[1]}.{raw[2]}.{raw[3]}:{port}"
    groups = (f"{raw[at] << 8 | raw[at + 1]:x}" for at in range(0, 16, 2))
    return f"[{':'.join(groups)}]:{port}"
