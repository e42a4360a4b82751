"""
With which user a session speaks to ZooKeeper, over which connections, and who may use
the nodes it makes.

A user is a digest of ZooKeeper: a name and a password, which the servers do not keep;
or one of SASL, which the servers know. With a user every node is for that user only;
nodes that all may use, from before there was one, are given to it at the next opening.

Source: ZooKeeper's guide for administrators, *ACL*; docs/security.md, *ZooKeeper*.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    InvalidACLError,
    NoAuthError,
    NoNodeError,
)
from kazoo.security import ACL, make_acl, make_digest_acl

from pystore.records.spaces import COMMON
from pystore.records.znodes import Znodes

__all__ = ["ZookeeperTls", "ZookeeperUser", "give_nodes", "is_refusal"]

_REFUSALS = (AuthFailedError, InvalidACLError, NoAuthError)
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ZookeeperUser:
    """
    A user of ZooKeeper.

    Attributes:
        name: without a colon.
        password: shown in no text.
        is_sasl: the servers know it (SASL with DIGEST-MD5).
    """

    name: str
    password: str = field(repr=False)
    is_sasl: bool = False

    @property
    def acl(self) -> list[ACL]:
        """
        The rights of a node: all of them, for this user only.
        """
        if self.is_sasl:
            return [make_acl("sasl", self.name, all=True)]
        return [make_digest_acl(self.name, self.password, all=True)]

    @property
    def options(self) -> dict[str, Any]:
        """
        What a session shows: options of `kazoo.client.KazooClient`.
        """
        if self.is_sasl:
            shown = {
                "mechanism": "DIGEST-MD5",
                "username": self.name,
                "password": self.password,
            }
            return {"sasl_options": shown, "default_acl": self.acl}
        shown_digest = [("digest", f"{self.name}:{self.password}")]
        return {"auth_data": shown_digest, "default_acl": self.acl}


@dataclass(frozen=True, slots=True)
class ZookeeperTls:
    """
    TLS of the connections to ZooKeeper: the names of its servers are checked.

    Attributes:
        authorities: the certificates that servers are verified with, in PEM.
        certificate: of this process, with its chain; ``None``: none is shown.
        key: of the certificate.
    """

    authorities: Path
    certificate: Path | None = None
    key: Path | None = None

    @property
    def options(self) -> dict[str, Any]:
        """
        Options of `kazoo.client.KazooClient`.
        """
        own = {"certfile": self.certificate, "keyfile": self.key}
        return {
            "use_ssl": True,
            "verify_certs": True,
            "check_hostname": True,
            "ca": os.fspath(self.authorities),
            **{name: os.fspath(one) for name, one in own.items() if one is not None},
        }


def is_refusal(error: Exception) -> bool:
    """
    Returns whether ZooKeeper answered, and refused for a lack of rights.
    """
    return isinstance(error, _REFUSALS)


def give_nodes(client: Any, znodes: Znodes, acl: list[ACL], timeout_s: float) -> None:  # noqa: ANN401
    """
    Gives all nodes of a record store that everyone may use to one user. Blocks.

    Args:
        client: a started `kazoo.client.KazooClient`.
        znodes: their paths.
        acl: of the user.
        timeout_s: for each answer.
    """
    # The last ones: until they are given the next opening begins again. A program from
    # before there were spaces gives only the first of them.
    last = [znodes.common.generation, znodes.spaces]
    if not any(_is_open(client, one, timeout_s) for one in last):
        return
    paths = list(_paths(client, znodes, timeout_s))
    for at in range(0, len(paths), _AT_ONCE):
        some = paths[at : at + _AT_ONCE]
        for result in [client.set_acls_async(one, acl) for one in some]:
            result.get(timeout=timeout_s)
    for one in last:
        # Without a space but the common one there is no directory of spaces.
        with contextlib.suppress(NoNodeError):
            client.set_acls_async(one, acl).get(timeout=timeout_s)


def _is_open(client: Any, path: str, timeout_s: float) -> bool:  # noqa: ANN401
    try:
        found, _ = client.get_acls_async(path).get(timeout=timeout_s)
    except NoNodeError:
        # Nothing to be given.
        return False
    return any(one.id.scheme == "world" for one in found)


def _paths(client: Any, znodes: Znodes, timeout_s: float) -> Iterator[str]:  # noqa: ANN401
    yield from (znodes.root, znodes.sessions)
    spaces = [COMMON]
    with contextlib.suppress(NoNodeError):
        # Without a space but the common one there is no directory of spaces.
        names = client.get_children_async(znodes.spaces).get(timeout=timeout_s)
        spaces += map(znodes.key, names)
    for nodes in map(znodes.of_space, spaces):
        yield from (path for path in nodes.all if path != znodes.common.generation)
        listed = [(one, client.get_children_async(one)) for one in nodes.buckets]
        for bucket, result in listed:
            yield from (f"{bucket}/{name}" for name in result.get(timeout=timeout_s))
