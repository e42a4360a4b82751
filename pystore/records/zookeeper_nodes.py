"""
Makes the permanent nodes of a record store, through kazoo.

The common ones are made when the first store opens, those of another space by the first
commit to it. The nodes of a space are made in one transaction, so a store that dies
leaves all of them or none, and of two stores that make them at once one is first.
"""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import KazooException, NodeExistsError

from pystore.records.znodes import SpaceNodes, Znodes

__all__ = ["make_common", "make_space"]

_Client = Any  # kazoo has no types


def make_common(client: _Client, znodes: Znodes, timeout_s: float) -> bool:
    """
    Makes the root, the sessions' directory and the common space. Blocks.

    Args:
        client: a started `kazoo.client.KazooClient`.
        znodes: their paths.
        timeout_s: for each answer.

    Returns:
        Whether they were missing.
    """
    # Each with a time-out: without a server kazoo waits without end.
    found = client.exists_async(znodes.common.generation).get(timeout=timeout_s)
    if found is not None:
        return False
    client.ensure_path_async(znodes.root).get(timeout=timeout_s)
    _make(client, (znodes.sessions, *znodes.common.all), timeout_s)
    return True


def make_space(
    client: _Client, znodes: Znodes, nodes: SpaceNodes, timeout_s: float
) -> None:
    """
    Makes the nodes of a space, unless another store does. Blocks.

    Args:
        client: a started `kazoo.client.KazooClient`.
        znodes: of the record store.
        nodes: of the space.
        timeout_s: for each answer.
    """
    _make(client, (znodes.spaces,), timeout_s)
    _make(client, nodes.all, timeout_s)


def _make(client: _Client, paths: tuple[str, ...], timeout_s: float) -> None:
    transaction = client.transaction()
    for path in paths:
        transaction.create(path)
    for result in transaction.commit_async().get(timeout=timeout_s):
        # Another store may be first; other errors are raised.
        if isinstance(result, NodeExistsError):
            break
        if isinstance(result, KazooException):
            raise result
