"""
The keys of a controller in the record store. Pure.

All keys have one prefix, so that other programs may share the store. The names of a set
are escaped, so that a name cannot look like a part of another key.

Source: RMQ-R37; docs/controller.md.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from pystore.access.users import check_user_name
from pystore.records.ops import check_key

__all__ = [
    "AUDIT",
    "CLUSTER",
    "HISTORY",
    "HOSTS",
    "LEADER",
    "PEERS",
    "PROOF",
    "SETS",
    "SETTINGS",
    "SETTINGS_BY",
    "USERS",
    "USERS_CHANGED",
    "history_key",
    "host_key",
    "names_of",
    "peer_key",
    "set_key",
    "user_key",
]

AUDIT = "controller/audit/"
"""One record for each of the last orders of operators."""

CLUSTER = "controller/cluster"
"""The identity of this record store, made by the first controller that led."""

HISTORY = "controller/hist/"
"""The last events of each set; as long as `SETS`, so each set has a key."""

HOSTS = "controller/hosts/"
"""One record for each host that carries a replica of a set."""

LEADER = "controller/leader"
"""The controller that holds it leads; its value is the address of the leader."""

PEERS = "controller/peers/"
"""One record for each running controller, held by it."""

PROOF = "controller/proof"
"""Written at intervals by the leader, to prove that it still leads (C2)."""

SETS = "controller/sets/"
"""One record for each set of brokers."""

SETTINGS = "controller/settings"
"""The settings that an administrator changed while controllers ran."""

SETTINGS_BY = "controller/settings-by"
"""Who changed each of them, and when."""

USERS = "controller/users/"
"""One record for each user, sealed."""

USERS_CHANGED = "controller/users-changed"
"""Written with each of them: to read it costs less than to list them."""


def set_key(cluster: str, name: str) -> str:
    """
    Returns the key of a set.

    Raises:
        InvalidError: the names are too long for a key.
    """
    key = f"{SETS}{_escaped(cluster)}/{_escaped(name)}"
    check_key(key)
    return key


def history_key(cluster: str, name: str) -> str:
    """
    Returns the key of the events of a set.

    Raises:
        InvalidError: as `set_key`.
    """
    return HISTORY + set_key(cluster, name).removeprefix(SETS)


def host_key(address: str) -> str:
    """
    Returns the key of a host.

    Raises:
        InvalidError: the address is too long for a key.
    """
    key = f"{HOSTS}{_escaped(address)}"
    check_key(key)
    return key


def names_of(key: str) -> tuple[str, str]:
    """
    Returns cluster and name of the set with this key.
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


def user_key(name: str) -> str:
    """
    Returns the key of a user; its name needs no escapes.

    Raises:
        InvalidError: it is not the name of a user.
    """
    check_user_name(name)
    return USERS + name


def _escaped(text: str) -> str:
    return quote(text, safe=":", errors="surrogatepass")


def _read(text: str) -> str:
    return unquote(text, errors="surrogatepass")
