"""
A commit as one ZooKeeper transaction, with checks of the read versions. Pure.

ZooKeeper can check only a node's own version, which starts at 0 again when the node is
created again. So each transaction that creates a node also raises the version of its
guard. A transaction that relies on an existing node checks both versions: that of the
guard, and that of the node, which was read after it. If such a check fails, nothing is
decided, and the commit is planned again.

A missing node needs no guard: the creation of a node checks that it is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pystore.records.ops import ABSENT, Delete, Hold, KeyOps
from pystore.records.spaces import changed_spaces
from pystore.records.znodes import Znodes

__all__ = ["NodesRead", "Seen", "Transaction", "is_guarded", "plan"]


class Seen(Protocol):
    """
    The status of a node in ZooKeeper.
    """

    @property
    def version(self) -> int:
        """
        The number of changes since its creation.
        """
        ...

    @property
    def mzxid(self) -> int:
        """
        The number of the transaction that changed it last, unique in the store.
        """
        ...

    @property
    def ephemeralOwner(self) -> int | None:  # noqa: N802 - ZooKeeper's name
        """
        The session that holds it; 0 or ``None``: none.
        """
        ...


class Transaction(Protocol):
    """
    The operations that kazoo collects for one request.
    """

    def check(self, path: str, version: int) -> None:
        """
        Checks that a node exists and has this version; -1: any.
        """
        ...

    def create(self, path: str, value: bytes, *, ephemeral: bool = False) -> None:
        """
        Creates a node that does not exist.
        """
        ...

    def set_data(self, path: str, value: bytes, version: int = -1) -> None:
        """
        Changes a node that exists and has this version.
        """
        ...

    def delete(self, path: str, version: int = -1) -> None:
        """
        Deletes a node that exists and has this version.
        """
        ...


@dataclass(frozen=True, slots=True)
class NodesRead:
    """
    The state that was read for a commit, the guards before the nodes.

    Attributes:
        guards: versions by path, of the keys that need one.
        nodes: by key; ``None``: missing.
    """

    guards: Mapping[str, int]
    nodes: Mapping[str, Seen | None]


def is_guarded(ops: KeyOps) -> bool:
    """
    Returns whether a commit may rely on an existing node, and so needs its guard.
    """
    if ops.version is None:
        return isinstance(ops.write, Hold)
    return ops.version != ABSENT


def plan(
    keys: Mapping[str, KeyOps],
    read: NodesRead,
    session: int,
    znodes: Znodes,
    transaction: Transaction,
) -> bool | None:
    """
    Adds the operations of a commit to a transaction.

    Args:
        keys: of the commit.
        read: the state that was read.
        session: of this store.
        znodes: the paths.
        transaction: receives the operations, those on generations last.

    Returns:
        Whether it changes anything; ``None``: a check or a hold fails.
    """
    if not all(_holds(ops, read.nodes[key], session) for key, ops in keys.items()):
        return None
    made: set[str] = set()
    checked: set[str] = set()
    steps: list[Callable[[], None]] = []
    for key, ops in keys.items():
        seen, guard = read.nodes[key], znodes.guard(key)
        if seen is None:
            steps.append(_absent(transaction, znodes.node(key), ops))
            if ops.write is not None and not isinstance(ops.write, Delete):
                made.add(guard)
            continue
        is_checked = is_guarded(ops)
        if is_checked:
            checked.add(guard)
        version = seen.version if is_checked else -1
        steps.append(_present(transaction, znodes.node(key), ops, version))
    for guard in sorted(made | checked):
        version = read.guards[guard] if guard in checked else -1
        if guard in made:
            transaction.set_data(guard, b"", version)
        else:
            transaction.check(guard, version)
    for step in steps:
        step()
    changed = changed_spaces(keys, {k: read.nodes[k] is not None for k in keys})
    for space in changed:
        transaction.set_data(znodes.of_space(space).generation, b"")
    return bool(changed)


def _holds(ops: KeyOps, seen: Seen | None, session: int) -> bool:
    if ops.version not in (None, ABSENT if seen is None else seen.mzxid):
        return False
    is_free = seen is None or seen.ephemeralOwner == session
    return is_free or not isinstance(ops.write, Hold)


def _absent(transaction: Transaction, path: str, ops: KeyOps) -> Callable[[], None]:
    """
    Returns the operations on a missing node: its creation checks that it is missing.
    """
    write = ops.write
    if write is not None and not isinstance(write, Delete):
        value, is_held = write.value, isinstance(write, Hold)
        return lambda: transaction.create(path, value, ephemeral=is_held)

    def create_and_delete() -> None:
        transaction.create(path, b"")
        transaction.delete(path)

    return create_and_delete


def _present(
    transaction: Transaction, path: str, ops: KeyOps, version: int
) -> Callable[[], None]:
    write = ops.write
    if write is None:
        return lambda: transaction.check(path, version)
    if isinstance(write, Delete):
        return lambda: transaction.delete(path, version)
    value = write.value
    return lambda: transaction.set_data(path, value, version)
