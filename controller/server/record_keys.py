"""
Where in the record store a controller keeps what. Pure.

All keys begin alike, so that others may share the store. A set's names are escaped,
so that neither of them can pass for a part of another key.

Source: R37; docs/controller.md.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from pystore.records.ops import check_key

__all__ = [
    "LEADER",
    "PEERS",
    "PROOF",
    "SETS",
    "SETTINGS",
    "names_of",
    "peer_key",
    "set_key",
]

LEADER = "controller/leader"
"""Who holds it leads; its value is the leader's address."""

PEERS = "controller/peers/"
"""One record for each controller that runs, held by it."""

PROOF = "controller/proof"
"""Is written again and again by who leads, to prove that it still does (C2)."""

SETS = "controller/sets/"
"""One record for each set of brokers."""

SETTINGS = "controller/settings"
"""What an administrator changed while controllers ran."""


def set_key(cluster: str, name: str) -> str:
    """
    Returns the key of a set.

    Raises:
        InvalidError: the names are too long for a key.
    """
    key = f"{SETS}{_escaped(cluster)}/{_escaped(name)}"
    check_key(key)
    return key


def names_of(key: str) -> tuple[str, str]:
    """
    Returns cluster and name of the set whose key this is, or would be.
    """
    cluster, _, name = key.removeprefix(SETS).partition("/")
    return _read(cluster), _read(name)


def peer_key(address: str) -> str:
    """
    Returns the key of a controller.

    Raises:
        InvalidError: the address is too long for a key.
    """
    key = f"{PEERS}{_escaped(address)}"
    check_key(key)
    return key


def _escaped(text: str) -> str:
    return quote(text, safe=":", errors="surrogatepass")


def _read(text: str) -> str:
    return unquote(text, errors="surrogatepass")
