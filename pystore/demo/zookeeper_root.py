"""
A node of ZooKeeper for the records of one run: another one each time, so that broker
ids begin at 1, and removed at the end.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pystore.errors import UnavailableError

__all__ = ["zookeeper_root"]

_START_S = 10


@contextmanager
def zookeeper_root(hosts: str) -> Iterator[str]:
    """
    Yields the path of a node for the records of controllers, and removes it at the end.

    Args:
        hosts: the servers, ``HOST:PORT,...``; empty: there are none, and the path is
            empty, too.

    Raises:
        UnavailableError: kazoo is not installed, or no server answers.
    """
    if not hosts:
        yield ""
        return
    try:
        # Only this part of the demo needs it.
        from kazoo.client import KazooClient  # noqa: PLC0415
        from kazoo.exceptions import KazooException  # noqa: PLC0415
        from kazoo.handlers.threading import KazooTimeoutError  # noqa: PLC0415
    except ImportError as error:
        # An extra of the distribution.
        raise UnavailableError(
            "this Python has no kazoo: pip install 'pystore-commitlog[zookeeper]'"
        ) from error
    client = KazooClient(hosts)
    try:
        client.start(_START_S)
    except KazooTimeoutError as error:
        # The caller named a server that does not run.
        client.close()
        raise UnavailableError(f"no ZooKeeper answers at {hosts}") from error
    root = f"/pystore-demo-{secrets.token_hex(4)}"
    try:
        yield root
    finally:
        # The run has its result; what stays in ZooKeeper is some small nodes.
        with suppress(KazooException, KazooTimeoutError):
            client.delete(root, recursive=True)
        client.stop()
        client.close()
